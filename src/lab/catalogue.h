// SPDX-License-Identifier: Apache-2.0
// One function per experiment. experiment.cc has the table of them.
#pragma once

#include "lab/experiment.h"

namespace tutti::lab {

// sc11.cc
Result<ExperimentResult> sc11_figure2(const LabOptions& options);
Result<ExperimentResult> sc11_formulas(const LabOptions& options);
Result<ExperimentResult> sc11_figure5(const LabOptions& options);
// sc11_scale.cc
Result<ExperimentResult> sc11_figure6(const LabOptions& options);
Result<ExperimentResult> sc11_figure7(const LabOptions& options);
Result<ExperimentResult> sc11_figure8(const LabOptions& options);
// agios.cc
Result<ExperimentResult> agios_patterns(const LabOptions& options);
// agios_figure3.cc
Result<ExperimentResult> agios_figure3(const LabOptions& options);
// agios_live.cc
Result<ExperimentResult> agios_patterns_live(const LabOptions& options);
// forwarding.cc
Result<ExperimentResult> twins_forwarding(const LabOptions& options);
// thesis.cc
Result<ExperimentResult> thesis_identical(const LabOptions& options);
Result<ExperimentResult> thesis_mixed(const LabOptions& options);
Result<ExperimentResult> thesis_scale(const LabOptions& options);
// thesis_more.cc
Result<ExperimentResult> thesis_striped(const LabOptions& options);
Result<ExperimentResult> thesis_outsider(const LabOptions& options);
Result<ExperimentResult> thesis_overhead(const LabOptions& options);
// resonant.cc
Result<ExperimentResult> resonant_demo(const LabOptions& options);
Result<ExperimentResult> resonant_interference(const LabOptions& options);
Result<ExperimentResult> resonant_scaling(const LabOptions& options);
// resonant_live.cc
Result<ExperimentResult> resonant_demo_live(const LabOptions& options);
// resonant_benchmarks.cc
Result<ExperimentResult> resonant_benchmarks(const LabOptions& options);
// checkpoints.cc. The size is the same in all modes.
struct CheckpointSize {
  unsigned jobs = 10;
  Bytes smallest{8 << 20};  // of a checkpoint; the largest is 16 times as large
  Bytes operation{1 << 20};
  unsigned placements = 10;  // random positions of the files on the disks; they change the mean by up to 10%
};
Result<ExperimentResult> checkpoints_in(const LabOptions& options, unsigned processes, const CheckpointSize& size);
Result<ExperimentResult> checkpoints(const LabOptions& options);
Result<ExperimentResult> checkpoints_processes(const LabOptions& options);
// cheating.cc
Result<ExperimentResult> cheating(const LabOptions& options);
// predicted_sizes.cc
Result<ExperimentResult> predicted_sizes(const LabOptions& options);
// beyond.cc
Result<ExperimentResult> beyond_unequal(const LabOptions& options);

}  // namespace tutti::lab

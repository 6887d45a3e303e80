// SPDX-License-Identifier: Apache-2.0
// One function per experiment; experiment.cc makes the list of them.
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
// forwarding.cc
Result<ExperimentResult> twins_forwarding(const LabOptions& options);
// thesis.cc
Result<ExperimentResult> thesis_identical(const LabOptions& options);
Result<ExperimentResult> thesis_mixed(const LabOptions& options);
Result<ExperimentResult> thesis_scale(const LabOptions& options);
// thesis_live.cc
Result<ExperimentResult> thesis_identical_live(const LabOptions& options);
Result<ExperimentResult> thesis_mixed_live(const LabOptions& options);
Result<ExperimentResult> thesis_scale_live(const LabOptions& options);
// sc11_live.cc
Result<ExperimentResult> sc11_figure5_live(const LabOptions& options);
Result<ExperimentResult> sc11_figure6_live(const LabOptions& options);
Result<ExperimentResult> checkpoints_live(const LabOptions& options);
// beyond.cc
Result<ExperimentResult> beyond_unequal(const LabOptions& options);

}  // namespace tutti::lab

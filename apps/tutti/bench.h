// SPDX-License-Identifier: Apache-2.0
// The parts of `tutti bench`, one .cc each.
#pragma once

#include "base/median.h"
#include "command.h"

namespace tutti::cli {

// Options that all benchmarks have.
struct BenchArguments {
  bool quick = false;
  bool json = false;

  void define(CommandLine& line, const std::string& quick_means);
};

Command bench_gate_command();
Command bench_memory_command();
Command bench_net_command();
Command bench_plan_command();
Command bench_predict_command();
Command bench_sched_command();
Command bench_trace_command();

}  // namespace tutti::cli

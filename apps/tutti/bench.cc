// SPDX-License-Identifier: Apache-2.0
// tutti bench: measures the speed of Tutti's parts on this machine.
#include "bench.h"

#include "command.h"

namespace tutti::cli {

void BenchArguments::define(CommandLine& line, const std::string& quick_means) {
  line.flag("--quick", quick, quick_means);
  line.json(json);
}

Command bench_command() {
  return {"bench", "Measure the speed of Tutti on this machine", [](CommandLine& line) {
            for (const Command& part :
                 {bench_gate_command(), bench_memory_command(), bench_net_command(), bench_plan_command(),
                  bench_predict_command(), bench_sched_command(), bench_trace_command()})
              part.define(line.subcommand(part.name, part.summary));
          }};
}

}  // namespace tutti::cli

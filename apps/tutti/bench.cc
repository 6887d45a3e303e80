// SPDX-License-Identifier: Apache-2.0
// tutti bench: how fast the parts of Tutti are on this machine.
#include "bench.h"

#include "command.h"

namespace tutti::cli {

Command bench_command() {
  return {"bench", "Measure how fast Tutti is on this machine", [](CLI::App& app) {
            app.require_subcommand(1);
            auto parts = std::make_shared<std::vector<std::pair<CLI::App*, std::function<int()>>>>();
            for (const Command& part :
                 {bench_gate_command(), bench_memory_command(), bench_net_command(), bench_sched_command()}) {
              CLI::App* sub = app.add_subcommand(part.name, part.summary);
              parts->emplace_back(sub, part.define(*sub));
            }
            return [parts] {
              for (auto& [sub, action] : *parts)
                if (sub->parsed()) return action();
              return kUsage;
            };
          }};
}

}  // namespace tutti::cli

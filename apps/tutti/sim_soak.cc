// SPDX-License-Identifier: Apache-2.0
// tutti sim soak: jobs pass through a cluster for weeks of virtual time.
#include <fmt/core.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "sim/soak.h"
#include "sim_faults.h"

namespace tutti::cli {
namespace {

struct SoakArguments {
  double days = 30;
  std::uint64_t jobs = 20'000;
  std::uint64_t seed = 1;
  bool json = false;
};

std::uint64_t heap_in_use() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// About ten of them.
std::vector<sim::SoakSample> some(const std::vector<sim::SoakSample>& all) {
  std::vector<sim::SoakSample> chosen;
  for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, all.size() / 10)) chosen.push_back(all[i]);
  return chosen;
}

void print_json(const sim::SoakOutcome& outcome, double seconds) {
  Json samples = Json::array();
  for (const sim::SoakSample& sample : some(outcome.samples))
    samples.push_back({{"day", sample.day},
                       {"jobs", sample.jobs},
                       {"heap_bytes", sample.heap},
                       {"connections", sample.connections},
                       {"usage_rows", sample.usage_rows}});
  fmt::print("{}\n", Json({{"jobs", outcome.jobs},
                           {"killed_jobs", outcome.killed_jobs},
                           {"operations", outcome.operations},
                           {"failed_operations", outcome.failed_operations},
                           {"events", outcome.events},
                           {"seconds", seconds},
                           {"violations", outcome.violations},
                           {"samples", samples}})
                         .dump(2));
}

void print_table(const sim::SoakOutcome& outcome, double seconds) {
  fmt::print("{:>6} {:>8} {:>10} {:>12} {:>11}\n", "day", "jobs", "heap MiB", "connections", "usage rows");
  for (const sim::SoakSample& sample : some(outcome.samples))
    fmt::print("{:6.1f} {:8} {:10.1f} {:12} {:11}\n", sample.day, sample.jobs,
               static_cast<double>(sample.heap) / (1 << 20), sample.connections, sample.usage_rows);
  fmt::print("{} jobs ({} killed), {} operations, {} violations, {:.0f} s\n", outcome.jobs, outcome.killed_jobs,
             outcome.operations, outcome.violations.size(), seconds);
}

int run(const SoakArguments& arguments) {
  spdlog::set_level(spdlog::level::warn);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  bool shown = false;
  const auto show = [&](double day) {
    if (seconds() < 2) return;
    shown = true;
    print_error("\rday {:.0f} ", day);
    std::fflush(stderr);
  };
  const sim::SoakOutcome outcome = sim::run_soak(
      {.seed = arguments.seed, .days = arguments.days, .jobs = arguments.jobs, .heap = heap_in_use, .progress = show});
  if (shown) print_error("\n");
  for (const std::string& what : outcome.violations) print_error("violation: {}\n", what);
  arguments.json ? print_json(outcome, seconds()) : print_table(outcome, seconds());
  return outcome.violations.empty() ? kDone : kFailed;
}

}  // namespace

Command sim_soak_command() {
  return {
      "soak",
      "Run jobs through a cluster of production clients, nodes and gate for weeks of virtual time, and check that "
      "memory stays bounded and that jobs leave nothing behind (docs/reliability.md). Exits with 1 if a check fails",
      [](CommandLine& line) {
        auto arguments = std::make_shared<SoakArguments>();
        line.option("--days", arguments->days, "Virtual days").between(0.01, 3650);
        line.option("--jobs", arguments->jobs, "Number of jobs, about").between(1, 10'000'000);
        line.option("--seed", arguments->seed, "Determines arrival and work of the jobs");
        line.json(arguments->json);
        line.action([arguments] { return run(*arguments); });
      }};
}

}  // namespace tutti::cli

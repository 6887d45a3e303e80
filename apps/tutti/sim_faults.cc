// SPDX-License-Identifier: Apache-2.0
// tutti sim faults: production clients, nodes and gate under random load and random faults, in virtual time.
#include "sim_faults.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/print_error.h"
#include "sim/faults/fault_run.h"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct FaultArguments {
  std::uint64_t seeds = 100;
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> seed;
  double seconds = 0;
  std::uint32_t jobs = 1;
  bool trace = false;
  bool json = false;
};

// Runs seeds on several threads and adds their outcomes up.
class Campaign {
 public:
  explicit Campaign(const FaultArguments& arguments) : arguments_(arguments) {
    if (arguments.first)
      first_ = *arguments.first;
    else if (arguments.seconds > 0)
      first_ = std::random_device{}() * std::uint64_t{1'000'000};
  }

  int run() {
    if (arguments_.seconds > 0) print_error("first seed: {}\n", first_);
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 1; i < arguments_.jobs; ++i) threads.emplace_back([this] { work(); });
    work();
    threads.clear();
    if (shown_) print_error("\n");
    arguments_.json ? print_json() : print_line();
    return violations_.empty() ? kDone : kFailed;
  }

 private:
  bool wanted(std::uint64_t index) const {
    return arguments_.seconds > 0 ? elapsed() < arguments_.seconds : index < arguments_.seeds;
  }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void work() {
    for (std::uint64_t index = next_++; wanted(index); index = next_++) {
      const sim::FaultOutcome outcome = sim::run_faults(sim::make_fault_plan(first_ + index));
      std::lock_guard lock(mutex_);
      add(outcome);
      progress();
    }
  }

  void add(const sim::FaultOutcome& outcome) {
    ++seeds_;
    operations_ += outcome.all_operations();
    failed_ += outcome.failed_operations;
    simulated_ += std::chrono::duration<double>(outcome.simulated).count();
    for (std::size_t i = 0; i < sim::kFaultKinds; ++i) faults_[i] += outcome.faults[i];
    for (const std::string& what : outcome.violations) violations_.push_back({outcome.seed, what});
    if (outcome.violations.empty()) return;
    print_error("{}seed {}: {} violations, the first: {}\n  repeat: tutti sim faults --seed {} --trace\n",
                shown_ ? "\n" : "", outcome.seed, outcome.violations.size(), outcome.violations.front(), outcome.seed);
  }

  void progress() {
    const double now = elapsed();
    if (now < 2 || now - last_shown_ < 1) return;
    last_shown_ = now;
    shown_ = true;
    print_error("\r{} seeds, {} violations, {:.1f} seeds/s ", seeds_, violations_.size(),
                static_cast<double>(seeds_) / now);
    std::fflush(stderr);
  }

  void print_line() const {
    std::string kinds;
    for (std::size_t i = 0; i < sim::kFaultKinds; ++i)
      kinds += fmt::format("{}{} {}", i == 0 ? "" : ", ", name_of(static_cast<sim::FaultKind>(i)), faults_[i]);
    fmt::print(
        "{} seeds from {}, {} violations, {:.2f} seeds/s, {} operations ({} failed), {:.0f} s simulated; faults: {}\n",
        seeds_, first_, violations_.size(), static_cast<double>(seeds_) / elapsed(), operations_, failed_, simulated_,
        kinds);
  }

  void print_json() const {
    Json violations = Json::array();
    for (const auto& [seed, what] : violations_) violations.push_back({{"seed", seed}, {"what", what}});
    Json faults = Json::object();
    for (std::size_t i = 0; i < sim::kFaultKinds; ++i) faults[name_of(static_cast<sim::FaultKind>(i))] = faults_[i];
    fmt::print("{}\n", Json({{"seeds", seeds_},
                             {"first", first_},
                             {"violations", violations},
                             {"operations", operations_},
                             {"failed_operations", failed_},
                             {"faults", faults},
                             {"virtual_seconds", simulated_},
                             {"seeds_per_second", static_cast<double>(seeds_) / elapsed()}})
                           .dump(2));
  }

  struct FoundViolation {
    std::uint64_t seed;
    std::string what;
  };

  const FaultArguments& arguments_;
  const Clock::time_point begin_ = Clock::now();
  std::uint64_t first_ = 1;
  std::atomic<std::uint64_t> next_{0};

  std::mutex mutex_;  // guards what follows
  std::uint64_t seeds_ = 0, operations_ = 0, failed_ = 0;
  std::array<std::uint64_t, sim::kFaultKinds> faults_{};
  double simulated_ = 0;
  std::vector<FoundViolation> violations_;
  double last_shown_ = 0;
  bool shown_ = false;
};

int run_campaign(FaultArguments arguments) {
  spdlog::set_level(spdlog::level::warn);
  if (!arguments.seed) return Campaign(arguments).run();
  if (!arguments.trace) {
    arguments.first = arguments.seed;
    arguments.seeds = 1;
    return Campaign(arguments).run();
  }
  const auto outcome =
      sim::run_faults(sim::make_fault_plan(*arguments.seed), [](const std::string& line) { fmt::print("{}\n", line); });
  for (const std::string& what : outcome.violations) fmt::print("violation: {}\n", what);
  fmt::print("seed {}: {} violations, {} operations, {} events, hash {:016x}\n", outcome.seed,
             outcome.violations.size(), outcome.all_operations(), outcome.events, outcome.hash);
  return outcome.violations.empty() ? kDone : kFailed;
}

constexpr const char* kSummary =
    "Run production clients, nodes and gate in virtual time under random load and random faults, and check that "
    "nothing is lost, nothing is applied too late, everything ends in time and nothing leaks (docs/reliability.md). "
    "A seed determines load and faults; equal seeds give equal runs. Exits with 1 if a check fails";

}  // namespace

Command sim_faults_command() {
  return {"faults", kSummary, [](CommandLine& line) {
            auto arguments = std::make_shared<FaultArguments>();
            line.option("--seeds", arguments->seeds, "Number of seeds to run");
            line.option("--first", arguments->first, "First seed (default: 1; with --seconds: a random one)");
            line.option("--seconds", arguments->seconds, "Run fresh seeds for this many seconds instead of --seeds");
            line.option("--seed", arguments->seed, "Run only this seed, e.g. to repeat a violation");
            line.flag("--trace", arguments->trace, "With --seed: print every fault and every operation");
            line.option("--jobs", arguments->jobs, "Seeds to run at the same time").between(1, 1024);
            line.json(arguments->json);
            line.action([arguments] { return run_campaign(*arguments); });
          }};
}

}  // namespace tutti::cli

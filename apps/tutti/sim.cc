// SPDX-License-Identifier: Apache-2.0
// tutti sim: runs scenarios and the fault campaign in virtual time.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "command.h"
#include "gate/targets.h"
#include "lab/answer.h"
#include "lab/live.h"
#include "lab/report.h"
#include "lab/report_runs.h"
#include "sim/metrics.h"
#include "sim/scenario_file.h"
#include "sim_faults.h"
#include "sim_study.h"
#include "sim_sweep.h"

namespace tutti::cli {
namespace {

struct SimArguments {
  std::string file;
  std::string policy;
  std::vector<std::string> policies;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> assignments;
  bool full = false;
  bool live = false;
  unsigned seeds = 1;
  bool json = false;
  bool csv = false;
  std::string html;
};

// Prints progress on standard error if a run takes longer than two seconds.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress() {
    if (shown_) print_error("\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(Duration simulated, std::uint64_t events) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(shown_ ? 1 : 2)) return;
    last_ = now;
    shown_ = true;
    print_error("\r{}: {:.1f} M events, {:.3f} s simulated ", what_, static_cast<double>(events) / 1e6,
                std::chrono::duration<double>(simulated).count());
    std::fflush(stderr);
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

Json as_json(const sim::Distribution& values) {
  return {{"count", values.count}, {"mean", values.mean}, {"median", values.median},
          {"p99", values.p99},     {"max", values.max},   {"deviation", values.deviation}};
}

Json nonzero(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json metrics_json(const sim::Metrics& metrics) {
  return {{"operation_seconds", as_json(metrics.operation)},
          {"phase_seconds", as_json(metrics.phase)},
          {"failed_operations", metrics.failed_operations},
          {"first_server_seconds", metrics.first_server},
          {"last_server_seconds", metrics.last_server},
          {"last_over_first", metrics.last_over_first},
          {"makespan_seconds", metrics.makespan},
          {"bytes_per_second", metrics.bandwidth},
          {"phase_deviation", metrics.phase_deviation},
          {"io_seconds", metrics.io_time},
          {"slowdown", nonzero(metrics.slowdown)},
          {"worst_slowdown", nonzero(metrics.worst_slowdown)},
          {"fairness", nonzero(metrics.fairness)},
          {"idle", metrics.idle},
          {"mean_batch", metrics.mean_batch},
          {"bound_phase_seconds", nonzero(metrics.bound)},
          {"over_bound", metrics.bound > 0 ? Json(metrics.phase.mean / metrics.bound) : Json(nullptr)},
          {"bound_kind", metrics.bound_kind}};
}

const std::string& policy_of(const sim::Scenario& scenario) {
  return scenario.forwarding.count ? scenario.forwarding.policy.name : scenario.servers.policy.name;
}

// The phase sizes of one application that the servers know. Servers with the same size are grouped.
Json announced_json(const std::vector<sim::AnnouncedSize>& sizes, std::uint32_t servers_in_all,
                    std::uint32_t application) {
  std::map<std::uint64_t, std::vector<TargetId>> servers;  // by size
  const auto of_application = [](const sim::AnnouncedSize& size) { return size.application; };
  for (const sim::AnnouncedSize& size : std::ranges::equal_range(sizes, application, {}, of_application))
    servers[size.bytes.count()].push_back(size.server);
  auto rows = Json::array();
  for (const auto& [bytes, its] : servers)
    rows.push_back({{"servers", gate::text(gate::TargetSet::of(servers_in_all, its))}, {"bytes", bytes}});
  return rows;
}

Json run_json(const sim::Scenario& scenario, const sim::MeasuredRun& measured) {
  auto applications = Json::array();
  for (const sim::ApplicationMetrics& application : measured.metrics.applications)
    applications.push_back({{"name", application.name},
                            {"phases", application.phases},
                            {"mean_phase_seconds", application.mean_phase},
                            {"alone_seconds", nonzero(application.alone)},
                            {"slowdown", nonzero(application.slowdown)},
                            {"end_seconds", application.end},
                            {"mebibytes", application.mebibytes},
                            {"announced", announced_json(measured.outcome.announced, scenario.servers.count,
                                                         static_cast<std::uint32_t>(applications.size()))}});
  const double wall = measured.outcome.wall_seconds;
  return {{"scenario", scenario.name},
          {"policy", policy_of(scenario)},
          {"seed", scenario.seed},
          {"servers", scenario.servers.count},
          {"depth", scenario.servers.depth},
          {"device", describe(scenario.servers.device)},
          {"events", measured.outcome.events},
          {"events_per_second", wall > 0 ? static_cast<double>(measured.outcome.events) / wall : 0.0},
          {"hash", measured.outcome.hash == 0 ? Json(nullptr) : Json(fmt::format("{:016x}", measured.outcome.hash))},
          {"metrics", metrics_json(measured.metrics)},
          {"applications", applications}};
}

std::string time_cell(double seconds) {
  return lab::time_text(seconds, 4);
}

Table comparison() {
  return Table({"policy", "depth", "operation", "p99", "phase", "last/first", "makespan", "MB/s", "slowdown",
                "fairness", "idle", "over bound"});
}

void add_row(Table& table, const sim::Scenario& scenario, const sim::Metrics& metrics) {
  table.add({policy_of(scenario), fmt::format("{}", scenario.servers.depth), time_cell(metrics.operation.mean),
             time_cell(metrics.operation.p99), time_cell(metrics.phase.mean),
             fmt::format("{:.2f}", metrics.last_over_first), time_cell(metrics.makespan),
             fmt::format("{:.1f}", metrics.bandwidth / 1e6), fmt::format("{:.2f}", metrics.slowdown),
             fmt::format("{:.3f}", metrics.fairness), fmt::format("{:.3f}", metrics.idle),
             metrics.bound > 0 ? fmt::format("{:.3f}", metrics.phase.mean / metrics.bound) : "-"});
}

void print_applications(const sim::Metrics& metrics) {
  Table table({"application", "phases", "phase", "alone", "slowdown", "end", "MiB"});
  constexpr std::size_t kMost = 40;
  for (std::size_t i = 0; i < metrics.applications.size() && i < kMost; ++i) {
    const sim::ApplicationMetrics& application = metrics.applications[i];
    table.add({application.name, fmt::format("{}", application.phases), time_cell(application.mean_phase),
               application.alone > 0 ? time_cell(application.alone) : "-", fmt::format("{:.2f}", application.slowdown),
               time_cell(application.end), fmt::format("{:.1f}", application.mebibytes)});
  }
  fmt::print("\n{}", table.text());
  if (metrics.applications.size() > kMost) fmt::print("and {} more\n", metrics.applications.size() - kMost);
}

sim::Overrides overrides_of(const SimArguments& arguments, const std::string& policy) {
  sim::Overrides overrides;
  if (!policy.empty()) overrides.policy = policy;
  overrides.seed = arguments.seed;
  overrides.assignments = arguments.assignments;
  return overrides;
}

Result<sim::Scenario> load(const SimArguments& arguments, const std::string& policy) {
  return sim::load_scenario(arguments.file, overrides_of(arguments, policy));
}

sim::MeasureOptions how_to(const SimArguments& arguments) {
  sim::MeasureOptions options;
  options.full = arguments.full;
  if (arguments.live)
    options.run = [](const sim::Scenario& each, const sim::RunOptions& how) {
      return lab::run_live(each, {.demands = how.demands});
    };
  return options;
}

Result<sim::MeasuredRun> measure_with_progress(const sim::Scenario& scenario, const SimArguments& arguments) {
  Progress progress(fmt::format("{} {}", scenario.name, policy_of(scenario)));
  sim::MeasureOptions options = how_to(arguments);
  options.progress = [&](Duration simulated, std::uint64_t events) { progress.show(simulated, events); };
  return sim::measure(scenario, options);
}

// The command that writes this report again.
std::string command_of(const SimArguments& arguments, const std::string& policy, std::uint64_t seed) {
  std::string command =
      fmt::format("tutti sim {} {}", arguments.policies.empty() ? "run" : "compare", lab::shell_word(arguments.file));
  if (!policy.empty()) command += " --policy " + policy;
  if (!arguments.policies.empty()) command += fmt::format(" --policies {}", fmt::join(arguments.policies, ","));
  command += fmt::format(" --seed {}", seed);
  if (arguments.seeds > 1) command += fmt::format(" --seeds {}", arguments.seeds);
  for (const std::string& assignment : arguments.assignments) command += " --set " + lab::shell_word(assignment);
  if (arguments.full) command += " --full";
  if (arguments.live) command += " --live";
  return command + " --html " + lab::shell_word(arguments.html);
}

// Writes the HTML report of one scenario under one or several policies.
int write_report(const SimArguments& arguments, const std::vector<lab::RecordedRun>& runs) {
  const sim::Scenario& first = runs.front().scenario;
  const auto written =
      lab::write_html({.title = fmt::format("Scenario {}", first.name),
                       .command = command_of(arguments, arguments.policies.empty() ? policy_of(first) : "", first.seed),
                       .generated = lab::today(),
                       .results = {lab::result_of(runs)}},
                      arguments.html);
  if (!written) return report(written.error());
  print_error("report: {}\n", arguments.html);
  return kDone;
}

// The exit status of runs in which this many operations failed.
int exit_status(std::uint64_t failed_operations) {
  if (failed_operations == 0) return kDone;
  return report({ErrorCode::kIo, fmt::format("{} operations failed", failed_operations)});
}

Result<void> check(const SimArguments& arguments) {
  if (arguments.full && arguments.live)
    return fail(ErrorCode::kInvalid, "--full simulates and --live does not; use one of the two");
  if (arguments.json && arguments.csv) return fail(ErrorCode::kInvalid, "use one of --json and --csv");
  return check_output({arguments.file}, arguments.html);
}

// Several seeds, or settings in [sweep], or CSV. Nothing: one run for each policy.
Result<std::optional<Study>> study_of(const SimArguments& arguments) {
  sim::Overrides overrides = overrides_of(arguments, arguments.policy);
  sim::Overrides fixed = overrides;
  if (!arguments.policies.empty()) fixed.policy = arguments.policies.front();
  auto variants = sim::load_variants(arguments.file, fixed);
  if (!variants) return Failure(variants.error());
  const bool one = variants->size() == 1 && variants->front().empty();
  if (one && arguments.seeds == 1 && !arguments.csv) return std::nullopt;
  const auto scenario = sim::load_scenario(arguments.file, sim::with(fixed, variants->front()));
  if (!scenario) return Failure(scenario.error());
  return Study{.file = arguments.file,
               .variants = std::move(*variants),
               .policies = arguments.policies,
               .overrides = std::move(overrides),
               .seeds = arguments.seeds,
               .how = how_to(arguments),
               .one_at_a_time = arguments.live,
               .json = arguments.json,
               .csv = arguments.csv,
               .html = arguments.html,
               .command = command_of(arguments, arguments.policy, scenario->seed)};
}

int run_one(const SimArguments& arguments) {
  if (auto valid = check(arguments); !valid) return report(valid.error());
  const auto study = study_of(arguments);
  if (!study) return report(study.error());
  if (*study) return run_study(**study);
  const auto scenario = load(arguments, arguments.policy);
  if (!scenario) return report(scenario.error());
  auto measured_run = measure_with_progress(*scenario, arguments);
  if (!measured_run) return report(measured_run.error());
  const std::vector<lab::RecordedRun> runs{{*scenario, std::move(*measured_run)}};
  const sim::MeasuredRun* measured = &runs.front().measured;
  if (!arguments.html.empty())
    if (const int written = write_report(arguments, runs); written != kDone) return written;
  if (arguments.json) {
    fmt::print("{}\n", run_json(*scenario, *measured).dump(2));
    return exit_status(measured->metrics.failed_operations);
  }
  fmt::print("{}: {} servers ({}), depth {}, seed {}\n\n", scenario->name, scenario->servers.count,
             describe(scenario->servers.device), scenario->servers.depth, scenario->seed);
  Table table = comparison();
  add_row(table, *scenario, measured->metrics);
  fmt::print("{}", table.text());
  if (!measured->metrics.bound_kind.empty())
    fmt::print("lower bound of the mean phase: {}\n", measured->metrics.bound_kind);
  print_applications(measured->metrics);
  fmt::print("\n{} events, {:.2f} M events/s\n\n{}", measured->outcome.events,
             static_cast<double>(measured->outcome.events) / measured->outcome.wall_seconds / 1e6,
             lab::to_text(lab::answer_of(runs)));
  return exit_status(measured->metrics.failed_operations);
}

int compare(const SimArguments& arguments) {
  if (auto valid = check(arguments); !valid) return report(valid.error());
  const auto study = study_of(arguments);
  if (!study) return report(study.error());
  if (*study) return run_study(**study);
  Table table = comparison();
  auto list = Json::array();
  std::string heading;
  std::vector<lab::RecordedRun> runs;
  std::uint64_t failed = 0;
  for (const std::string& policy : arguments.policies) {
    const auto scenario = load(arguments, policy);
    if (!scenario) return report(scenario.error());
    auto measured = measure_with_progress(*scenario, arguments);
    if (!measured) return report(measured.error());
    failed += measured->metrics.failed_operations;
    list.push_back(run_json(*scenario, *measured));
    add_row(table, *scenario, measured->metrics);
    heading = fmt::format("{}: {} servers ({}), depth {}, seed {}", scenario->name, scenario->servers.count,
                          describe(scenario->servers.device), scenario->servers.depth, scenario->seed);
    runs.push_back({*scenario, std::move(*measured)});
  }
  if (!arguments.html.empty())
    if (const int written = write_report(arguments, runs); written != kDone) return written;
  if (arguments.json)
    fmt::print("{}\n", list.dump(2));
  else
    fmt::print("{}\n\n{}\n{}", heading, table.text(), lab::to_text(lab::answer_of(runs)));
  return exit_status(failed);
}

void define_common(CommandLine& line, SimArguments& arguments) {
  line.option("FILE", arguments.file, "Scenario file in TOML format (see scenarios/)").required();
  line.option("--seed", arguments.seed, "Seed of the random numbers (default: the scenario's)");
  line.option("--seeds", arguments.seeds,
              "Run with this many seeds and print means, with 95% intervals from 3 seeds on")
      .between(1, 100'000);
  line.option("--set", arguments.assignments,
              "Change a value of the scenario, e.g. servers.depth=4 or applications.0.size=4MiB; may be repeated");
  line.flag("--full", arguments.full,
            "Run production clients and nodes over a simulated network; slower, but includes their effects");
  line.flag("--live", arguments.live,
            "Run node and client processes on this machine, over modelled devices, in real time");
  line.json(arguments.json);
  line.flag("--csv", arguments.csv,
            "Print comma-separated values: one line for each combination of settings and policy");
  line.option("--html", arguments.html, "Also write an HTML page with tables, charts and timelines to this file");
}

}  // namespace

Command sim_command() {
  return {"sim", "Run scenarios and faults in virtual time, with the production code", [](CommandLine& line) {
            auto arguments = std::make_shared<SimArguments>();
            CommandLine& one = line.subcommand("run", "Run one scenario");
            define_common(one, *arguments);
            one.option("--policy", arguments->policy, "Scheduling policy (default: the scenario's)");
            one.action([arguments] { return run_one(*arguments); });
            CommandLine& many = line.subcommand("compare", "Run one scenario under several policies");
            define_common(many, *arguments);
            many.option("--policies", arguments->policies, "Names of policies, e.g. fifo,window,concert")
                .separated_by_commas()
                .required();
            many.action([arguments] { return compare(*arguments); });
            for (const Command& command : {sim_faults_command(), sim_soak_command(), sim_sweep_command()})
              command.define(line.subcommand(command.name, command.summary));
          }};
}

}  // namespace tutti::cli

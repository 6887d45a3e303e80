// SPDX-License-Identifier: Apache-2.0
// tutti trace replay: the recorded applications under other policies.
#include "trace_replay.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "base/units.h"
#include "lab/answer.h"
#include "lab/report.h"
#include "policy_choice.h"
#include "sched/policy.h"
#include "sim/replay.h"

namespace tutti::cli {
namespace {

struct ReplayArguments {
  std::vector<std::string> files, policies{"fifo", "window", "concert"}, assignments;
  std::string align = "clock", device = "calibrated", html;
  std::uint32_t depth = 0;
  Duration gap = trace::kDefaultGap;
  bool json = false;
};

// The phases of one application, or of all, under one policy or in the recording.
struct PhaseSummary {
  std::size_t phases = 0;
  double mean = 0, worst = 0;  // seconds

  void add(double duration) {
    mean = (mean * static_cast<double>(phases) + duration) / static_cast<double>(phases + 1);
    worst = std::max(worst, duration);
    ++phases;
  }
};

struct ReplayedPolicy {
  std::string policy;
  sim::ReplayOutcome outcome;
  PhaseSummary all{};
  std::map<ApplicationId, PhaseSummary> applications{};
};

// How far replayed phases are from the recorded ones.
struct Distance {
  std::size_t phases = 0;
  double recorded = 0, replayed = 0;  // mean of the phases that have both, seconds

  bool known() const { return phases > 0 && recorded > 0; }
  double error() const { return replayed / recorded - 1; }
};

Distance distance(const sim::ReplayOutcome& outcome, bool odd_only) {
  Distance result;
  for (const sim::ReplayedPhase& phase : outcome.phases) {
    if (!phase.recorded || (odd_only && phase.number % 2 == 0)) continue;
    ++result.phases;
    result.recorded += seconds(*phase.recorded);
    result.replayed += seconds(phase.duration());
  }
  if (result.phases == 0) return result;
  result.recorded /= static_cast<double>(result.phases);
  result.replayed /= static_cast<double>(result.phases);
  return result;
}

struct WhatIf {
  sim::PolicyChoice recorded_policy;
  std::string options_text;  // why the options of the recorded policy are not known; empty: they are
  DeviceFigures device{};
  std::string device_text;
  unsigned depth = 16;
  ReplayedPolicy recorded{};  // then: durations of the trace
  Distance check{}, held_out{};
  std::vector<ReplayedPolicy> policies{};
};

ReplayedPolicy summarise(std::string policy, sim::ReplayOutcome outcome) {
  ReplayedPolicy result{.policy = std::move(policy), .outcome = std::move(outcome)};
  for (const sim::ReplayedPhase& phase : result.outcome.phases) {
    result.all.add(seconds(phase.duration()));
    result.applications[phase.application].add(seconds(phase.duration()));
  }
  return result;
}

// The policy and queue depth of the recording, if one value is known for all its servers.
std::string fact(const trace::Recording& recording, const std::string& name) {
  const auto found = recording.facts.find(name);
  return found == recording.facts.end() || found->second.find(',') != std::string::npos ? "" : found->second;
}

Result<void> choose_device(const ReplayArguments& arguments, const trace::Recording& recording, WhatIf& result) {
  if (arguments.device != "calibrated") {
    auto preset = device_preset(arguments.device);
    if (!preset) return Failure(preset.error());
    result.device = *preset;
    result.device_text = describe(*preset);
    return {};
  }
  const auto found = sim::calibrate(recording.trace, arguments.gap, sim::CalibrateOn::kAllPhases);
  if (!found)
    return fail(ErrorCode::kNotFound,
                "the device cannot be calibrated: the trace has fewer than 10 times in which a server worked for one "
                "application alone and all completions are known. Name a device: --device hdd-7200, ssd-2010, nvme");
  result.device = found->device;
  result.device_text = fmt::format("{}, calibrated from {} times in which a server worked for one application",
                                   describe(found->device), found->samples);
  return {};
}

Result<sim::ReplayOutcome> run_policy(const ReplayArguments& arguments, const trace::Recording& recording,
                                      const sim::PolicyChoice& policy, const WhatIf& what) {
  return sim::replay(recording.trace,
                     {.policy = policy, .device = what.device, .depth = what.depth, .gap = arguments.gap});
}

// Calibrates on every second phase and replays the others.
Result<Distance> check_held_out(const ReplayArguments& arguments, const trace::Recording& recording, WhatIf what) {
  if (arguments.device != "calibrated") return Distance{};
  const auto half = sim::calibrate(recording.trace, arguments.gap, sim::CalibrateOn::kEvenPhases);
  if (!half) return Distance{};
  what.device = half->device;
  const auto outcome = run_policy(arguments, recording, what.recorded_policy, what);
  if (!outcome) return Failure(outcome.error());
  return distance(*outcome, true);
}

// The options of the recorded policy, if all its servers had the same.
void find_recorded_policy(const trace::Recording& recording, WhatIf& result) {
  const std::string policy = fact(recording, "policy");
  if (policy.empty()) return;
  result.recorded_policy.name = policy;
  const auto options = recording.facts.find("policy_options");
  if (options == recording.facts.end()) {
    result.options_text = "its options were not recorded: defaults are used";
    return;
  }
  const auto parsed = parse_json(options->second);  // several values with commas between them cannot be parsed
  if (!parsed) {
    result.options_text = "servers had different options: defaults are used";
    return;
  }
  for (const auto& [name, value] : parsed->members()) result.recorded_policy.options[name] = value.text();
}

Result<std::vector<sim::PolicyChoice>> choose_policies(const ReplayArguments& arguments) {
  std::vector<sim::PolicyChoice> choices;
  for (const std::string& text : arguments.policies) {
    auto choice = parse_policy_choice(text);
    if (!choice) return Failure(choice.error());
    choices.push_back(std::move(*choice));
  }
  for (const std::string& assignment : arguments.assignments)
    if (auto set = set_policy_option(assignment, choices); !set) return Failure(set.error());
  for (const sim::PolicyChoice& choice : choices)
    if (auto policy = make_policy(choice.name, choice.options, {}); !policy) return Failure(policy.error());
  return choices;
}

Result<WhatIf> ask(const ReplayArguments& arguments, const trace::Recording& recording) {
  const auto choices = choose_policies(arguments);
  if (!choices) return Failure(choices.error());
  WhatIf result;
  const std::string policy = fact(recording, "policy"), depth = fact(recording, "depth");
  find_recorded_policy(recording, result);
  if (arguments.depth > 0)
    result.depth = arguments.depth;
  else
    std::from_chars(depth.data(), depth.data() + depth.size(), result.depth);
  result.depth = std::clamp(result.depth, 1U, 4096U);
  if (auto chosen = choose_device(arguments, recording, result); !chosen) return Failure(chosen.error());
  const auto same = run_policy(arguments, recording, result.recorded_policy, result);
  if (!same) return Failure(same.error());
  result.check = distance(*same, false);
  auto held_out = check_held_out(arguments, recording, result);
  if (!held_out) return Failure(held_out.error());
  result.held_out = *held_out;
  result.recorded.policy =
      fmt::format("recorded ({})", policy.empty() ? "policy not known" : policy_text(result.recorded_policy));
  for (const sim::ReplayedPhase& phase : same->phases) {
    if (!phase.recorded) continue;
    result.recorded.all.add(seconds(*phase.recorded));
    result.recorded.applications[phase.application].add(seconds(*phase.recorded));
  }
  for (const sim::PolicyChoice& choice : *choices) {
    auto outcome = run_policy(arguments, recording, choice, result);
    if (!outcome) return Failure(outcome.error());
    result.policies.push_back(summarise(policy_text(choice), std::move(*outcome)));
  }
  return result;
}

Json as_json(const PhaseSummary& summary) {
  return {{"phases", summary.phases}, {"mean_seconds", summary.mean}, {"worst_seconds", summary.worst}};
}

Json as_json(const ReplayedPolicy& row) {
  auto applications = Json::array(), delays = Json::array();
  for (const auto& [application, summary] : row.applications) {
    Json each = as_json(summary);
    each["application"] = application;
    applications.push_back(std::move(each));
  }
  for (const sim::Delayed& delay : row.outcome.delays)
    delays.push_back({{"application", delay.application}, {"by", delay.by}, {"server_seconds", seconds(delay.time)}});
  Json result = as_json(row.all);
  result.update({{"policy", row.policy},
                 {"makespan_seconds", seconds(row.outcome.makespan)},
                 {"mean_batch", row.outcome.mean_batch},
                 {"applications", applications},
                 {"delays", delays}});
  return result;
}

Json as_json(const Distance& distance) {
  if (!distance.known()) return nullptr;
  return {{"phases", distance.phases},
          {"recorded_seconds", distance.recorded},
          {"replayed_seconds", distance.replayed},
          {"error", distance.error()}};
}

Json as_json(const WhatIf& what) {
  auto policies = Json::array();
  for (const ReplayedPolicy& row : what.policies) policies.push_back(as_json(row));
  return {{"recorded_policy", what.recorded_policy.name},
          {"recorded_options", Json(what.recorded_policy.options)},
          {"device", what.device_text},
          {"depth", what.depth},
          {"recorded", what.recorded.all.phases > 0 ? as_json(what.recorded.all) : Json(nullptr)},
          {"replay_of_recorded_policy", as_json(what.check)},
          {"held_out_half", as_json(what.held_out)},
          {"policies", policies}};
}

std::string text_of(const Distance& distance, const std::string& what) {
  if (!distance.known()) return what + ": not known, because the trace has no completions for it\n";
  return fmt::format("{}: mean phase {:.6g} s, recorded {:.6g} s ({:+.1f}%, {} phases)\n", what, distance.replayed,
                     distance.recorded, 100 * distance.error(), distance.phases);
}

// The first policy and the best other one.
lab::Answer answer_of(const WhatIf& what) {
  if (what.policies.empty()) return {};
  const auto run_of = [](const ReplayedPolicy& row) {
    return lab::AnswerRun{row.policy, row.all.mean, seconds(row.outcome.makespan)};
  };
  const auto shorter = [](const ReplayedPolicy& a, const ReplayedPolicy& b) { return a.all.mean < b.all.mean; };
  const auto best =
      std::min_element(what.policies.begin() + (what.policies.size() > 1 ? 1 : 0), what.policies.end(), shorter);
  lab::Answer answer = lab::compare_runs("mean phase", run_of(what.policies.front()), run_of(*best));
  answer.bars.clear();
  for (const ReplayedPolicy& row : what.policies) answer.bars.push_back({row.policy, row.all.mean});
  return answer;
}

// The command that writes this report again.
std::string command_of(const ReplayArguments& arguments) {
  std::string command = "tutti trace replay";
  for (const std::string& file : arguments.files) command += " " + lab::shell_word(file);
  command += " --policies " + lab::shell_word(fmt::format("{}", fmt::join(arguments.policies, ",")));
  for (const std::string& assignment : arguments.assignments) command += " --set " + lab::shell_word(assignment);
  command += " --device " + arguments.device;
  if (arguments.depth > 0) command += fmt::format(" --depth {}", arguments.depth);
  command += fmt::format(" --gap {}ns --align {}", arguments.gap.count(), arguments.align);
  return command + " --html " + lab::shell_word(arguments.html);
}

void print_text(const WhatIf& what) {
  fmt::print("device: {}, depth {}\n", what.device_text, what.depth);
  fmt::print("{}", text_of(what.check, "replay of " + policy_text(what.recorded_policy)));
  if (!what.options_text.empty()) fmt::print("  {}\n", what.options_text);
  if (what.held_out.known()) fmt::print("{}", text_of(what.held_out, "calibrated on every second phase, the others"));
  Table table({"policy", "mean phase", "worst phase", "makespan", "requests per batch"});
  if (what.recorded.all.phases > 0)
    table.add({what.recorded.policy, lab::time_text(what.recorded.all.mean, 4),
               lab::time_text(what.recorded.all.worst, 4), "-", "-"});
  for (const ReplayedPolicy& row : what.policies)
    table.add({row.policy, lab::time_text(row.all.mean, 4), lab::time_text(row.all.worst, 4),
               lab::time_text(seconds(row.outcome.makespan), 4), fmt::format("{:.2f}", row.outcome.mean_batch)});
  fmt::print("\n{}", table.text());
  constexpr std::size_t kMost = 5;
  Table delays({"policy", "application", "waited for", "server time"});
  for (const ReplayedPolicy& row : what.policies)
    for (const sim::Delayed& delay : std::span(row.outcome.delays).first(std::min(kMost, row.outcome.delays.size())))
      delays.add({row.policy, std::to_string(delay.application), std::to_string(delay.by),
                  lab::time_text(seconds(delay.time), 4)});
  if (!delays.empty())
    fmt::print(
        "\nwho slowed whom: time in which a server worked for one application while requests of another waited, "
        "over all servers\n{}",
        delays.text());
  fmt::print("\n{}", lab::to_text(answer_of(what)));
}

// The page: one table of applications and policies, bars of the mean phases, and what the applications did over time.
lab::ExperimentResult to_result(const WhatIf& what) {
  lab::ExperimentResult result;
  result.name = "replay";
  result.device = what.device_text;
  result.answer = answer_of(what);
  result.columns = {"policy", "application", "phases", "mean phase s", "worst phase s"};
  std::vector<const ReplayedPolicy*> all;
  if (what.recorded.all.phases > 0) all.push_back(&what.recorded);
  for (const ReplayedPolicy& row : what.policies) all.push_back(&row);
  lab::Chart chart{
      .title = "Mean phase", .x_label = "policy", .y_label = "seconds", .bars = true, .lines = {{"mean", {}, {}}}};
  for (const ReplayedPolicy* row : all) {
    for (const auto& [application, summary] : row->applications)
      result.rows.push_back({row->policy, static_cast<std::int64_t>(application),
                             static_cast<std::int64_t>(summary.phases), summary.mean, summary.worst});
    chart.lines[0].x.push_back(static_cast<double>(chart.x_names.size()));
    chart.lines[0].y.push_back(row->all.mean);
    chart.x_names.push_back(row->policy);
  }
  result.charts.push_back(std::move(chart));
  constexpr std::size_t kMostJobs = 40;
  for (const ReplayedPolicy& row : what.policies) {
    lab::Timeline timeline{.title = row.policy, .jobs = {}, .segments = {}};
    std::map<ApplicationId, std::size_t> jobs;
    for (const sim::ReplayedPhase& phase : row.outcome.phases) {
      if (jobs.size() == kMostJobs && !jobs.contains(phase.application)) break;
      const auto [job, is_new] = jobs.try_emplace(phase.application, jobs.size());
      if (is_new) timeline.jobs.push_back(fmt::format("application {}", phase.application));
      timeline.segments.push_back({.job = job->second,
                                   .kind = lab::Timeline::Segment::Kind::kInputOutput,
                                   .from = seconds(phase.begin),
                                   .to = seconds(phase.end)});
    }
    result.timelines.push_back(std::move(timeline));
  }
  return result;
}

int run_replay(const ReplayArguments& arguments) {
  if (auto possible = check_output(arguments.files, arguments.html); !possible) return report(possible.error());
  const auto recording = load_recording(arguments.files, trace::Names::kPaths,
                                        arguments.align == "clock" ? trace::Align::kClock : trace::Align::kFirst);
  if (!recording) return report(recording.error());
  print_problems(*recording);
  const auto what = ask(arguments, *recording);
  if (!what) return report(what.error());
  if (!arguments.html.empty()) {
    const auto written = lab::write_html({.title = "Replay of " + arguments.files.front(),
                                          .command = command_of(arguments),
                                          .generated = lab::today(),
                                          .results = {to_result(*what)}},
                                         arguments.html);
    if (!written) return report(written.error());
    print_error("report: {}\n", arguments.html);
  }
  if (arguments.json)
    fmt::print("{}\n", as_json(*what).dump(2));
  else
    print_text(*what);
  return kDone;
}

}  // namespace

void define_trace_replay(CommandLine& line) {
  auto arguments = std::make_shared<ReplayArguments>();
  line.option("FILE", arguments->files, "Trace files, or directories that hold them, as in 'tutti trace show'")
      .required();
  line.option("--policies", arguments->policies,
              "Policies to compare, see 'tutti policies', also with options: fifo,concert:stretch=8")
      .separated_by_commas();
  line.option(
      "--set", arguments->assignments,
      "Set an option of a policy in --policies, as in the simulator: policies.concert.stretch=8; may be repeated");
  line.option("--device", arguments->device,
              "calibrated: from the times in which a server of the trace worked for one application. Or a preset: "
              "hdd-7200, ssd-2010, ssd-sata-2011, nvme");
  line.option("--depth", arguments->depth, "Batches in flight at each device (default: the recording's, else 16)")
      .between(0, 4096);
  line.option("--gap", arguments->gap, "A pause of an application of at least this long ends a phase")
      .at_least(Duration(1));
  line.option("--align", arguments->align, "As in 'tutti trace merge'").one_of({"clock", "first"});
  line.json(arguments->json);
  line.option("--html", arguments->html, "Also write an HTML page with tables, charts and timelines to this file");
  line.action([arguments] { return run_replay(*arguments); });
}

}  // namespace tutti::cli

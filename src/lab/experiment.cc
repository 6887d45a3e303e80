// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "base/json.h"
#include "lab/answer.h"
#include "lab/catalogue.h"

namespace tutti::lab {
namespace {

constexpr const char* kSc11 = "server-side-coordination-sc11";
constexpr const char* kAgios = "agios-prediction";
constexpr const char* kTwins = "twins-forwarding-layer";
constexpr const char* kThesis = "backoff-and-locking-thesis";
constexpr const char* kResonant = "resonant-collective-io";

// Modes of an experiment beside the fast simulation.
constexpr bool kLive = true, kNotLive = false, kFull = true;

Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json cell_json(const Cell& cell) {
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

Json rows_json(const std::vector<std::string>& columns, const std::vector<std::vector<Cell>>& rows) {
  auto json = Json::array();
  for (const auto& row : rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) object[columns[i]] = cell_json(row[i]);
    json.push_back(std::move(object));
  }
  return json;
}

Json claim_json(const Claim& claim) {
  return {{"id", claim.id},
          {"kind", claim.reproduced ? "reproduced" : "advance"},
          {"what", claim.what},
          {"unit", claim.unit},
          {"paper", optional_number(claim.paper)},
          {"low", optional_number(claim.low())},
          {"high", optional_number(claim.high())},
          {"goal", optional_number(claim.low() ? std::nullopt : claim.goal)},
          {"goal_is", claim.goal_is == Claim::Goal::kAtMost ? "at most" : "at least"},
          {"ours", claim.ours},
          {"interval", optional_number(claim.interval)},
          {"bound", optional_number(claim.bound)},
          {"fitted", claim.fitted},
          {"holds", claim.holds() ? Json(*claim.holds()) : Json(nullptr)}};
}

}  // namespace

std::optional<bool> Claim::holds() const {
  if (fitted || undecidable) return {};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double least = low().value_or(goal_is == Goal::kAtLeast ? goal.value_or(-kInfinity) : -kInfinity);
  const double most = high().value_or(goal_is == Goal::kAtMost ? goal.value_or(kInfinity) : kInfinity);
  const double around = interval.value_or(0);
  if (ours - around >= least && ours + around <= most) return true;
  if (ours + around < least || ours - around > most) return false;
  return {};
}

const char* verdict(const Claim& claim) {
  if (claim.fitted) return "fitted";
  const auto holds = claim.holds();
  return !holds ? "undecided" : *holds ? "yes" : "NO";
}

const char* name_of(Mode mode) {
  return mode == Mode::kFast ? "sim" : mode == Mode::kFull ? "full" : "live";
}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> list = {
      {"sc11-figure2", kSc11, "figure 2", "three applications, four servers: one common order", sc11_figure2, kNotLive,
       kFull},
      {"sc11-formulas", kSc11, "formulas 1-3", "mean completion in theory and in simulation", sc11_formulas, kNotLive,
       kFull},
      {"sc11-figure5", kSc11, "figures 3, 5", "ten 4 MB reads over eight servers, disk and flash", sc11_figure5, kLive,
       kFull},
      {"sc11-figure6", kSc11, "figure 6", "2 to 16 applications, 8 to 32 processes, 16 servers", sc11_figure6, kLive,
       kFull},
      {"sc11-figure7", kSc11, "figure 7", "2 to 4096 servers", sc11_figure7, kNotLive, kFull},
      {"sc11-figure8", kSc11, "figure 8", "widths of the time window", sc11_figure8, kNotLive, kFull},
      {"agios-figure3", kAgios, "figure 3", "the scheduler of section III without aggregations, 40 processes",
       agios_figure3},
      {"agios-patterns", kAgios, "figures 5-7", "four patterns, reads and writes, with and without prediction",
       agios_patterns, kLive},
      {"twins-forwarding", kTwins, "section 3", "forwarding nodes in front of servers", twins_forwarding},
      {"thesis-identical", kThesis, "figures 4.1-4.3", "two identical jobs: base, backoff, locking", thesis_identical,
       kLive, kFull},
      {"thesis-mixed", kThesis, "table 4.1, figures 4.4-4.6", "four jobs: base, backoff, locking", thesis_mixed, kLive,
       kFull},
      {"thesis-scale", kThesis, "figures 4.7-4.9", "2, 6 and 10 random jobs", thesis_scale, kLive, kFull},
      {"thesis-striped", kThesis, "figures 3.1, 3.5", "32 jobs on 2 to 8 of 64 targets: backoff and locking per target",
       thesis_striped},
      {"thesis-outsider", kThesis, "chapter 6", "a job that takes no part, and probes by the gate or with own data",
       thesis_outsider},
      {"thesis-overhead", kThesis, "section 4.2", "what backoff and locking cost on a quiet system", thesis_overhead},
      {"resonant-demo", kResonant, "figures 2, 5", "the demonstration program: six ways to read", resonant_demo, kLive},
      {"resonant-benchmarks", kResonant, "figures 6-10", "five benchmarks, disk and flash: six ways to read and write",
       resonant_benchmarks},
      {"resonant-interference", kResonant, "figure 11", "two programs at once", resonant_interference},
      {"resonant-scaling", kResonant, "figure 12", "1 to 1024 ranks over 16 targets", resonant_scaling},
      {"checkpoints", "", "", "ten unequal jobs checkpoint at once", checkpoints, kLive, kFull},
      {"checkpoints-processes", "", "", "the same with four processes per job: a shared file, a file per process",
       checkpoints_processes, kLive, kFull},
      {"cheating", "", "", "what a job gains, and what others lose, if its stamps have wrong values", cheating},
      {"predicted-sizes", "", "", "phases whose sizes only servers and gate expect, right and wrong", predicted_sizes},
      {"beyond-unequal", "", "", "unequal jobs under every policy", beyond_unequal, kNotLive, kFull},
  };
  return list;
}

const Experiment* find_experiment(std::string_view name) {
  for (const Experiment& experiment : experiments())
    if (experiment.name == name) return &experiment;
  return nullptr;
}

Result<ExperimentResult> run_experiment(std::string_view name, const LabOptions& options) {
  const Experiment* experiment = find_experiment(name);
  if (!experiment) {
    std::vector<std::string> names;
    for (const Experiment& each : experiments()) names.push_back(each.name);
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no experiment '{}'; there are: {}", name, fmt::join(names, ", ")));
  }
  if (!experiment->runs(options.mode))
    return fail(ErrorCode::kInvalid,
                fmt::format("experiment '{0}' cannot run {1}; leave out --{1}", name, name_of(options.mode)));
  const auto begin = std::chrono::steady_clock::now();
  auto result = experiment->run(options);
  if (!result)
    return fail(result.error().code, fmt::format("{} ({}): {}", name, name_of(options.mode), result.error().message));
  result->mode = name_of(options.mode);
  result->name = experiment->name;
  if (result->answer.sentence.empty()) result->answer = answer_of_claims(result->claims);
  result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Json to_json(const std::vector<Experiment>& list) {
  auto json = Json::array();
  for (const Experiment& experiment : list)
    json.push_back({{"name", experiment.name},
                    {"paper", experiment.paper},
                    {"figure", experiment.figure},
                    {"what", experiment.what},
                    {"status", "ready"},
                    {"full", experiment.full},
                    {"live", experiment.live}});
  return json;
}

Json to_json(const std::vector<ExperimentResult>& results) {
  auto json = Json::array();
  for (const ExperimentResult& result : results) {
    auto details = Json::array();
    for (const DetailTable& detail : result.details)
      details.push_back(
          {{"title", detail.title}, {"columns", detail.columns}, {"rows", rows_json(detail.columns, detail.rows)}});
    auto claims = Json::array();
    for (const Claim& claim : result.claims) claims.push_back(claim_json(claim));
    json.push_back({{"name", result.name},
                    {"mode", result.mode},
                    {"device", result.device},
                    {"seconds", result.seconds},
                    {"rows", rows_json(result.columns, result.rows)},
                    {"details", details},
                    {"claims", claims}});
  }
  return json;
}

}  // namespace tutti::lab

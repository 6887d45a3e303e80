// SPDX-License-Identifier: Apache-2.0
#include "sim_study.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "command.h"
#include "lab/answer.h"
#include "lab/report.h"
#include "lab/tools.h"

namespace tutti::cli {
namespace {

struct StudyRow {
  sim::Variant settings;  // without the policy
  sim::Overrides overrides;
  sim::Scenario scenario{};          // of the first seed
  std::vector<sim::Metrics> runs{};  // by seed

  const std::string& policy() const {
    return scenario.forwarding.count ? scenario.forwarding.policy.name : scenario.servers.policy.name;
  }
};

// A figure of a run. In tables it has a title; times are in seconds.
struct Figure {
  const char* key;
  const char* title;  // nullptr: not in tables
  bool time;
  bool may_lack;  // 0 means that it was not computed
  double (*of)(const sim::Metrics&);
};

const Figure kFigures[] = {
    {"operation_seconds", "operation", true, false, [](const sim::Metrics& m) { return m.operation.mean; }},
    {"operation_p99_seconds", "p99", true, false, [](const sim::Metrics& m) { return m.operation.p99; }},
    {"phase_seconds", "phase", true, false, [](const sim::Metrics& m) { return m.phase.mean; }},
    {"phase_p99_seconds", nullptr, true, false, [](const sim::Metrics& m) { return m.phase.p99; }},
    {"last_over_first", nullptr, false, true, [](const sim::Metrics& m) { return m.last_over_first; }},
    {"makespan_seconds", "makespan", true, false, [](const sim::Metrics& m) { return m.makespan; }},
    {"bytes_per_second", nullptr, false, false, [](const sim::Metrics& m) { return m.bandwidth; }},
    {"slowdown", "slowdown", false, true, [](const sim::Metrics& m) { return m.slowdown; }},
    {"worst_slowdown", nullptr, false, true, [](const sim::Metrics& m) { return m.worst_slowdown; }},
    {"fairness", "fairness", false, true, [](const sim::Metrics& m) { return m.fairness; }},
    {"idle", nullptr, false, false, [](const sim::Metrics& m) { return m.idle; }},
    {"bound_phase_seconds", nullptr, true, true, [](const sim::Metrics& m) { return m.bound; }},
    {"failed_operations", nullptr, false, false,
     [](const sim::Metrics& m) { return static_cast<double>(m.failed_operations); }},
};

// Mean over the seeds and its 95% interval; nothing: not computed.
std::optional<lab::ValueWithInterval> estimate(const StudyRow& row, const Figure& figure) {
  std::vector<double> values;
  for (const sim::Metrics& run : row.runs) values.push_back(figure.of(run));
  if (figure.may_lack && std::ranges::find(values, 0.0) != values.end()) return std::nullopt;
  lab::ValueWithInterval result = lab::jackknife(values.size(), [&](lab::WithoutSeed without) {
    return lab::sum_of(values, without) / static_cast<double>(values.size() - (without ? 1 : 0));
  });
  if (result.interval && *result.interval < 1e-12 * std::abs(result.value)) result.interval = 0;  // rounding errors
  return result;
}

double mean_of(const StudyRow& row, double (*of)(const sim::Metrics&)) {
  double sum = 0;
  for (const sim::Metrics& run : row.runs) sum += of(run);
  return sum / static_cast<double>(row.runs.size());
}

// "fifo, servers.depth=4"
std::string name_of(const StudyRow& row) {
  std::string name = row.policy();
  for (const auto& [key, value] : row.settings) name += fmt::format(", {}={}", key, value);
  return name;
}

std::vector<StudyRow> rows_of(const Study& study) {
  std::vector<StudyRow> rows;
  for (const sim::Variant& variant : study.variants)
    for (std::size_t i = 0; i < std::max<std::size_t>(study.policies.size(), 1); ++i) {
      StudyRow& row = rows.emplace_back();
      for (const auto& setting : variant)
        if (setting.first != "policy") row.settings.push_back(setting);
      row.overrides = sim::with(study.overrides, variant);
      if (!study.policies.empty()) row.overrides.policy = study.policies[i];
    }
  return rows;
}

// Loads all scenarios first, so that a mistake is found before anything runs.
Result<void> load(const Study& study, std::vector<StudyRow>& rows) {
  for (StudyRow& row : rows) {
    auto scenario = sim::load_scenario(study.file, row.overrides);
    if (!scenario) return Failure(scenario.error());
    row.scenario = std::move(*scenario);
    row.runs.resize(study.seeds);
  }
  return {};
}

Result<void> run(const Study& study, std::vector<StudyRow>& rows) {
  std::vector<std::function<void()>> tasks;
  std::vector<std::optional<Error>> errors(rows.size() * study.seeds);
  std::atomic<std::size_t> done = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < errors.size(); ++i)
    tasks.emplace_back([&, i] {
      StudyRow& row = rows[i / study.seeds];
      sim::Overrides overrides = row.overrides;
      overrides.seed = row.scenario.seed + i % study.seeds;
      const auto scenario = sim::load_scenario(study.file, overrides);  // ranges are drawn by seed
      auto measured = scenario ? sim::measure(*scenario, study.how) : Failure(scenario.error());
      if (measured)
        row.runs[i % study.seeds] = std::move(measured->metrics);
      else
        errors[i] = measured.error();
      const std::size_t ended = ++done;
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
        print_error("\r{} of {} runs{}", ended, errors.size(), ended == errors.size() ? "\n" : "");
    });
  if (study.one_at_a_time)
    for (const auto& task : tasks) task();
  else
    lab::run_all(tasks);
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i])
      return fail(errors[i]->code,
                  fmt::format("{}, seed {}: {}", name_of(rows[i / study.seeds]),
                              rows[i / study.seeds].scenario.seed + i % study.seeds, errors[i]->message));
  return {};
}

Json as_json(const Study& study, const std::vector<StudyRow>& rows) {
  auto list = Json::array();
  for (const StudyRow& row : rows) {
    Json settings = Json::object(), metrics = Json::object();
    for (const auto& [key, value] : row.settings) settings[key] = value;
    for (const Figure& figure : kFigures) {
      const auto value = estimate(row, figure);
      metrics[figure.key] =
          !value
              ? Json(nullptr)
              : Json({{"mean", value->value}, {"interval", value->interval ? Json(*value->interval) : Json(nullptr)}});
    }
    list.push_back({{"policy", row.policy()}, {"settings", settings}, {"metrics", metrics}});
  }
  const sim::Scenario& first = rows.front().scenario;
  return {{"scenario", first.name}, {"seed", first.seed}, {"seeds", study.seeds}, {"rows", list}};
}

std::string csv_word(const std::string& word) {
  if (word.find_first_of(",\"\r\n") == std::string::npos) return word;
  std::string text = "\"";
  for (const char c : word) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

// One line per row. Empty: not computed, or no interval, which needs three seeds.
std::string as_csv(const Study& study, const std::vector<StudyRow>& rows) {
  std::string text = "scenario,policy";
  for (const auto& [key, value] : rows.front().settings) text += "," + csv_word(key);
  text += ",seed,seeds";
  for (const Figure& figure : kFigures) text += fmt::format(",{0},{0}_interval", figure.key);
  for (const StudyRow& row : rows) {
    text += fmt::format("\n{},{}", csv_word(row.scenario.name), row.policy());
    for (const auto& [key, value] : row.settings) text += "," + csv_word(value);
    text += fmt::format(",{},{}", row.scenario.seed, study.seeds);
    for (const Figure& figure : kFigures) {
      const auto value = estimate(row, figure);
      text += value ? fmt::format(",{:.9g},", value->value) : std::string(",,");
      if (value && value->interval) text += fmt::format("{:.9g}", *value->interval);
    }
  }
  return text + "\n";
}

std::string cell(const std::optional<lab::ValueWithInterval>& value, bool time) {
  if (!value) return "-";
  const auto text = [&](double number, int digits) {
    return time ? lab::time_text(number, digits) : fmt::format("{:.{}g}", number, digits);
  };
  return text(value->value, 4) + (value->interval ? " \u00b1 " + text(*value->interval, 2) : "");
}

std::string as_table(const std::vector<StudyRow>& rows) {
  std::vector<std::string> columns{"policy"};
  for (const auto& [key, value] : rows.front().settings) columns.push_back(key);
  for (const Figure& figure : kFigures)
    if (figure.title) columns.emplace_back(figure.title);
  Table table(columns);
  for (const StudyRow& row : rows) {
    std::vector<std::string> cells{row.policy()};
    for (const auto& [key, value] : row.settings) cells.push_back(value);
    for (const Figure& figure : kFigures)
      if (figure.title) cells.push_back(cell(estimate(row, figure), figure.time));
    table.add(std::move(cells));
  }
  return table.text();
}

lab::AnswerRun run_of(const StudyRow& row) {
  return {name_of(row), mean_of(row, [](const sim::Metrics& m) { return m.phase.mean; }),
          mean_of(row, [](const sim::Metrics& m) { return m.makespan; })};
}

// Rows of the same settings follow each other: how many, one for each policy.
std::size_t policies_of(const std::vector<StudyRow>& rows) {
  std::size_t policies = 1;
  while (policies < rows.size() && rows[policies].settings == rows.front().settings) ++policies;
  return policies;
}

// Every policy against the first one, with the geometric mean over the settings.
lab::Answer answer_over_settings(const std::vector<StudyRow>& rows, std::size_t policies) {
  lab::Answer answer{.sentence = "", .unit = "x", .bars = {{rows.front().policy(), 1}}};
  const std::size_t settings = rows.size() / policies;
  std::size_t best = 1;
  std::vector<double> lowest(policies, HUGE_VAL), highest(policies, 0);
  for (std::size_t policy = 1; policy < policies; ++policy) {
    double sum = 0;
    for (std::size_t i = 0; i < settings; ++i) {
      const double ratio = run_of(rows[i * policies + policy]).mean / run_of(rows[i * policies]).mean;
      sum += std::log(ratio);
      lowest[policy] = std::min(lowest[policy], ratio);
      highest[policy] = std::max(highest[policy], ratio);
    }
    answer.bars.push_back({rows[policy].policy(), std::exp(sum / static_cast<double>(settings))});
    if (answer.bars[policy].value < answer.bars[best].value) best = policy;
  }
  answer.sentence = fmt::format("mean phase under {} is {:.2f} times that under {} over {} settings ({:.2f} to {:.2f})",
                                rows[best].policy(), answer.bars[best].value, rows.front().policy(), settings,
                                lowest[best], highest[best]);
  return answer;
}

// Policies are compared with the first one, settings of one policy with the first ones.
lab::Answer answer_of(const std::vector<StudyRow>& rows) {
  const std::size_t policies = policies_of(rows);
  if (policies > 1 && policies < rows.size()) return answer_over_settings(rows, policies);
  std::vector<lab::AnswerRun> runs;
  for (const StudyRow& row : rows) runs.push_back(run_of(row));
  const lab::AnswerRun& first = runs.front();
  if (runs.size() == 1)
    return {.sentence = fmt::format("mean phase {} under {}; the last one ends after {}", lab::time_text(first.mean),
                                    first.name, lab::time_text(first.makespan)),
            .bars = {{first.name, first.mean}}};
  const auto best = std::ranges::min_element(runs.begin() + 1, runs.end(), {}, &lab::AnswerRun::mean);
  lab::Answer answer = lab::compare_runs("mean phase", first, *best);
  if (runs.size() == 2) return answer;
  answer.sentence += fmt::format(" ({} \u2192 {})", first.name, best->name);
  answer.bars.clear();
  for (const lab::AnswerRun& run : runs) answer.bars.push_back({run.name, run.mean});
  return answer;
}

lab::ExperimentResult to_result(const Study& study, const std::vector<StudyRow>& rows) {
  const sim::Scenario& first = rows.front().scenario;
  lab::ExperimentResult result;
  result.name = first.name;
  result.device = fmt::format("{} servers, {}, depth {}, {} seeds from {} on", first.servers.count,
                              describe(first.servers.device), first.servers.depth, study.seeds, first.seed);
  result.answer = answer_of(rows);
  result.columns = {"policy"};
  for (const auto& [key, value] : rows.front().settings) result.columns.push_back(key);
  for (const Figure& figure : kFigures) {
    if (!figure.title) continue;
    const std::string unit = figure.time ? " s" : "";
    result.columns.push_back(figure.title + unit);
    if (study.seeds > 2) result.columns.push_back(fmt::format("{} \u00b1{}", figure.title, unit));
  }
  for (const StudyRow& row : rows) {
    std::vector<lab::Cell>& cells = result.rows.emplace_back(std::vector<lab::Cell>{row.policy()});
    for (const auto& [key, value] : row.settings) cells.emplace_back(value);
    for (const Figure& figure : kFigures) {
      if (!figure.title) continue;
      const auto value = estimate(row, figure);
      cells.push_back(value ? lab::Cell(value->value) : lab::Cell("-"));
      if (study.seeds > 2) cells.push_back(value && value->interval ? lab::Cell(*value->interval) : lab::Cell("-"));
    }
  }
  return result;
}

}  // namespace

int run_study(const Study& study) {
  std::vector<StudyRow> rows = rows_of(study);
  if (auto loaded = load(study, rows); !loaded) return report(loaded.error());
  if (auto ran = run(study, rows); !ran) return report(ran.error());
  if (!study.html.empty()) {
    const auto written = lab::write_html({.title = fmt::format("Scenario {}", rows.front().scenario.name),
                                          .command = study.command,
                                          .generated = lab::today(),
                                          .results = {to_result(study, rows)}},
                                         study.html);
    if (!written) return report(written.error());
    print_error("report: {}\n", study.html);
  }
  const sim::Scenario& first = rows.front().scenario;
  if (study.json)
    fmt::print("{}\n", as_json(study, rows).dump(2));
  else if (study.csv)
    fmt::print("{}", as_csv(study, rows));
  else
    fmt::print("{}: {} seeds from {} on{}\n\n{}\n{}", first.name, study.seeds, first.seed,
               study.seeds > 2 ? ", mean \u00b1 95% interval" : "", as_table(rows), lab::to_text(answer_of(rows)));
  double failed = 0;
  for (const StudyRow& row : rows)
    for (const sim::Metrics& each : row.runs) failed += static_cast<double>(each.failed_operations);
  return failed == 0 ? kDone : report({ErrorCode::kIo, fmt::format("{} operations failed", failed)});
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// tutti lab: the papers' experiments by name.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/table.h"
#include "command.h"
#include "lab/experiment.h"
#include "lab/report.h"

namespace tutti::cli {
namespace {

struct LabArguments {
  std::vector<std::string> names;
  bool json = false;
  bool live = false;
  std::string html;
  std::string markdown;
};

int list(const LabArguments& arguments) {
  if (arguments.json) {
    fmt::print("{}\n", lab::to_json(lab::experiments()).dump(2));
    return kDone;
  }
  Table table({"experiment", "paper", "figure", "status", "live", "what"});
  for (const lab::Experiment& experiment : lab::experiments())
    table.add({experiment.name, experiment.paper, experiment.figure, experiment.ready() ? "ready" : "not yet",
               experiment.live() ? "yes" : "", experiment.what});
  fmt::print("{}", table.text());
  return kDone;
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "-";
}

std::string text(const lab::Cell& cell) {
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  if (const auto* real = std::get_if<double>(&cell)) return number(*real);
  return fmt::format("{}", std::get<std::int64_t>(cell));
}

void print(const lab::ExperimentResult& result) {
  fmt::print("{} ({}, {:.1f} s)\n\n", result.name, result.device, result.seconds);
  Table rows(result.columns);
  for (const auto& row : result.rows) {
    std::vector<std::string> cells;
    for (const lab::Cell& cell : row) cells.push_back(text(cell));
    rows.add(std::move(cells));
  }
  fmt::print("{}\n", rows.text());
  Table claims({"claim", "paper", "goal", "ours", "bound", "unit", "holds", "what"});
  for (const lab::Claim& claim : result.claims) {
    const char* sign = claim.kind == lab::Claim::Goal::kAtMost ? "<= " : ">= ";
    claims.add({claim.id, number(claim.paper), claim.goal ? sign + number(*claim.goal) : "-", number(claim.ours),
                number(claim.bound), claim.unit, claim.holds() ? "yes" : "NO", claim.what});
  }
  fmt::print("{}\n", claims.text());
}

// "all" stands for every experiment that is ready, "sc11" and so on for those of a paper.
Result<std::vector<std::string>> expand(const std::vector<std::string>& names, bool live) {
  std::vector<std::string> expanded;
  for (const std::string& name : names) {
    if (lab::find_experiment(name)) {
      expanded.push_back(name);
      continue;
    }
    const std::size_t before = expanded.size();
    for (const lab::Experiment& experiment : lab::experiments()) {
      if (name != "all" && !experiment.name.starts_with(name + "-")) continue;
      if (live ? experiment.live() : static_cast<bool>(experiment.run)) expanded.push_back(experiment.name);
    }
    if (expanded.size() == before) expanded.push_back(name);  // nothing so called: running it says what there is
  }
  return expanded;
}

// A report on "all" also names the experiments that are not ready.
int write_report(const LabArguments& arguments, std::vector<lab::ExperimentResult> results) {
  lab::Report page{
      .title = "Tutti laboratory",
      .command = fmt::format("tutti lab run {} --html {}", fmt::join(arguments.names, " "), arguments.html),
      .generated = lab::today(),
      .results = std::move(results),
      .not_yet = {}};
  if (std::find(arguments.names.begin(), arguments.names.end(), "all") != arguments.names.end())
    for (const lab::Experiment& experiment : lab::experiments())
      if (!experiment.ready()) page.not_yet.push_back(experiment);
  if (!arguments.html.empty()) {
    if (const auto written = lab::write_html(page, arguments.html); !written) return report(written.error());
    fmt::print(stderr, "report: {}\n", arguments.html);
  }
  if (!arguments.markdown.empty()) {
    if (const auto written = lab::write_markdown(page, arguments.markdown); !written) return report(written.error());
    fmt::print(stderr, "claims: {}\n", arguments.markdown);
  }
  return kDone;
}

int run(const LabArguments& arguments) {
  const auto names = expand(arguments.names, arguments.live);
  if (!names) return report(names.error());
  lab::LabOptions options;
  options.live = arguments.live;
  options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  std::vector<lab::ExperimentResult> results;
  for (const std::string& name : *names) {
    auto result = lab::run_experiment(name, options);
    if (!result) return report(result.error());
    if (!arguments.json) print(*result);
    results.push_back(std::move(*result));
  }
  if (arguments.json) fmt::print("{}\n", lab::to_json(results).dump(2));
  return arguments.html.empty() && arguments.markdown.empty() ? kDone : write_report(arguments, std::move(results));
}

}  // namespace

Command lab_command() {
  return {"lab", "The papers' experiments, by name", [](CommandLine& line) {
            auto arguments = std::make_shared<LabArguments>();
            CommandLine& listing = line.subcommand("list", "List the experiments with their paper's figure");
            listing.json(arguments->json);
            listing.action([arguments] { return list(*arguments); });
            CommandLine& running = line.subcommand("run", "Run experiments and set them against the papers");
            running.option("NAME", arguments->names, "Experiments, a paper's (sc11, ...), or all").required();
            running.flag("--live", arguments->live, "With real processes over modelled devices");
            running.json(arguments->json);
            running.option("--html", arguments->html, "Also write a page with tables, charts and timelines");
            running.option("--markdown", arguments->markdown,
                           "Also write the claims as tables, below the marker in that file if it has one");
            running.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli

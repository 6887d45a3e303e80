// SPDX-License-Identifier: Apache-2.0
// tutti lab: the papers' experiments by name.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "command.h"
#include "lab/answer.h"
#include "lab/experiment.h"
#include "lab/report.h"

namespace tutti::cli {
namespace {

struct LabArguments {
  std::vector<std::string> names;
  bool json = false;
  bool live = false;
  bool full = false;
  std::string html;
  std::string markdown;
};

int list(const LabArguments& arguments) {
  if (arguments.json) {
    fmt::print("{}\n", lab::to_json(lab::experiments()).dump(2));
    return kDone;
  }
  Table table({"experiment", "paper", "figure", "full", "live", "what"});
  for (const lab::Experiment& experiment : lab::experiments())
    table.add({experiment.name, experiment.paper, experiment.figure, experiment.full ? "yes" : "",
               experiment.live ? "yes" : "", experiment.what});
  fmt::print("{}", table.text());
  return kDone;
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "-";
}

// A column of times has a name such as "makespan s".
bool is_time(const std::string& column) {
  return column.ends_with(" s");
}

std::string text(const lab::Cell& cell, const std::string& column) {
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  if (const auto* real = std::get_if<double>(&cell)) return is_time(column) ? lab::time_text(*real, 4) : number(*real);
  return fmt::format("{}", std::get<std::int64_t>(cell));
}

std::string wanted(const lab::Claim& claim) {
  if (claim.low()) return fmt::format("{}..{}", number(*claim.low()), number(*claim.high()));
  if (!claim.goal) return "-";
  return (claim.goal_is == lab::Claim::Goal::kAtMost ? "<= " : ">= ") + number(*claim.goal);
}

void print_rows(const std::vector<std::string>& columns, const std::vector<std::vector<lab::Cell>>& rows) {
  std::vector<std::string> names;
  for (const std::string& column : columns)
    names.push_back(is_time(column) ? column.substr(0, column.size() - 2) : column);
  Table table(names);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(text(row[i], columns[i]));
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.text());
}

void print(const lab::ExperimentResult& result) {
  fmt::print("{} ({}, {:.1f} s)\n\n", result.name, result.device, result.seconds);
  print_rows(result.columns, result.rows);
  for (const lab::DetailTable& detail : result.details) {
    fmt::print("{}\n", detail.title);
    print_rows(detail.columns, detail.rows);
  }
  Table claims({"claim", "kind", "paper", "wanted", "ours", "+-", "bound", "unit", "holds", "what"});
  for (const lab::Claim& claim : result.claims)
    claims.add({claim.id, claim.reproduced ? "reproduced" : "advance", number(claim.paper), wanted(claim),
                number(claim.ours), number(claim.interval), number(claim.bound), claim.unit, lab::verdict(claim),
                claim.what});
  fmt::print("{}\n", claims.text());
}

struct Chosen {
  std::string name;
  bool by_name = true;  // false: member of a group, skipped if the mode cannot run it
};

// "all" stands for every experiment that is ready, "sc11" and so on for those of a paper.
std::vector<Chosen> expand(const std::vector<std::string>& names, lab::Mode mode) {
  std::vector<Chosen> chosen;
  for (const std::string& name : names) {
    if (lab::find_experiment(name)) {
      chosen.push_back({name});
      continue;
    }
    const std::size_t before = chosen.size();
    for (const lab::Experiment& experiment : lab::experiments()) {
      if (name != "all" && !experiment.name.starts_with(name + "-")) continue;
      if (experiment.runs(mode)) chosen.push_back({experiment.name, false});
    }
    if (chosen.size() == before)
      chosen.push_back({name});  // unknown: run_experiment() reports it with a list of all names
  }
  return chosen;
}

// The command that writes this report again.
std::string command_of(const LabArguments& arguments) {
  std::string command = "tutti lab run";
  for (const std::string& name : arguments.names) command += " " + lab::shell_word(name);
  if (arguments.live) command += " --live";
  if (arguments.full) command += " --full";
  return command + " --html " + lab::shell_word(arguments.html);
}

int write_report(const LabArguments& arguments, std::vector<lab::ExperimentResult> results) {
  lab::Report page{.title = "Tutti laboratory",
                   .command = command_of(arguments),
                   .generated = lab::today(),
                   .results = std::move(results),
                   .answer = {}};
  if (page.results.size() > 1) page.answer = lab::count_claims(page.results);
  if (!arguments.html.empty()) {
    if (const auto written = lab::write_html(page, arguments.html); !written) return report(written.error());
    print_error("report: {}\n", arguments.html);
  }
  if (!arguments.markdown.empty()) {
    if (const auto written = lab::write_markdown(page, arguments.markdown); !written) return report(written.error());
    print_error("claims: {}\n", arguments.markdown);
  }
  return kDone;
}

int run(const LabArguments& arguments) {
  lab::LabOptions options;
  if (arguments.live) options.mode = lab::Mode::kLive;
  if (arguments.full) options.mode = lab::Mode::kFull;
  options.progress = [](const std::string& line) { print_error("{}\n", line); };
  std::vector<lab::ExperimentResult> results;
  for (const Chosen& chosen : expand(arguments.names, options.mode)) {
    auto result = lab::run_experiment(chosen.name, options);
    if (!result && result.error().code == ErrorCode::kInvalid && !chosen.by_name) {
      print_error("skipped: {}\n", result.error().message);
      continue;
    }
    if (!result) return report(result.error());
    if (!arguments.json) print(*result);
    results.push_back(std::move(*result));
  }
  if (arguments.json) fmt::print("{}\n", lab::to_json(results).dump(2));
  std::string answers;
  if (results.size() == 1) answers = lab::to_text(results[0].answer);
  for (std::size_t i = 0; i < results.size() && results.size() > 1; ++i)
    answers += fmt::format("{}: {}\n", results[i].name, results[i].answer.sentence);
  if (results.size() > 1) answers += "\n" + lab::to_text(lab::count_claims(results));
  if (!arguments.html.empty() || !arguments.markdown.empty())
    if (const int written = write_report(arguments, std::move(results)); written != kDone) return written;
  if (!arguments.json) fmt::print("{}", answers);
  return kDone;
}

}  // namespace

Command lab_command() {
  return {"lab", "List and run the papers' experiments", [](CommandLine& line) {
            auto arguments = std::make_shared<LabArguments>();
            CommandLine& listing = line.subcommand("list", "List the experiments with paper and figure");
            listing.json(arguments->json);
            listing.action([arguments] { return list(*arguments); });
            CommandLine& running = line.subcommand("run", "Run experiments and compare the results with the papers");
            running.option("NAME", arguments->names, "Names of experiments, of a paper (sc11, ...), or all").required();
            running.flag("--live", arguments->live,
                         "Run node and client processes over modelled devices, in real time");
            running.flag("--full", arguments->full, "Run production clients and nodes in virtual time (slower)");
            running.json(arguments->json);
            running.option("--html", arguments->html, "Also write an HTML page with tables, charts and timelines");
            running.option("--markdown", arguments->markdown,
                           "Also write the claims as tables to this file, below its marker if it has one");
            running.action([arguments] {
              if (arguments->live && arguments->full)
                return print_error("tutti: --live and --full cannot be used together\n"), kUsage;
              return run(*arguments);
            });
          }};
}

}  // namespace tutti::cli

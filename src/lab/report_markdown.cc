// SPDX-License-Identifier: Apache-2.0
// The claims as tables in Markdown.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "base/replace_file.h"
#include "lab/report.h"

namespace tutti::lab {
namespace {

std::string figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "–";
}

std::string unit_of(const Claim& claim) {
  if (claim.unit == "x") return "×";
  return claim.unit.empty() ? "" : " " + claim.unit;
}

std::string wanted(const Claim& claim) {
  if (claim.low()) return fmt::format("{} to {}", figure(claim.low()), figure(claim.high()));
  if (!claim.goal) return "–";
  return (claim.goal_is == Claim::Goal::kAtMost ? "≤ " : "≥ ") + figure(claim.goal);
}

std::string row(const Claim& claim, std::string_view experiment) {
  std::string_view id = claim.id;
  if (id.starts_with(experiment) && id.size() > experiment.size()) id.remove_prefix(experiment.size() + 1);
  const std::string_view holds = verdict(claim);
  return fmt::format("| {} <br>`{}` | {} | {} | {} | {}{}{} | {} | {} |\n", claim.what, id,
                     claim.reproduced ? "reproduced" : "advance", figure(claim.paper), wanted(claim),
                     figure(claim.ours), claim.interval ? " ± " + figure(claim.interval) : "", unit_of(claim),
                     figure(claim.bound), holds == "NO" ? "**no**" : holds);
}

std::string section(const ExperimentResult& result) {
  const Experiment* experiment = find_experiment(result.name);
  std::string text = fmt::format("\n### {}", result.name);
  if (experiment && !experiment->figure.empty()) text += ": " + experiment->figure;
  text += fmt::format("\n\n{}. `tutti lab run {}{}`; {}.\n\n", experiment ? experiment->what : "", result.name,
                      result.mode == "sim" ? "" : " --" + result.mode, result.device);
  text += "| claim | kind | paper | wanted | ours | bound | holds |\n|---|---|--:|--:|--:|--:|---|\n";
  for (const Claim& claim : result.claims) text += row(claim, result.name);
  return text;
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::size_t claims[2] = {0, 0}, hold[2] = {0, 0}, undecided = 0;  // advances, reproduced
  for (const ExperimentResult& result : report.results)
    for (const Claim& claim : result.claims) {
      if (claim.fitted) continue;
      ++claims[claim.reproduced];
      hold[claim.reproduced] += claim.holds().value_or(false);
      undecided += !claim.holds();
    }
  std::string text =
      fmt::format("\n{} experiments ran. {} of {} figures are reproduced, {} of {} advances hold; undecided: {}.\n",
                  report.results.size(), hold[1], claims[1], hold[0], claims[0], undecided);
  for (const ExperimentResult& result : report.results) text += section(result);
  return text;
}

Result<void> write_markdown(const Report& report, const std::filesystem::path& file) {
  std::string before;
  if (std::ifstream stream(file, std::ios::binary); stream) {
    const std::string old{std::istreambuf_iterator<char>(stream), {}};
    if (const auto at = old.find(kMarkdownMarker); at != std::string::npos) before = old.substr(0, at);
  }
  return replace_file(file.string(), before + std::string(kMarkdownMarker) + "\n" + to_markdown(report));
}

}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
// The claims as tables in Markdown.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

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

std::string row(const Claim& claim, std::string_view experiment) {
  const char* sign = claim.kind == Claim::Goal::kAtMost ? "≤ " : "≥ ";
  std::string_view id = claim.id;
  if (id.starts_with(experiment) && id.size() > experiment.size()) id.remove_prefix(experiment.size() + 1);
  return fmt::format("| {} <br>`{}` | {} | {} | {}{} | {} | {} |\n", claim.what, id, figure(claim.paper),
                     claim.goal ? sign + figure(claim.goal) : "–", figure(claim.ours), unit_of(claim),
                     figure(claim.bound),
                     claim.fitted     ? "fitted"
                     : *claim.holds() ? "yes"
                                      : "**no**");
}

std::string section(const ExperimentResult& result) {
  const Experiment* experiment = find_experiment(result.name);
  std::string text = fmt::format("\n### {}", result.name);
  if (experiment && !experiment->figure.empty()) text += ": " + experiment->figure;
  text += fmt::format("\n\n{}. `tutti lab run {}{}`; {}.\n\n", experiment ? experiment->what : "", result.name,
                      result.mode == "sim" ? "" : " --" + result.mode, result.device);
  text += "| claim | paper | goal | ours | bound | holds |\n|---|--:|--:|--:|--:|---|\n";
  for (const Claim& claim : result.claims) text += row(claim, result.name);
  return text;
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::size_t claims = 0, hold = 0;
  for (const ExperimentResult& result : report.results)
    for (const Claim& claim : result.claims) claims += !claim.fitted, hold += claim.holds().value_or(false);
  std::string text = fmt::format("\n{} experiments ran, {} of {} claims hold.", report.results.size(), hold, claims);
  for (std::size_t i = 0; i < report.not_yet.size(); ++i)
    text += fmt::format("{}`{}`", i == 0 ? " Not yet: " : ", ", report.not_yet[i].name);
  text += report.not_yet.empty() ? "\n" : ".\n";
  for (const ExperimentResult& result : report.results) text += section(result);
  return text;
}

Result<void> write_markdown(const Report& report, const std::filesystem::path& file) {
  std::string before;
  if (std::ifstream stream(file, std::ios::binary); stream) {
    const std::string old{std::istreambuf_iterator<char>(stream), {}};
    if (const auto at = old.find(kMarkdownMarker); at != std::string::npos) before = old.substr(0, at);
  }
  return replace_file(file, before + std::string(kMarkdownMarker) + "\n" + to_markdown(report));
}

}  // namespace tutti::lab

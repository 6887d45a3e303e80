// SPDX-License-Identifier: Apache-2.0
#include "lab/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>

#include "base/json.h"
#include "base/replace_file.h"
#include "lab/report_template.h"

namespace tutti::lab {
namespace {

Json chart_json(const Chart& chart) {
  auto lines = Json::array();
  for (const Line& line : chart.lines)
    lines.push_back({{"name", line.name}, {"x", line.x}, {"y", line.y}, {"reference", line.reference}});
  return {{"title", chart.title},
          {"x_label", chart.x_label},
          {"y_label", chart.y_label},
          {"bars", chart.bars},
          {"logarithmic_x", chart.logarithmic_x},
          {"x_names", chart.x_names},
          {"lines", lines}};
}

// Segments are arrays (job, kind, from, to, MB/s), because there may be many.
Json timeline_json(const Timeline& timeline) {
  auto segments = Json::array();
  for (const Timeline::Segment& segment : timeline.segments)
    segments.push_back(Json::array(
        {segment.job, static_cast<int>(segment.kind), segment.from, segment.to, segment.megabytes_per_second}));
  return {{"title", timeline.title}, {"jobs", timeline.jobs}, {"segments", segments}};
}

Json answer_json(const Answer& answer) {
  auto bars = Json::array();
  for (const Answer::Bar& bar : answer.bars) bars.push_back({{"name", bar.name}, {"value", bar.value}});
  return {{"sentence", answer.sentence}, {"unit", answer.unit}, {"bars", bars}};
}

Json results_json(const std::vector<ExperimentResult>& results) {
  auto json = to_json(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto charts = Json::array(), timelines = Json::array();
    for (const Chart& chart : results[i].charts) charts.push_back(chart_json(chart));
    for (const Timeline& timeline : results[i].timelines) timelines.push_back(timeline_json(timeline));
    json[i]["answer"] = answer_json(results[i].answer);
    json[i]["columns"] = results[i].columns;
    json[i]["charts"] = std::move(charts);
    json[i]["timelines"] = std::move(timelines);
    const Experiment* experiment = find_experiment(results[i].name);
    json[i]["paper"] = experiment ? experiment->paper : "";
    json[i]["figure"] = experiment ? experiment->figure : "";
    json[i]["what"] = experiment ? experiment->what : "";
  }
  return json;
}

// In a script element only "</script", "<script" and "<!--" have a meaning, so every '<' is escaped.
std::string for_script_element(const Json& json) {
  const std::string text = json.dump_ascii();
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string for_markup(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string today() {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
}

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-./:=,+@%", c); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string to_html(const Report& report) {
  const bool own = report.results.size() == 1 && report.answer.sentence.empty();
  const Json data = {{"title", report.title},
                     {"command", report.command},
                     {"generated", report.generated},
                     {"answer", answer_json(own ? report.results[0].answer : report.answer)},
                     {"results", results_json(report.results)}};
  return fmt::format(
      R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{}</title>
<style>{}</style>
</head>
<body>
<main id="report"><noscript>This report is drawn by a script inside this page; please allow it to run.</noscript></main>
<script type="application/json" id="data">{}</script>
<script>
"use strict";
{}{}{}</script>
</body>
</html>
)html",
      for_markup(report.title), kReportStyle, for_script_element(data), kReportDrawing, kReportTimeline, kReportPage);
}

Result<void> write_html(const Report& report, const std::filesystem::path& file) {
  return replace_file(file.string(), to_html(report));
}

}  // namespace tutti::lab

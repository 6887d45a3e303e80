// SPDX-License-Identifier: Apache-2.0
#include "lab/report_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "lab/answer.h"

namespace tutti::lab {
namespace {

const std::string& policy_of(const sim::Scenario& scenario) {
  return scenario.forwarding.count ? scenario.forwarding.policy.name : scenario.servers.policy.name;
}

Timeline::Segment::Kind kind_of(sim::Activity::Kind kind) {
  switch (kind) {
    case sim::Activity::Kind::kCompute:
      return Timeline::Segment::Kind::kCompute;
    case sim::Activity::Kind::kWaiting:
      return Timeline::Segment::Kind::kWaiting;
    case sim::Activity::Kind::kInputOutput:
      break;
  }
  return Timeline::Segment::Kind::kInputOutput;
}

Cell or_dash(double value) {
  return value > 0 ? Cell(value) : Cell("-");
}

std::vector<Cell> row_of(const RecordedRun& run) {
  const sim::Metrics& metrics = run.measured.metrics;
  return {policy_of(run.scenario),
          std::int64_t{run.scenario.servers.depth},
          metrics.operation.mean,
          metrics.operation.p99,
          metrics.phase.mean,
          metrics.last_over_first,
          metrics.makespan,
          metrics.bandwidth / 1e6,
          or_dash(metrics.slowdown),
          or_dash(metrics.fairness),
          metrics.idle,
          or_dash(metrics.bound > 0 ? metrics.phase.mean / metrics.bound : 0)};
}

// One group of bars per application, one bar per run.
Chart applications_chart(const std::vector<RecordedRun>& runs, std::string title, std::string y_label,
                         double sim::ApplicationMetrics::*figure) {
  Chart chart{.title = std::move(title),
              .x_label = "application",
              .y_label = std::move(y_label),
              .bars = true,
              .logarithmic_x = false,
              .lines = {},
              .x_names = {}};
  for (const sim::ApplicationMetrics& application : runs.front().measured.metrics.applications)
    chart.x_names.push_back(application.name);
  for (const RecordedRun& run : runs) {
    Line line{policy_of(run.scenario), {}, {}};
    for (const sim::ApplicationMetrics& application : run.measured.metrics.applications) {
      line.x.push_back(static_cast<double>(line.x.size()));
      line.y.push_back(application.*figure);
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// The mean phase if each application were alone; 0: not measured.
double alone(const sim::Metrics& metrics) {
  double sum = 0, phases = 0;
  for (const sim::ApplicationMetrics& application : metrics.applications) {
    if (application.alone <= 0) return 0;
    sum += application.alone * static_cast<double>(application.phases);
    phases += static_cast<double>(application.phases);
  }
  return phases > 0 ? sum / phases : 0;
}

Answer answer_of_one(const AnswerRun& run, const sim::Metrics& metrics) {
  Answer answer{.sentence = fmt::format("mean phase {} under {}", time_text(run.mean), run.name),
                .bars = {{run.name, run.mean}}};
  if (const double time = alone(metrics); time > 0) {
    answer.sentence += fmt::format(", {:.2f} times as long as alone", run.mean / time);
    answer.bars.push_back({"alone", time});
  }
  if (metrics.bound > 0) answer.bars.push_back({"lower bound", metrics.bound});
  answer.sentence += fmt::format("; the last one ends after {}", time_text(run.makespan));
  return answer;
}

}  // namespace

Timeline timeline_of(const sim::Scenario& scenario, const std::vector<sim::Activity>& segments, std::string title) {
  Timeline timeline;
  timeline.title = std::move(title);
  for (const sim::Application& application : scenario.applications) timeline.jobs.push_back(application.name);
  for (const sim::Activity& segment : segments)
    timeline.segments.push_back({.job = segment.application,
                                 .kind = kind_of(segment.kind),
                                 .from = seconds(segment.from),
                                 .to = seconds(segment.to),
                                 .megabytes_per_second = segment.bytes_per_second / 1e6});
  return timeline;
}

// One run beside the same jobs alone, and the bound. Several: the first one and the best other one.
Answer answer_of(const std::vector<RecordedRun>& runs) {
  const auto run_of = [](const RecordedRun& run) {
    return AnswerRun{policy_of(run.scenario), run.measured.metrics.phase.mean, run.measured.metrics.makespan};
  };
  const AnswerRun first = run_of(runs.front());
  if (runs.size() == 1) return answer_of_one(first, runs.front().measured.metrics);
  const auto best = std::min_element(runs.begin() + 1, runs.end(), [](const RecordedRun& a, const RecordedRun& b) {
    return a.measured.metrics.phase.mean < b.measured.metrics.phase.mean;
  });
  Answer answer = compare_runs("mean phase", first, run_of(*best));
  answer.bars.clear();
  for (const RecordedRun& run : runs) answer.bars.push_back({policy_of(run.scenario), run.measured.metrics.phase.mean});
  return answer;
}

ExperimentResult result_of(const std::vector<RecordedRun>& runs) {
  const RecordedRun& first = runs.front();
  ExperimentResult result;
  result.name = first.scenario.name;
  result.device =
      fmt::format("{} servers, {}, depth {}, seed {}", first.scenario.servers.count,
                  describe(first.scenario.servers.device), first.scenario.servers.depth, first.scenario.seed);
  result.columns = {"policy",     "depth", "operation s", "p99 s",    "phase s", "last/first",
                    "makespan s", "MB/s",  "slowdown",    "fairness", "idle",    "over bound"};
  for (const RecordedRun& run : runs) {
    result.rows.push_back(row_of(run));
    result.seconds += run.measured.outcome.wall_seconds;
    result.timelines.push_back(timeline_of(run.scenario, run.measured.outcome.timeline,
                                           fmt::format("Jobs under {}", policy_of(run.scenario))));
  }
  result.answer = answer_of(runs);
  result.charts.push_back(
      applications_chart(runs, "Mean phase by application", "seconds", &sim::ApplicationMetrics::mean_phase));
  if (first.measured.metrics.slowdown > 0)
    result.charts.push_back(
        applications_chart(runs, "Slowdown against running alone", "times", &sim::ApplicationMetrics::slowdown));
  return result;
}

}  // namespace tutti::lab

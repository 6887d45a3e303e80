// SPDX-License-Identifier: Apache-2.0
#include "lab/report_runs.h"

#include <fmt/format.h>

#include "base/units.h"

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
  result.charts.push_back(
      applications_chart(runs, "Mean phase by application", "seconds", &sim::ApplicationMetrics::mean_phase));
  if (first.measured.metrics.slowdown > 0)
    result.charts.push_back(
        applications_chart(runs, "Slowdown against running alone", "times", &sim::ApplicationMetrics::slowdown));
  return result;
}

}  // namespace tutti::lab

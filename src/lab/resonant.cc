// SPDX-License-Identifier: Apache-2.0
// The demonstration program, interference and scaling of the resonant I/O paper (figures 2, 5, 11, 12), simulated.
#include <fmt/format.h>

#include <algorithm>

#include "lab/catalogue.h"
#include "lab/collective_patterns.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using collective::PlanKind;

constexpr unsigned kPlanSeeds = 10;

std::string describe_cluster(const ClusterFigures& figures) {
  return fmt::format("{}; one request of a file at a time, read-ahead {} KiB, Gigabit Ethernet",
                     describe(figures.device), figures.read_ahead.count() >> 10);
}

CollectiveCell cell(const ClusterFigures& figures, const CollectiveProgram& program, const CollectiveMethod& method) {
  return {figures, {{program, method, paper_layout(figures.targets)}}, false};
}

// The columns of figures 2 and 5, and of the full design.
std::vector<NamedMethod> demonstration_methods(const ClusterFigures& figures) {
  NamedMethod direct{"resonant, direct", full_design(PlanKind::kResonant, figures)};
  direct.method.options.read_form = collective::ReadForm::kDirect;
  return {{"non-collective", non_collective()},
          {"ROMIO", romio()},
          {"resonant as in the paper", paper_method()},
          {"two-phase", full_design(PlanKind::kTwoPhase, figures)},
          {"resonant", full_design(PlanKind::kResonant, figures)},
          direct,
          {"timed", full_design(PlanKind::kTimed, figures)},
          {"auto", full_design(PlanKind::kAuto, figures)}};
}

struct DemonstrationRow {
  bool queue = false;  // on queue_cluster()
  std::size_t ranks = 0;
  std::uint64_t kilobytes = 0;
  Throughputs values;  // by method
};

// On paper_cluster().
const DemonstrationRow& row_of(const std::vector<DemonstrationRow>& rows, std::size_t ranks, std::uint64_t kilobytes) {
  return *std::find_if(rows.begin(), rows.end(), [&](const DemonstrationRow& row) {
    return !row.queue && row.ranks == ranks && row.kilobytes == kilobytes;
  });
}

void add_demonstration_claims(ExperimentResult& result, const std::vector<DemonstrationRow>& rows) {
  const auto& four = row_of(rows, 4, 64).values;
  const auto& two = row_of(rows, 2, 128).values;
  const auto& small = row_of(rows, 2, 32).values;
  auto& claims = result.claims;
  const std::string id = "resonant-demo.reproduced.";
  claims.push_back(
      fitted(id + "gain-4-64", "resonant over ROMIO, 4 ranks, 64 KB", "%", 151, gain_over_seeds(four[2], four[1])));
  claims.push_back(
      reproduced(id + "gain-2-128", "resonant over ROMIO, 2 ranks, 128 KB", "%", 75, gain_over_seeds(two[2], two[1])));
  claims.push_back(fitted(id + "alone-4-64", "non-collective, 4 ranks, 64 KB", "MB/s", 175, mean_over_seeds(four[0])));
  claims.push_back(
      reproduced(id + "alone-2-128", "non-collective, 2 ranks, 128 KB", "MB/s", 149, mean_over_seeds(two[0])));
  claims.push_back(reproduced(id + "alone-2-64", "non-collective, 2 ranks, 64 KB", "MB/s", 125,
                              mean_over_seeds(row_of(rows, 2, 64).values[0])));
  claims.push_back(reproduced(id + "romio-4-64", "ROMIO, 4 ranks, 64 KB", "MB/s", 42, mean_over_seeds(four[1])));
  claims.push_back(reproduced(id + "romio-2-128", "ROMIO, 2 ranks, 128 KB", "MB/s", 72, mean_over_seeds(two[1])));
  claims.push_back(reproduced(id + "equal-2-32", "resonant / ROMIO, 2 ranks, 32 KB: the same pattern", "x", 1,
                              ratio_over_seeds(small[2], small[1])));
  const std::string ahead = "resonant-demo.advance.";
  claims.push_back(
      advance(ahead + "gain-4-64", "auto over two-phase, 4 ranks, 64 KB", "%", 151, gain_over_seeds(four[7], four[3])));
  claims.push_back(
      advance(ahead + "gain-2-128", "auto over two-phase, 2 ranks, 128 KB", "%", 75, gain_over_seeds(two[7], two[3])));
  for (const bool queue : {false, true}) {
    ValueWithInterval worst{1e9};
    for (const auto& row : rows) {
      const ValueWithInterval ratio = ratio_to_better(row.values[7], row.values[0], row.values[3]);
      if (row.queue == queue && ratio.value < worst.value) worst = ratio;
    }
    claims.push_back(advance(
        ahead + (queue ? "worst-queue" : "worst"),
        std::string("auto / best of non-collective and two-phase, worst row") + (queue ? ", disk's own queue" : ""),
        "x", 0.98, worst));
  }
}

// The same gains if all requests go to the disk's own queue.
void add_queue_claims(ExperimentResult& result, const std::vector<DemonstrationRow>& rows) {
  const auto find = [&](std::size_t ranks, std::uint64_t kilobytes) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const DemonstrationRow& row) {
                          return row.queue && row.ranks == ranks && row.kilobytes == kilobytes;
                        })
        ->values;
  };
  const auto four = find(4, 64), two = find(2, 128);
  const std::string id = "resonant-demo.reproduced.queue-";
  result.claims.push_back(reproduced(id + "gain-4-64", "resonant over ROMIO, 4 ranks, 64 KB, disk's own queue", "%",
                                     151, gain_over_seeds(four[2], four[1])));
  result.claims.push_back(reproduced(id + "gain-2-128", "resonant over ROMIO, 2 ranks, 128 KB, disk's own queue", "%",
                                     75, gain_over_seeds(two[2], two[1])));
}

Chart demonstration_chart(const std::vector<DemonstrationRow>& rows, const std::vector<NamedMethod>& methods,
                          std::size_t ranks) {
  Chart chart{.title = fmt::format("The demonstration program with {} ranks (figures 2 and 5)", ranks),
              .x_label = "segment, KB",
              .y_label = "MB/s",
              .logarithmic_x = true,
              .lines = {}};
  for (std::size_t i : {0u, 1u, 2u, 7u}) {
    Line line{.name = methods[i].name, .x = {}, .y = {}};
    for (const auto& row : rows) {
      if (row.queue || row.ranks != ranks) continue;
      line.x.push_back(static_cast<double>(row.kilobytes));
      line.y.push_back(mean_of(row.values[i]));
    }
    chart.lines.push_back(line);
  }
  return chart;
}

}  // namespace

namespace {

Result<void> measure_demonstration(ExperimentResult& result, std::vector<DemonstrationRow>& rows, bool queue,
                                   const LabOptions& options) {
  const ClusterFigures figures = queue ? queue_cluster() : paper_cluster();
  for (const std::size_t ranks : {2u, 4u}) {
    for (const std::uint64_t kilobytes : {32u, 64u, 128u, 256u, 512u, 1024u}) {
      say(options, fmt::format("resonant-demo: {} ranks, {} KB", ranks, kilobytes));
      const auto program = demonstration_program({.ranks = ranks, .segment = kilobytes << 10});
      std::vector<CollectiveCell> cells;
      for (const auto& each : demonstration_methods(figures)) cells.push_back(cell(figures, program, each.method));
      std::vector<std::string> chosen;
      const auto values = measure_cells(cells, kPlanSeeds, &chosen);
      if (!values) return Failure(values.error());
      rows.push_back({queue, ranks, kilobytes, *values});
      std::vector<Cell> line = {queue ? "disk's own queue" : "PVFS2 2.6", static_cast<std::int64_t>(ranks),
                                static_cast<std::int64_t>(kilobytes)};
      append_means(line, *values);
      line.emplace_back(chosen.back());
      result.rows.push_back(std::move(line));
    }
  }
  return {};
}

}  // namespace

Result<ExperimentResult> resonant_demo(const LabOptions& options) {
  if (options.mode == Mode::kLive) return resonant_demo_live(options);
  ExperimentResult result;
  result.device = describe_cluster(paper_cluster());
  const auto methods = demonstration_methods(paper_cluster());
  result.columns = {"servers", "ranks", "segment KB"};
  for (const auto& each : methods) result.columns.push_back(each.name);
  result.columns.emplace_back("auto chose");
  std::vector<DemonstrationRow> rows;
  for (const bool queue : {false, true})
    if (auto measured = measure_demonstration(result, rows, queue, options); !measured)
      return Failure(measured.error());
  add_demonstration_claims(result, rows);
  add_queue_claims(result, rows);
  for (const std::size_t ranks : {2u, 4u}) result.charts.push_back(demonstration_chart(rows, methods, ranks));
  return result;
}

// Section 4.3: the demonstration program, and mpi-io-test that computes between its calls. 4 ranks each, 64 KB.
Result<ExperimentResult> resonant_interference(const LabOptions& options) {
  ExperimentResult result;
  const ClusterFigures figures = paper_cluster();
  result.device = describe_cluster(figures);
  result.columns = {"compute ms", "method", "demonstration MB/s", "alone MB/s", "relative"};
  const auto demonstration = demonstration_program({.most_bytes = std::uint64_t{256} << 20});
  const std::vector<NamedMethod> methods = {{"ROMIO", romio()},
                                            {"resonant as in the paper", paper_method()},
                                            {"auto", full_design(PlanKind::kAuto, figures)}};
  const std::vector<unsigned> computes = {1000, 500, 250, 100, 0};
  std::vector<CollectiveCell> cells;
  for (const auto& each : methods) {
    cells.push_back(cell(figures, demonstration, each.method));
    for (const unsigned compute : computes) {
      auto other = mpi_io_test({.most_bytes = std::uint64_t{1} << 40});
      other.compute = std::chrono::milliseconds(compute);
      cells.push_back(cell(figures, demonstration, each.method));
      cells.back().programs.push_back({other, each.method, paper_layout()});
      cells.back().until_first = true;
    }
  }
  say(options, "resonant-interference: all compute times");
  const auto values = measure_cells(cells, kPlanSeeds);
  if (!values) return Failure(values.error());
  const auto value = [&](std::size_t method, std::size_t column) -> const std::vector<double>& {
    return (*values)[method * (computes.size() + 1) + column];
  };
  for (std::size_t m = 0; m < methods.size(); ++m)
    for (std::size_t i = 0; i < computes.size(); ++i)
      result.rows.push_back({static_cast<std::int64_t>(computes[i]), methods[m].name, mean_of(value(m, i + 1)),
                             mean_of(value(m, 0)), mean_of(value(m, i + 1)) / mean_of(value(m, 0))});
  const std::size_t last = computes.size();
  const std::string id = "resonant-interference.reproduced.";
  auto& claims = result.claims;
  claims.push_back(
      fitted(id + "resonant", "resonant under the heaviest interference", "MB/s", 48, mean_over_seeds(value(1, last))));
  claims.push_back(
      fitted(id + "romio", "ROMIO under the heaviest interference", "MB/s", 22, mean_over_seeds(value(0, last))));
  claims.push_back(fitted(id + "resonant-light", "relative throughput of resonant, 1 s of computation", "x", 0.90,
                          ratio_over_seeds(value(1, 1), value(1, 0))));
  claims.push_back(fitted(id + "resonant-heavy", "relative throughput of resonant, no computation", "x", 0.43,
                          ratio_over_seeds(value(1, last), value(1, 0))));
  claims.push_back(fitted(id + "romio-light", "relative throughput of ROMIO, 1 s of computation", "x", 0.98,
                          ratio_over_seeds(value(0, 1), value(0, 0))));
  claims.push_back(fitted(id + "romio-heavy", "relative throughput of ROMIO, no computation", "x", 0.47,
                          ratio_over_seeds(value(0, last), value(0, 0))));
  claims.push_back(advance("resonant-interference.advance.factor", "auto / ROMIO under the heaviest interference", "x",
                           48.0 / 22, ratio_over_seeds(value(2, last), value(0, last))));
  return result;
}

namespace {

// Section 3.4: the delay between groups may be from 0.1 to 1 ms. The largest throughput over the smallest.
Result<ValueWithInterval> spread_of_delays(const ClusterFigures& figures) {
  const auto program = mpi_io_test({.ranks = 64, .segment = 1 << 20, .most_bytes = std::uint64_t{256} << 20});
  std::vector<CollectiveCell> cells;
  for (const int microseconds : {100, 200, 500, 1000}) {
    CollectiveMethod method = full_design(PlanKind::kTimed, figures);
    method.options.delay = std::chrono::microseconds(microseconds);
    cells.push_back(cell(figures, program, method));
  }
  const auto values = measure_cells(cells, kPlanSeeds);
  if (!values) return Failure(values.error());
  const auto [least, most] = std::minmax_element(values->begin(), values->end(),
                                                 [](const auto& a, const auto& b) { return sum_of(a) < sum_of(b); });
  return ratio_over_seeds(*most, *least);
}

}  // namespace

// Section 4.4: mpi-io-test with 1 MB over 16 targets.
Result<ExperimentResult> resonant_scaling(const LabOptions& options) {
  ExperimentResult result;
  const ClusterFigures figures = paper_cluster(16);
  result.device = describe_cluster(figures);
  const std::vector<NamedMethod> methods = {{"ROMIO", romio()},
                                            {"resonant as in the paper", paper_method()},
                                            {"non-collective", non_collective()},
                                            {"two-phase", full_design(PlanKind::kTwoPhase, figures)},
                                            {"auto", full_design(PlanKind::kAuto, figures)}};
  result.columns = {"ranks"};
  for (const auto& each : methods) result.columns.push_back(each.name);
  for (std::size_t i = 0; i < 2; ++i) result.columns.push_back(methods[i].name + ", relative to 1 rank");
  std::vector<Throughputs> rows;
  const std::vector<std::size_t> all_ranks = {1, 2, 4, 8, 16, 32, 64, 256, 1024};
  for (const std::size_t ranks : all_ranks) {
    say(options, fmt::format("resonant-scaling: {} ranks", ranks));
    const std::uint64_t bytes = std::max<std::uint64_t>(ranks * 4, 64) << 20;
    const auto program = mpi_io_test({.ranks = ranks, .segment = 1 << 20, .most_bytes = bytes});
    std::vector<CollectiveCell> cells;
    for (const auto& each : methods) cells.push_back(cell(figures, program, each.method));
    const auto values = measure_cells(cells, kPlanSeeds);
    if (!values) return Failure(values.error());
    rows.push_back(*values);
    std::vector<Cell> line = {static_cast<std::int64_t>(ranks)};
    append_means(line, *values);
    for (std::size_t i = 0; i < 2; ++i) line.emplace_back(mean_of((*values)[i]) / mean_of(rows.front()[i]));
    result.rows.push_back(std::move(line));
  }
  const auto delays = spread_of_delays(figures);
  if (!delays) return Failure(delays.error());
  result.claims.push_back(reproduced("resonant-scaling.reproduced.delay",
                                     "timed at 64 ranks, delays of 0.1 to 1 ms: largest / smallest throughput", "x", 1,
                                     *delays));
  ValueWithInterval worst{1e9};
  for (const auto& row : rows)
    if (const ValueWithInterval ratio = ratio_to_better(row[4], row[2], row[3]); ratio.value < worst.value)
      worst = ratio;
  const auto& most = rows[6];
  result.claims.push_back(advance("resonant-scaling.reproduced.ahead",
                                  "resonant / ROMIO at 64 ranks: more than 1 in figure 12", "x", 1,
                                  ratio_over_seeds(most[1], most[0])));
  result.claims.push_back(advance("resonant-scaling.advance.worst",
                                  "auto / best of non-collective and two-phase, worst row", "x", 0.98, worst));
  return result;
}

}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
// Server-side I/O coordination (SC11): figures 6, 7 and 8 by the paper's method.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lab/sc11_scenarios.h"

namespace tutti::lab {
namespace {

constexpr unsigned kPaperSeeds = 10;
constexpr unsigned kBaselineDepth = 16;
// `window` takes one request at a time from its queue, as section 4.1 says of Trove, or as many as the baseline.
constexpr std::array<unsigned, 2> kWindowDepths = {1, 16};

using MakePaper = std::function<Scenario(const Sc11Run& run)>;

std::string name_of_device(bool flash) {
  return flash ? "ssd" : "hdd";
}

Result<Averages> measure_paper(const LabOptions& options, Sc11Run run, const MakePaper& make) {
  run.paper = true;
  return average(options.mode,
                 [&](std::uint64_t seed) {  // on several threads
                   Sc11Run each = run;
                   each.seed = seed;
                   return make(each);
                 },
                 {.seeds = options.mode == Mode::kFull ? 3 : kPaperSeeds});
}

// The same scenario under `fifo` and under `window` at each of its depths.
struct Measured {
  Averages fifo;
  std::array<Averages, kWindowDepths.size()> window;

  double gain(std::size_t depth, WithoutSeed without) const {
    return reduction(sum_of(fifo.operations, without), sum_of(window[depth].operations, without));
  }
  ValueWithInterval gain(std::size_t depth) const {
    return jackknife(fifo.operations.size(), [&](WithoutSeed without) { return gain(depth, without); });
  }
};

Result<Measured> measure_both(const LabOptions& options, bool flash, const std::string& width, const MakePaper& make) {
  Measured measured;
  auto fifo = measure_paper(options, {.flash = flash, .policy = "fifo", .depth = kBaselineDepth}, make);
  if (!fifo) return Failure(fifo.error());
  measured.fifo = std::move(*fifo);
  for (std::size_t i = 0; i < kWindowDepths.size(); ++i) {
    auto window =
        measure_paper(options, {.flash = flash, .policy = "window", .depth = kWindowDepths[i], .width = width}, make);
    if (!window) return Failure(window.error());
    measured.window[i] = std::move(*window);
  }
  return measured;
}

ValueWithInterval mean_gain(const std::vector<const Measured*>& cells, std::size_t depth) {
  return jackknife(cells.front()->fifo.operations.size(), [&](WithoutSeed without) {
    double sum = 0;
    for (const Measured* cell : cells) sum += cell->gain(depth, without);
    return sum / static_cast<double>(cells.size());
  });
}

// What differs between claims of one figure.
struct PaperStatement {
  std::string id;
  std::string what;
  std::string unit = "%";
};

void reproduced(ExperimentResult& result, const PaperStatement& statement, double paper,
                const ValueWithInterval& ours) {
  result.claims.push_back(with(
      {.id = statement.id, .what = statement.what, .unit = statement.unit, .paper = paper, .reproduced = true}, ours));
}

void stated(ExperimentResult& result, const PaperStatement& statement, double goal, Claim::Goal goal_is,
            const ValueWithInterval& ours) {
  result.claims.push_back(with({.id = statement.id,
                                .what = statement.what,
                                .unit = statement.unit,
                                .goal = goal,
                                .goal_is = goal_is,
                                .reproduced = true},
                               ours));
}

// The cells of one row: mean completions in ms, gains in % with intervals.
std::vector<Cell> cells_of(const Measured& measured) {
  std::vector<Cell> cells{measured.fifo.operation * 1e3};
  for (std::size_t i = 0; i < kWindowDepths.size(); ++i) {
    const ValueWithInterval gain = measured.gain(i);
    cells.push_back(measured.window[i].operation * 1e3);
    cells.push_back(gain.value);
    cells.push_back(gain.interval ? Cell(*gain.interval) : Cell("-"));
  }
  return cells;
}

const std::vector<std::string> kMeasuredColumns = {
    "fifo ms", "window ms, depth 1", "gain %", "+-", "window ms, depth 16", "gain % ", "+- "};

void append_measured(std::vector<std::string>& columns) {
  columns.insert(columns.end(), kMeasuredColumns.begin(), kMeasuredColumns.end());
}

std::vector<Cell> joined(std::vector<Cell> first, const std::vector<Cell>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

Result<void> figure6_by_paper(bool flash, const LabOptions& options, const Figure6Size& size,
                              ExperimentResult& result) {
  const std::string device = name_of_device(flash);
  DetailTable table{fmt::format("Figure 6 by the paper's method, {}", device), {"processes", "applications"}, {}};
  append_measured(table.columns);
  std::vector<Measured> cells;
  for (const unsigned processes : size.processes) {
    say(options, fmt::format("sc11-figure6: paper's method, {} {} processes", device, processes));
    for (const unsigned instances : size.instances) {
      auto measured = measure_both(options, flash, "1000ms", [&](const Sc11Run& run) {
        return figure6_scenario(run, {instances, processes}, size);
      });
      if (!measured) return Failure(measured.error());
      table.rows.push_back(joined({std::int64_t{processes}, std::int64_t{instances}}, cells_of(*measured)));
      cells.push_back(std::move(*measured));
    }
  }
  result.details.push_back(std::move(table));
  const std::size_t columns = size.instances.size();
  for (std::size_t depth = 0; depth < kWindowDepths.size(); ++depth) {
    const auto by_gain = [&](const Measured& a, const Measured& b) { return a.gain(depth, {}) < b.gain(depth, {}); };
    const auto [least, most] = std::minmax_element(cells.begin(), cells.end(), by_gain);
    const auto statement = [&](const char* id, const char* what) {
      return PaperStatement{fmt::format("sc11-figure6.{}.paper.{}-{}", device, id, kWindowDepths[depth]),
                            fmt::format("{}, window at depth {}", what, kWindowDepths[depth])};
    };
    reproduced(result, statement("least", "smallest reduction of the mean completion"), flash ? 11 : 8,
               least->gain(depth));
    reproduced(result, statement("most", "largest reduction of the mean completion"), flash ? 43 : 42,
               most->gain(depth));
    stated(result, statement("rises", "reduction with 16 applications less that with 2, mean over processes"), 0,
           Claim::Goal::kAtLeast, jackknife(cells.front().fifo.operations.size(), [&](WithoutSeed without) {
             double sum = 0;
             for (std::size_t row = 0; row < size.processes.size(); ++row)
               sum +=
                   cells[row * columns + columns - 1].gain(depth, without) - cells[row * columns].gain(depth, without);
             return sum / static_cast<double>(size.processes.size());
           }));
  }
  return {};
}

Result<void> figure7_by_paper(bool flash, const LabOptions& options, ExperimentResult& result) {
  const std::string device = name_of_device(flash);
  DetailTable table{
      fmt::format("Figure 7 by the paper's method, {}", device), {"direction", "processes", "servers"}, {}};
  append_measured(table.columns);
  const unsigned largest = flash ? 16 : 64;
  std::vector<Measured> fewest, most;
  for (const Direction direction : {Direction::kRead, Direction::kWrite})
    for (const unsigned processes : {8u, 16u, 32u}) {
      say(options, fmt::format("sc11-figure7: paper's method, {} {} processes", device, processes));
      for (unsigned servers = 2; servers <= largest; servers *= 2) {
        auto measured = measure_both(options, flash, recommended_width(flash), [&](const Sc11Run& run) {
          return figure7_scenario(run, {servers, processes, direction});
        });
        if (!measured) return Failure(measured.error());
        table.rows.push_back(
            joined({direction == Direction::kRead ? "read" : "write", std::int64_t{processes}, std::int64_t{servers}},
                   cells_of(*measured)));
        if (servers == 2) fewest.push_back(*measured);
        if (servers == largest) most.push_back(std::move(*measured));
      }
    }
  result.details.push_back(std::move(table));
  const auto pointers = [](const std::vector<Measured>& cells) {
    std::vector<const Measured*> each;
    for (const Measured& cell : cells) each.push_back(&cell);
    return each;
  };
  for (std::size_t depth = 0; depth < kWindowDepths.size(); ++depth) {
    const auto statement = [&](unsigned servers) {
      return PaperStatement{
          fmt::format("sc11-figure7.{}.paper.servers-{}-{}", device, servers, kWindowDepths[depth]),
          fmt::format("reduction of the mean completion at {} servers, mean of the six panels, window at depth {}",
                      servers, kWindowDepths[depth])};
    };
    reproduced(result, statement(2), 10, mean_gain(pointers(fewest), depth));
    reproduced(result, statement(largest), flash ? 39 : 46, mean_gain(pointers(most), depth));
  }
  return {};
}

namespace {

// Figure 8 on one device, with `window` at one depth.
class Figure8Paper {
 public:
  Figure8Paper(bool flash, unsigned depth, ExperimentResult& result) : flash_(flash), depth_(depth), result_(result) {}

  // Results by processes (8, 16, 32) and width; `fifo` first.
  static constexpr std::array<unsigned, 3> kProcesses = {8, 16, 32};
  static constexpr std::array<int, 4> kWidths = {250, 500, 1000, 2000};
  struct Row {
    Averages fifo;
    std::array<Averages, kWidths.size()> window;
  };
  using Rows = std::array<Row, kProcesses.size()>;

  void claims(const Rows& rows) const {
    every_width_is_below_fifo(rows);
    recommended_width_is_best(rows);
    const std::size_t best = flash_ ? 0 : 2;
    if (flash_) {
      stated(result_, statement("bandwidth", "least additional aggregate bandwidth, all widths and processes"), 0,
             Claim::Goal::kAtLeast, least_bandwidth(rows, 0, rows.size()));
      return;
    }
    stated(result_, statement("bandwidth-8", "additional aggregate bandwidth with 8 processes, worst width"), -1.2,
           Claim::Goal::kAtLeast, least_bandwidth(rows, 0, 1));
    reproduced(result_, statement("bandwidth-32", "additional aggregate bandwidth with 32 processes, 1000 ms"), 10.9,
               bandwidth(rows[2], best));
  }

 private:
  PaperStatement statement(const char* id, const char* what) const {
    return {fmt::format("sc11-figure8.{}.paper.{}-{}", name_of_device(flash_), id, depth_),
            fmt::format("{}, window at depth {}", what, depth_)};
  }

  static ValueWithInterval bandwidth(const Row& row, std::size_t width) {
    ValueWithInterval estimate = reduction_over_seeds(row.fifo.bandwidths, row.window[width].bandwidths);
    estimate.value = -estimate.value;
    return estimate;
  }

  static ValueWithInterval least_bandwidth(const Rows& rows, std::size_t from, std::size_t to) {
    std::optional<ValueWithInterval> least;
    for (std::size_t row = from; row < to; ++row)
      for (std::size_t width = 0; width < kWidths.size(); ++width)
        if (const ValueWithInterval each = bandwidth(rows[row], width); !least || each.value < least->value)
          least = each;
    return *least;
  }

  void every_width_is_below_fifo(const Rows& rows) const {
    std::optional<ValueWithInterval> least;
    for (const Row& row : rows)
      for (const Averages& window : row.window)
        if (const ValueWithInterval each = reduction_over_seeds(row.fifo.operations, window.operations);
            !least || each.value < least->value)
          least = each;
    stated(result_, statement("below", "smallest reduction of the mean completion, all widths and processes"), 0,
           Claim::Goal::kAtLeast, *least);
  }

  // The means of the three numbers of processes count the same.
  void recommended_width_is_best(const Rows& rows) const {
    const std::size_t best = flash_ ? 0 : 2;
    const auto mean = [&](std::size_t width, WithoutSeed without) {
      double sum = 0;
      for (const Row& row : rows)
        sum += sum_of(row.window[width].operations, without) / sum_of(row.fifo.operations, without);
      return sum;
    };
    std::size_t other = best == 0 ? 1 : 0;
    for (std::size_t width = 0; width < kWidths.size(); ++width)
      if (width != best && mean(width, {}) < mean(other, {})) other = width;
    stated(result_,
           {fmt::format("sc11-figure8.{}.paper.best-{}", name_of_device(flash_), depth_),
            fmt::format("mean completion at {} over that at the best other width ({} ms), window at depth {}",
                        recommended_width(flash_), kWidths[other], depth_),
            "x"},
           1, Claim::Goal::kAtMost, jackknife(rows[0].fifo.operations.size(), [&](WithoutSeed without) {
             return mean(best, without) / mean(other, without);
           }));
    // Runs that end in the first window are the same with all widths.
    result_.claims.back().undecidable = mean(best, {}) == mean(other, {});
  }

  const bool flash_;
  const unsigned depth_;
  ExperimentResult& result_;
};

}  // namespace

Result<void> figure8_by_paper(bool flash, const LabOptions& options, ExperimentResult& result) {
  const std::string device = name_of_device(flash);
  std::array<Figure8Paper::Rows, kWindowDepths.size()> rows;
  DetailTable table{fmt::format("Figure 8 by the paper's method, {}", device),
                    {"processes", "policy", "depth", "width ms", "mean completion ms", "makespan s", "MB/s"},
                    {}};
  const auto add = [&](unsigned processes, const Sc11Run& run, const Averages& averages) {
    table.rows.push_back({std::int64_t{processes}, run.policy, std::int64_t{run.depth}, run.width,
                          averages.operation * 1e3, averages.makespan, averages.bandwidth / 1e6});
  };
  for (std::size_t i = 0; i < Figure8Paper::kProcesses.size(); ++i) {
    const unsigned processes = Figure8Paper::kProcesses[i];
    say(options, fmt::format("sc11-figure8: paper's method, {} {} processes", device, processes));
    const MakePaper make = [&](const Sc11Run& run) { return figure8_scenario(run, processes); };
    const Sc11Run baseline{.flash = flash, .policy = "fifo", .depth = kBaselineDepth, .width = "-"};
    const auto fifo = measure_paper(options, baseline, make);
    if (!fifo) return Failure(fifo.error());
    add(processes, baseline, *fifo);
    for (std::size_t depth = 0; depth < kWindowDepths.size(); ++depth) {
      rows[depth][i].fifo = *fifo;
      for (std::size_t width = 0; width < Figure8Paper::kWidths.size(); ++width) {
        const Sc11Run run{.flash = flash,
                          .policy = "window",
                          .depth = kWindowDepths[depth],
                          .width = fmt::format("{}ms", Figure8Paper::kWidths[width])};
        auto window = measure_paper(options, run, make);
        if (!window) return Failure(window.error());
        add(processes, run, *window);
        rows[depth][i].window[width] = std::move(*window);
      }
    }
  }
  result.details.push_back(std::move(table));
  for (std::size_t depth = 0; depth < kWindowDepths.size(); ++depth)
    Figure8Paper(flash, kWindowDepths[depth], result).claims(rows[depth]);
  return {};
}

}  // namespace tutti::lab

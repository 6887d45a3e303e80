// SPDX-License-Identifier: Apache-2.0
// The demonstration program of the resonant I/O paper in real time: an MPI program with the preloaded library, over
// nodes with modelled disks.
#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "lab/catalogue.h"
#include "lab/live_patterns.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

constexpr double kPatternSlowMotion = 4;
constexpr unsigned kLiveRepetitions = 3;
constexpr std::uint64_t kLiveBytes = std::uint64_t{16} << 20;  // of a run

const std::vector<std::string> kLiveMethods = {"alone", "two-phase", "resonant", "timed", "auto"};
constexpr std::size_t kLiveAlone = 0, kLiveTwoPhase = 1, kLiveAuto = 4;

// All methods of one row, by repetition. The methods of a repetition run one after the other, so that ratios within it
// are little changed by other load of the machine.
struct LiveRow {
  std::string pattern;
  std::string label;  // of the size
  PatternSize size{};
  std::vector<std::vector<double>> rates{};  // by repetition and method

  // The median over repetitions.
  double rate(std::size_t method) const {
    std::vector<double> values;
    for (const auto& repetition : rates) values.push_back(repetition[method]);
    return median(values);
  }
  // The median over repetitions of `method` over the best of the others.
  double ratio(std::size_t method, const std::vector<std::size_t>& others) const {
    std::vector<double> values;
    for (const auto& repetition : rates) {
      double best = 0;
      for (const std::size_t other : others) best = std::max(best, repetition[other]);
      values.push_back(repetition[method] / best);
    }
    return median(values);
  }
};

Result<void> measure_live(LivePatterns& cluster, LiveRow& row) {
  std::vector<PatternRun> runs;
  for (unsigned i = 0; i < kLiveRepetitions; ++i)
    for (const std::string& method : kLiveMethods) runs.push_back({row.pattern, method, row.size});
  const auto rates = cluster.run(runs);
  if (!rates) return Failure(rates.error());
  const auto methods = static_cast<std::ptrdiff_t>(kLiveMethods.size());
  for (auto first = rates->begin(); first != rates->end(); first += methods)
    row.rates.emplace_back(first, first + methods);
  return {};
}

Claim live_claim(std::string id, std::string what, std::string unit, double goal, double ours) {
  Claim claim{.id = std::move(id), .what = std::move(what), .unit = std::move(unit)};
  claim.goal_is = Claim::Goal::kAtLeast;
  claim.goal = goal;
  claim.ours = ours;
  return claim;
}

double live_gain(const LiveRow& row) {
  return 100 * (row.ratio(kLiveAuto, {kLiveTwoPhase}) - 1);
}

Claim worst_row(const std::string& experiment, const std::vector<LiveRow>& rows) {
  double worst = 1e9;
  for (const LiveRow& row : rows) worst = std::min(worst, row.ratio(kLiveAuto, {kLiveAlone, kLiveTwoPhase}));
  return live_claim(experiment + ".advance.worst",
                    "auto / best of non-collective and two-phase, worst row, median of pairs", "x", 0.95, worst);
}

// Measures all rows and fills the table.
Result<ExperimentResult> run_rows(const LabOptions& options, const std::string& name, std::vector<LiveRow>& rows) {
  const LivePatternOptions set_up{.device = paper_cluster().device, .slow_motion = kPatternSlowMotion};
  LivePatterns cluster(set_up);
  if (auto started = cluster.start(); !started) return Failure(started.error());
  ExperimentResult result;
  result.device = fmt::format("{}; nodes with one request at a time in order of arrival, medians of {} repetitions",
                              describe(set_up.device), kLiveRepetitions) +
                  describe(options.mode, fmt::format("{:g} times slower than the devices", kPatternSlowMotion));
  result.columns = {"program", "ranks", "size", "direction"};
  for (const std::string& method : kLiveMethods)
    result.columns.push_back(method == "alone" ? "non-collective" : method);
  result.columns.emplace_back("auto / best");
  for (LiveRow& row : rows) {
    const char* const direction = row.size.direction == Direction::kRead ? "read" : "write";
    say(options, fmt::format("{}: {}, {} ranks, {}, {}", name, row.pattern, row.size.ranks, row.label, direction));
    if (auto measured = measure_live(cluster, row); !measured) return Failure(measured.error());
    std::vector<Cell> line = {row.pattern, static_cast<std::int64_t>(row.size.ranks), row.label, direction};
    for (std::size_t i = 0; i < kLiveMethods.size(); ++i) line.emplace_back(row.rate(i));
    line.emplace_back(row.ratio(kLiveAuto, {kLiveAlone, kLiveTwoPhase}));
    result.rows.push_back(std::move(line));
  }
  return result;
}

}  // namespace

Result<ExperimentResult> resonant_demo_live(const LabOptions& options) {
  std::vector<LiveRow> rows;
  for (const std::size_t ranks : {2u, 4u})
    for (const std::uint64_t kilobytes : {32u, 64u, 128u, 256u, 512u, 1024u})
      for (const Direction direction : {Direction::kRead, Direction::kWrite})
        rows.push_back(
            {"demonstration", fmt::format("{} KB", kilobytes), {ranks, kilobytes << 10, direction, kLiveBytes}});
  auto result = run_rows(options, "resonant-demo", rows);
  if (!result) return result;
  const auto find = [&](std::size_t ranks, std::uint64_t kilobytes) {
    return *std::find_if(rows.begin(), rows.end(), [&](const LiveRow& row) {
      return row.size.ranks == ranks && row.size.segment == kilobytes << 10 && row.size.direction == Direction::kRead;
    });
  };
  const std::string id = "resonant-demo.advance.";
  result->claims = {
      live_claim(id + "gain-4-64", "auto over two-phase, 4 ranks, 64 KB, read", "%", 151, live_gain(find(4, 64))),
      live_claim(id + "gain-2-128", "auto over two-phase, 2 ranks, 128 KB, read", "%", 75, live_gain(find(2, 128))),
      worst_row("resonant-demo", rows)};
  return result;
}

}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
// AGIOS (section V): four access patterns, reads and writes, one and four concurrent applications on four servers; the
// scheduler of section III without and with prediction from traces, and with learning instead of traces.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lab/agios_model.h"
#include "lab/catalogue.h"

namespace tutti::lab {
namespace {

constexpr unsigned kSeeds = 10, kTraces = 6;  // the paper combines 6 traces
constexpr unsigned kIterations = 3;           // of the runs that learn
constexpr unsigned kVariedSeeds = 3;

// What was measured of one test.
struct AgiosCell {
  AgiosTest test;
  AgiosRun fifo, paper, predicted, other;                // `other`: predicted from traces of another program
  std::map<std::string, AgiosRun> defaults;              // by policy, with default options
  AgiosRun again_paper, again_predicted, again_learned;  // second and later iterations
  Result<void> result = fail(ErrorCode::kStopped, "did not run");
};

std::vector<AgiosTest> agios_tests() {
  std::vector<AgiosTest> tests;
  for (const unsigned applications : {4u, 1u})
    for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
      for (const bool large : {false, true})
        for (const Direction direction : {Direction::kWrite, Direction::kRead})
          for (const unsigned processes : {8u, 16u, 32u})
            tests.push_back({pattern, large, direction, processes, applications});
  return tests;
}

// A program that uses the same files in another way.
AgiosTest other_program(AgiosTest test) {
  test.pattern = test.pattern == Pattern::kContiguous ? Pattern::kStrided : Pattern::kContiguous;
  test.processes = test.processes == 8 ? 16 : 8;
  return test;
}

Result<void> measure_cell(AgiosCell& cell) {
  const AgiosServers servers;
  const AgiosTest& test = cell.test;
  const auto traces = record_agios(test, servers, kTraces);
  if (!traces) return Failure(traces.error());
  const auto others = record_agios(other_program(test), servers, 1);
  if (!others) return Failure(others.error());
  const AgiosPolicy traced = agios_predicting_policy("traces"), learning = agios_predicting_policy("learn");
  const AgiosRepeat once{kSeeds, 1}, again{kSeeds, kIterations};
  struct Wanted {
    AgiosRun* run;
    AgiosPolicy policy;
    AgiosRepeat repeat;
    AgiosPredictions predictions{};
  };
  std::vector<Wanted> wanted = {{&cell.fifo, {"fifo", {}}, once},
                                {&cell.paper, agios_paper_policy(), once},
                                {&cell.predicted, traced, once, *traces},
                                {&cell.other, traced, once, *others},
                                {&cell.again_paper, agios_paper_policy(), again},
                                {&cell.again_predicted, traced, again, *traces},
                                {&cell.again_learned, learning, again}};
  for (const char* policy : {"to", "sjf", "hbrr", "mlf", "aioli"})
    wanted.push_back({&cell.defaults[policy], {policy, {}}, once});
  for (const Wanted& each : wanted) {
    const auto run = run_agios(test, servers, each.policy, each.repeat, each.predictions);
    if (!run) return Failure(run.error());
    *each.run = *run;
  }
  return {};
}

void add_rows(const AgiosCell& cell, ExperimentResult& result) {
  const auto add = [&](const std::string& policy, const AgiosRun& run, double fifo, double paper) {
    result.rows.push_back({cell.test.pattern_name(), cell.test.size_name(), cell.test.direction_name(),
                           std::int64_t{cell.test.processes}, std::int64_t{cell.test.applications}, policy,
                           run.mean_seconds(), run.mean_batch(), reduction(fifo, run.mean_seconds()),
                           reduction(paper, run.mean_seconds())});
  };
  const double fifo = cell.fifo.mean_seconds(), paper = cell.paper.mean_seconds();
  add("fifo", cell.fifo, fifo, paper);
  add("mlf, section III", cell.paper, fifo, paper);
  add("the same, traces", cell.predicted, fifo, paper);
  add("the same, other program's trace", cell.other, fifo, paper);
  for (const auto& [policy, run] : cell.defaults) add(policy + ", defaults", run, fifo, paper);
  const double again = cell.again_paper.mean_seconds();
  add("mlf, section III, phases 2-3", cell.again_paper, again, again);
  add("the same, traces, phases 2-3", cell.again_predicted, again, again);
  add("the same, learning, phases 2-3", cell.again_learned, again, again);
}

// The assumptions about the servers, and the limits of merging, changed one by one: means over the four patterns.
struct Variation {
  std::string name;
  AgiosServers servers{};
  PolicyOptions options{};  // in addition
};

std::vector<Variation> variations() {
  const AgiosServers base;
  Variation as_is{.name = "as above"}, half{.name = "costs per batch x 0.5"}, twice{.name = "costs per batch x 2"};
  half.servers.request_cost = base.request_cost / 2;
  half.servers.write_cost = base.write_cost / 2;
  twice.servers.request_cost = base.request_cost * 2;
  twice.servers.write_cost = base.write_cost * 2;
  Variation copies{.name = "no cost per byte"};
  copies.servers.read_bandwidth = copies.servers.write_bandwidth = 0;
  Variation shallow{.name = "depth 16"}, one{.name = "depth 1"}, deep{.name = "depth 256"};
  shallow.servers.depth = 16;
  one.servers.depth = 1;
  deep.servers.depth = 256;
  Variation file{.name = "adjoin=file"}, sixteen{.name = "max_requests=16"};
  file.options = {{"adjoin", "file"}};
  sixteen.options = {{"max_requests", "16"}};
  return {as_is, half, twice, copies, one, shallow, deep, file, sixteen};
}

struct VariedMeans {
  struct Means {
    double seconds = 0, batch = 0;
  };
  Means paper, predicted;
  double gain = 0, over_paper = 0;  // of `paper` over fifo, of `predicted` over `paper`
  Result<void> result = fail(ErrorCode::kStopped, "did not run");
};

Result<void> measure_variation(const Variation& variation, Direction direction, VariedMeans& means) {
  AgiosPolicy paper = agios_paper_policy(), traced = agios_predicting_policy("traces");
  for (const auto& [name, value] : variation.options) paper.options[name] = traced.options[name] = value;
  for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
    for (const bool large : {false, true}) {
      const AgiosTest test{pattern, large, direction, 16, 4};
      const auto traces = record_agios(test, variation.servers, kVariedSeeds);
      if (!traces) return Failure(traces.error());
      const auto plain = run_agios(test, variation.servers, {"fifo", {}}, {kVariedSeeds, 1});
      const auto merged = run_agios(test, variation.servers, paper, {kVariedSeeds, 1});
      const auto predicted = run_agios(test, variation.servers, traced, {kVariedSeeds, 1}, *traces);
      if (!plain || !merged || !predicted) return Failure((!plain ? plain : !merged ? merged : predicted).error());
      means.paper.seconds += merged->mean_seconds() / 4;
      means.paper.batch += merged->mean_batch() / 4;
      means.predicted.seconds += predicted->mean_seconds() / 4;
      means.predicted.batch += predicted->mean_batch() / 4;
      means.gain += reduction(plain->mean_seconds(), merged->mean_seconds()) / 4;
      means.over_paper += reduction(merged->mean_seconds(), predicted->mean_seconds()) / 4;
    }
  return {};
}

Result<void> add_variations(ExperimentResult& result) {
  const std::vector<Variation> all = variations();
  std::vector<VariedMeans> means(2 * all.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < means.size(); ++i)
    tasks.push_back([&, i] {
      means[i].result = measure_variation(all[i / 2], i % 2 == 0 ? Direction::kWrite : Direction::kRead, means[i]);
    });
  run_all(tasks);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const VariedMeans& mean = means[i];
    if (!mean.result) return Failure(mean.result.error());
    const auto add = [&](const char* policy, const VariedMeans::Means& run, double gain, double over) {
      result.rows.push_back({"all four", "both", i % 2 == 0 ? "write" : "read", std::int64_t{16}, std::int64_t{4},
                             fmt::format("{}, {}", policy, all[i / 2].name), run.seconds, run.batch, gain, over});
    };
    add("mlf, section III", mean.paper, mean.gain, 0);
    add("the same, traces", mean.predicted, 100 - (100 - mean.gain) * (100 - mean.over_paper) / 100, mean.over_paper);
  }
  return {};
}

// Means over the cells with four applications, by direction.
struct AgiosMeans {
  double paper = 0, most = -100, predicted = 0, batch = 0, total = 0, seconds = 0;
  double cells = 0, helped = 0;  // helped: without contiguous small requests
};

AgiosMeans means_of(const std::vector<AgiosCell>& cells, Direction direction, WithoutSeed without) {
  AgiosMeans means;
  for (const AgiosCell& cell : cells) {
    if (cell.test.applications != 4 || cell.test.direction != direction) continue;
    const double fifo = cell.fifo.mean_seconds(without), paper = cell.paper.mean_seconds(without);
    const double predicted = cell.predicted.mean_seconds(without);
    means.paper += reduction(fifo, paper);
    means.most = std::max(means.most, reduction(fifo, paper));
    means.total += reduction(fifo, predicted);
    means.seconds += fifo;
    ++means.cells;
    if (cell.test.contiguous_small()) continue;
    means.predicted += reduction(paper, predicted);
    means.batch += 100 * (cell.predicted.mean_batch(without) / cell.paper.mean_batch(without) - 1);
    ++means.helped;
  }
  means.paper /= means.cells;
  means.total /= means.cells;
  means.predicted /= means.helped;
  means.batch /= means.helped;
  return means;
}

void add_reproduced(const std::vector<AgiosCell>& cells, ExperimentResult& result) {
  struct BothMeans {
    AgiosMeans writes, reads;
  };
  const auto add = [&](const std::string& id, const std::string& what, double paper, bool fitted,
                       const std::function<double(const BothMeans&)>& ours) {
    result.claims.push_back(with(
        {.id = "agios-patterns." + id, .what = what, .unit = "%", .paper = paper, .fitted = fitted, .reproduced = true},
        jackknife(kSeeds, [&](WithoutSeed without) {
          return ours({means_of(cells, Direction::kWrite, without), means_of(cells, Direction::kRead, without)});
        })));
  };
  using Means = const BothMeans&;
  add("write.mean", "mean gain of section III over fifo, writes", 27.81, true, [](Means m) { return m.writes.paper; });
  add("read.mean", "mean gain of section III over fifo, reads", 27.06, true, [](Means m) { return m.reads.paper; });
  add("read.time", "how much less time reads take than writes under fifo", 83.8, true,
      [](Means m) { return reduction(m.writes.seconds, m.reads.seconds); });
  add("write.most", "largest gain of section III over fifo, writes", 42.05, false,
      [](Means m) { return m.writes.most; });
  add("read.most", "largest gain of section III over fifo, reads", 46.95, false, [](Means m) { return m.reads.most; });
  add("write.predicted", "mean gain of traces over none in three patterns, writes", 29.5, false,
      [](Means m) { return m.writes.predicted; });
  add("read.predicted", "mean gain of traces over none in three patterns, reads", 20.7, false,
      [](Means m) { return m.reads.predicted; });
  add("batch", "how much larger batches are with traces, three patterns", 25.1, false,
      [](Means m) { return (m.writes.batch + m.reads.batch) / 2; });
  add("write.total", "mean gain of traces over fifo, writes", 42.33, false, [](Means m) { return m.writes.total; });
  add("read.total", "mean gain of traces over fifo, reads", 39.2, false, [](Means m) { return m.reads.total; });
}

// Over all cells: sums of gains, and the largest losses.
struct AgiosLosses {
  double traced = 0, learned = 0, small = -100, other = -100, defaults = -100;
};

AgiosLosses losses_of(const std::vector<AgiosCell>& cells, WithoutSeed without) {
  AgiosLosses losses;
  const auto gain = [&](const AgiosRun& before, const AgiosRun& after) {
    return reduction(before.mean_seconds(without), after.mean_seconds(without));
  };
  for (const AgiosCell& cell : cells) {
    losses.traced += gain(cell.again_paper, cell.again_predicted);
    losses.learned += gain(cell.again_paper, cell.again_learned);
    if (cell.test.contiguous_small()) losses.small = std::max(losses.small, -gain(cell.paper, cell.predicted));
    losses.other = std::max(losses.other, -gain(cell.paper, cell.other));
    for (const auto& [policy, run] : cell.defaults) losses.defaults = std::max(losses.defaults, -gain(cell.fifo, run));
  }
  return losses;
}

void add_advances(const std::vector<AgiosCell>& cells, ExperimentResult& result) {
  const auto add = [&](const Claim& claim, const std::function<double(const AgiosLosses&)>& ours) {
    result.claims.push_back(
        with(claim, jackknife(kSeeds, [&](WithoutSeed without) { return ours(losses_of(cells, without)); })));
  };
  const auto loss = [&](const std::string& id, const std::string& what, double goal, double AgiosLosses::*which) {
    add({.id = "agios-patterns." + id, .what = what, .unit = "%", .goal = goal},
        [which](const AgiosLosses& losses) { return losses.*which; });
  };
  add({.id = "agios-patterns.learned",
       .what = "gain of learning from the second iteration on, as a share of the gain of traces",
       .unit = "%",
       .goal = 90,
       .goal_is = Claim::Goal::kAtLeast},
      [](const AgiosLosses& losses) { return losses.traced > 0 ? 100 * losses.learned / losses.traced : 0; });
  loss("contiguous-small", "largest loss by traces with small contiguous requests", 1, &AgiosLosses::small);
  loss("other-trace", "largest loss by the trace of another program", 1, &AgiosLosses::other);
  loss("defaults", "largest loss of to, sjf, hbrr, mlf or aioli with default options against fifo", 2,
       &AgiosLosses::defaults);
}

}  // namespace

Result<ExperimentResult> agios_patterns(const LabOptions& options) {
  if (options.mode == Mode::kLive) return agios_patterns_live(options);
  const AgiosServers servers;
  ExperimentResult result;
  result.device = fmt::format(
      "ssd-sata-2011 behind memory, 4 servers, {} us per batch and {} more per batch of writes, {} MB/s, writes {} "
      "(fitted), depth {}",
      servers.request_cost / std::chrono::microseconds(1), servers.write_cost / std::chrono::microseconds(1),
      servers.read_bandwidth / 1e6, servers.write_bandwidth / 1e6, servers.depth);
  result.columns = {"pattern", "requests", "direction",          "processes", "applications",
                    "policy",  "seconds",  "requests per batch", "gain %",    "over mlf %"};
  std::vector<AgiosCell> cells;
  for (const AgiosTest& test : agios_tests()) cells.emplace_back().test = test;
  std::vector<std::function<void()>> tasks;
  for (AgiosCell& cell : cells) tasks.push_back([&cell] { cell.result = measure_cell(cell); });
  say(options, fmt::format("agios-patterns: {} tests", tasks.size()));
  run_all(tasks);
  for (const AgiosCell& cell : cells) {
    if (!cell.result) return Failure(cell.result.error());
    add_rows(cell, result);
  }
  say(options, "agios-patterns: other servers");
  if (auto added = add_variations(result); !added) return Failure(added.error());
  add_reproduced(cells, result);
  add_advances(cells, result);
  return result;
}

}  // namespace tutti::lab

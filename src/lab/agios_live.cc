// SPDX-License-Identifier: Apache-2.0
// AGIOS (section V) in real time: the four patterns with 16 processes over four nodes with modelled devices, without
// and with prediction from the trace that the nodes have recorded.
#include <fmt/format.h>

#include <cmath>

#include "base/temporary_directory.h"
#include "lab/agios_model.h"
#include "lab/answer.h"
#include "lab/catalogue.h"
#include "lab/live.h"

namespace tutti::lab {
namespace {

constexpr unsigned kLiveProcesses = 16, kRepetitions = 2;
// Reads are faster than writes, and the cores of this machine must not be the bottleneck.
constexpr double kWriteSlowMotion = 2, kReadSlowMotion = 8;

// One test under one policy: the mean of all repetitions, and what the fast simulation says of the same scenario.
struct LiveFigures {
  double seconds = 0, batch = 0, simulated = 0;
};

struct LiveTest {
  AgiosTest test;
  LiveFigures fifo, paper, predicted;
};

class LiveTests {
 public:
  explicit LiveTests(const LabOptions& options) : options_(options) {}

  // Runs fifo, section III while its nodes record, and the same with predictions from that trace.
  Result<void> measure(LiveTest& live) const {
    const AgiosTest& test = live.test;
    for (unsigned i = 0; i < kRepetitions; ++i) {
      const std::uint64_t seed = kFirstSeed + i;
      const TemporaryDirectory traces;
      const auto simulated = record(test, seed);
      if (!simulated) return Failure(simulated.error());
      struct PolicyRun {
        AgiosPolicy policy;
        LiveFigures& figures;
        LiveOptions how{};
        AgiosPredictions predictions{};
      };
      const AgiosPolicy plain = agios_paper_policy(), traced = agios_predicting_policy("traces");
      for (const PolicyRun& run :
           {PolicyRun{{"fifo", {}}, live.fifo}, PolicyRun{plain, live.paper, {.traces = traces.path()}},
            PolicyRun{traced, live.predicted, {.predict = traces.path()}, *simulated}}) {
        say(options_, fmt::format("agios-patterns: {} {} {}, {}{}", test.pattern_name(), test.size_name(),
                                  test.direction_name(), run.policy.name, run.how.predict.empty() ? "" : ", traces"));
        Scenario scenario = make(test, run.policy, seed);
        if (auto added = add_run(scenario, run.how, run.figures); !added) return added;
        scenario.servers.predictions = run.predictions;
        const auto outcome = sim::run(scenario, {.operation_records = false});
        if (!outcome) return Failure(outcome.error());
        run.figures.simulated += std::chrono::duration<double>(outcome->makespan).count() / kRepetitions;
      }
    }
    return {};
  }

 private:
  static Scenario make(const AgiosTest& test, const AgiosPolicy& policy, std::uint64_t seed) {
    const AgiosServers servers;
    Scenario scenario = agios_scenario(test, servers, policy, seed);
    fit_to_nodes(test, servers, scenario);
    return scenario;
  }

  static Result<AgiosPredictions> record(const AgiosTest& test, std::uint64_t seed) {
    const auto outcome = sim::run(make(test, agios_paper_policy(), seed + 100'000), {.traces = true});
    if (!outcome) return Failure(outcome.error());
    AgiosPredictions predictions;
    for (const Trace& trace : outcome->traces) predictions.push_back(PredictedQueues::combine({&trace, 1}));
    return predictions;
  }

  static Result<void> add_run(const Scenario& scenario, LiveOptions how, LiveFigures& figures) {
    how.slow_motion = scenario.applications.front().direction == Direction::kWrite ? kWriteSlowMotion : kReadSlowMotion;
    how.verify = true;
    const auto outcome = run_live(scenario, how);
    if (!outcome) return Failure(outcome.error());
    figures.seconds += std::chrono::duration<double>(outcome->makespan).count() / kRepetitions;
    figures.batch += static_cast<double>(outcome->batched_requests) /
                     static_cast<double>(std::max<std::uint64_t>(1, outcome->batches)) / kRepetitions;
    return {};
  }

  const LabOptions& options_;
};

void add_live_rows(const LiveTest& live, ExperimentResult& result) {
  const auto add = [&](const char* policy, const LiveFigures& figures) {
    result.rows.push_back({live.test.pattern_name(), live.test.size_name(), live.test.direction_name(), policy,
                           figures.seconds, figures.batch, reduction(live.fifo.seconds, figures.seconds),
                           reduction(live.paper.seconds, figures.seconds), figures.simulated,
                           reduction(live.fifo.simulated, figures.simulated)});
  };
  add("fifo", live.fifo);
  add("mlf, section III", live.paper);
  add("the same, traces", live.predicted);
}

}  // namespace

Result<ExperimentResult> agios_patterns_live(const LabOptions& options) {
  const AgiosServers servers;
  ExperimentResult result;
  result.device = fmt::format(
      "4 nodes, {} us per batch and {} more per batch of writes, {} MB/s, writes {}, depth {}; one application of {} "
      "processes; every byte compared; mean of {} runs",
      servers.request_cost / std::chrono::microseconds(1), servers.write_cost / std::chrono::microseconds(1),
      servers.read_bandwidth / 1e6, servers.write_bandwidth / 1e6, servers.depth, kLiveProcesses, kRepetitions);
  result.columns = {"pattern", "requests",   "direction",   "policy",          "seconds", "requests per batch",
                    "gain %",  "over mlf %", "simulated s", "simulated gain %"};
  double fifo = 0, predicted = 0, paper = 0, count = 0;  // logarithms
  for (const Direction direction : {Direction::kWrite, Direction::kRead})
    for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
      for (const bool large : {false, true}) {
        LiveTest live{.test = {pattern, large, direction, kLiveProcesses, 1}, .fifo = {}, .paper = {}, .predicted = {}};
        if (auto measured = LiveTests(options).measure(live); !measured) return Failure(measured.error());
        add_live_rows(live, result);
        fifo += std::log(live.fifo.seconds), paper += std::log(live.paper.seconds);
        predicted += std::log(live.predicted.seconds), ++count;
      }
  result.answer.sentence =
      fmt::format("prediction takes {:.0f}% less time than fifo and {:.0f}% less than section III, geometric means",
                  100 * (1 - std::exp((predicted - fifo) / count)), 100 * (1 - std::exp((predicted - paper) / count)));
  result.answer.bars = {{"fifo", std::exp(fifo / count)},
                        {"mlf, section III", std::exp(paper / count)},
                        {"the same, traces", std::exp(predicted / count)}};
  return result;
}

}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
// Predicted queues, aggregations, matching and learning.
#include "sched/prediction/predictor.h"

#include <gmock/gmock.h>

#include "base/prng.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using namespace literals;

constexpr TargetId kTarget = 3;

struct Expected {
  Duration time;
  std::uint64_t block;  // of 8 KiB
  std::uint32_t file = 0;
};

Trace make_trace(const std::vector<Expected>& requests, std::vector<std::string> files = {"out.#"}) {
  Trace trace{.files = std::move(files), .requests = {}};
  for (const Expected& each : requests)
    trace.requests.push_back({.time = each.time,
                              .file = each.file,
                              .application = 1,
                              .offset = each.block * 8192,
                              .length = 8_KiB,
                              .target = kTarget,
                              .direction = Direction::kWrite});
  return trace;
}

std::shared_ptr<const PredictedQueues> combine(const std::vector<Trace>& traces) {
  return PredictedQueues::combine(traces);
}

const PredictedQueue& only_queue(const PredictedQueues& queues) {
  return *queues.find({queues.find_file("out.#"), kTarget, Direction::kWrite});
}

Request actual(std::uint64_t block, FileId file = 7) {
  return {.id = block,
          .file = file,
          .offset = block * 8192,
          .length = 8_KiB,
          .target = kTarget,
          .direction = Direction::kWrite};
}

// ---- predicted queues ----

TEST(PredictedQueues, SeveralRunsGiveTheMeanAndTheDeviationOfArrivalTimes) {
  const auto queues = combine({make_trace({{0us, 0}, {1000us, 1}}), make_trace({{0us, 0}, {3000us, 1}})});
  const PredictedQueue& queue = only_queue(*queues);
  ASSERT_EQ(queue.size(), 2u);
  const std::uint32_t second = queue.find(8192, 8_KiB);
  ASSERT_NE(second, PredictedQueue::kNone);
  EXPECT_EQ(queue[second].at(), 2000us);
  EXPECT_NEAR(static_cast<double>(queue[second].spread().count()), 1e6, 16e3) << "within its unit of 16 us";
  EXPECT_EQ(queue[second].apart(), 2000us) << "from the request before it, in each run";
  EXPECT_EQ(queues->size(), 2u);
}

TEST(PredictedQueues, TimesAreRelativeToTheFirstRequestToTheFile) {
  const auto queues = combine({make_trace({{0us, 0, 0}, {500us, 4, 1}, {700us, 5, 1}}, {"other", "out.#"})});
  const PredictedQueue& queue = only_queue(*queues);
  EXPECT_EQ(queue[queue.find(4 * 8192, 8_KiB)].at(), 0us);
  EXPECT_EQ(queue[queue.find(5 * 8192, 8_KiB)].at(), 200us);
}

TEST(PredictedQueues, AfterAPauseTimesBeginAgain) {
  const auto queues = combine({make_trace({{0us, 0}, {100us, 1}, {5s, 2}, {5s + 300us, 3}})});
  const PredictedQueue& queue = only_queue(*queues);
  EXPECT_EQ(queue[queue.find(3 * 8192, 8_KiB)].at(), 300us);
}

TEST(PredictedQueues, FindsEveryRequestAndNoOther) {
  Prng prng(3);
  Trace trace = make_trace({});
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> known;
  for (int i = 0; i < 200'000; ++i) {  // beyond what is sorted by comparison
    const std::uint64_t offset = prng.below(1 << 18) * 4096, length = 4096 * (1 + prng.below(3));
    known[{offset, length}] = true;
    trace.requests.push_back({.time = Duration(i),
                              .offset = offset,
                              .length = Bytes(length),
                              .target = kTarget,
                              .direction = Direction::kWrite});
  }
  const auto queues = combine({trace});
  const PredictedQueue& queue = only_queue(*queues);
  EXPECT_EQ(queue.size(), known.size());
  for (const auto& [key, _] : known) {
    const std::uint32_t number = queue.find(key.first, Bytes(key.second));
    ASSERT_NE(number, PredictedQueue::kNone);
    EXPECT_EQ(queue[number].offset, key.first);
    EXPECT_EQ(queue[number].length, key.second);
  }
  for (std::uint32_t i = 1; i < queue.size(); ++i)
    EXPECT_LE(std::tie(queue[i - 1].offset, queue[i - 1].length), std::tie(queue[i].offset, queue[i].length));
  EXPECT_EQ(queue.find(1, 4_KiB), PredictedQueue::kNone);
}

TEST(PredictedQueues, WhatCannotBeUsedIsLeftOut) {
  Trace trace = make_trace({{0us, 0}});
  trace.requests.push_back({.time = 1us, .file = 9, .length = 8_KiB});                // no such file
  trace.requests.push_back({.time = 1us, .offset = 0, .length = Bytes(1ULL << 33)});  // too long
  trace.requests.push_back({.time = 1us, .offset = 0, .length = Bytes(0)});
  EXPECT_EQ(combine({trace})->size(), 1u);
  EXPECT_EQ(combine({})->size(), 0u);
  EXPECT_EQ(combine({Trace{}})->find_file("out.#"), PredictedQueues::kNone);
}

// ---- aggregations ----

class AggregationTest : public testing::Test {
 protected:
  // A request takes 1 ms; merging two saves that.
  AggregationTest() {
    model_.service = {.latency = 1ms, .bytes_per_second = 1e12};
    model_.each = 1ms;
    model_.limits.requests = 1000;
  }
  Aggregation around(std::uint64_t block, const std::vector<Expected>& requests) {
    queues_ = combine({make_trace(requests)});
    chains_.reset(&only_queue(*queues_));
    return chains_.find(chains_.queue()->find(block * 8192, 8_KiB), actual(block), model_);
  }
  AggregationModel model_;
  std::shared_ptr<const PredictedQueues> queues_;
  Chains chains_;
};

TEST_F(AggregationTest, JoinsWhatSavesMoreThanTheWait) {
  const Aggregation found = around(1, {{0us, 0}, {900us, 1}, {1700us, 2}});
  EXPECT_EQ(found.first, 0u);
  EXPECT_EQ(found.count, 3u);
  EXPECT_EQ(found.bytes, 24_KiB);
  EXPECT_EQ(found.wait, 1700us);
}

TEST_F(AggregationTest, AfterAPairThatDoesNotPayTheSecondStartsTheNextChain) {
  const std::vector<Expected> requests = {{0us, 0}, {1100us, 1}, {1200us, 2}};
  EXPECT_EQ(around(0, requests).count, 1u);
  const Aggregation second = around(1, requests);
  EXPECT_EQ(second.first, 1u);
  EXPECT_EQ(second.count, 2u);
}

TEST_F(AggregationTest, WhatArrivesInBetweenMakesTheWaitCheaper) {
  std::vector<Expected> requests = {{0us, 0}, {1500us, 1}};
  EXPECT_EQ(around(0, requests).count, 1u);
  requests = {{0us, 0}, {100us, 100}, {1500us, 1}};  // it takes 1 of the 1.5 ms
  EXPECT_EQ(around(0, requests).count, 2u);
  model_.overlap = 0.1;  // as observed: others were not there
  EXPECT_EQ(around(0, requests).count, 1u);
}

// In every run one comes 900 us before or after the other: the means are equal, the wait is not zero.
TEST_F(AggregationTest, WhatDiffersFromRunToRunDoesNotCancelOut) {
  const auto around_first = [&](Duration apart) {
    queues_ = combine({make_trace({{0us, 9}, {1000us, 0}, {1000us + apart, 1}}),
                       make_trace({{0us, 9}, {1000us, 1}, {1000us + apart, 0}})});
    chains_.reset(&only_queue(*queues_));
    return chains_.find(0, actual(0), model_);
  };
  EXPECT_EQ(around_first(900us).count, 2u);
  EXPECT_EQ(around_first(900us).wait, 900us);
  EXPECT_EQ(around_first(1100us).count, 1u);
}

TEST_F(AggregationTest, LimitsAndGapsEndAChain) {
  model_.limits.requests = 2;
  EXPECT_EQ(around(0, {{0us, 0}, {0us, 1}, {0us, 2}}).count, 2u);
  model_.limits.requests = 1000;
  EXPECT_EQ(around(0, {{0us, 0}, {0us, 1}, {0us, 3}}).count, 2u);
}

TEST_F(AggregationTest, StripesOfATargetAdjoinInItsObject) {
  model_.place.object = true;
  queues_ = combine({make_trace({{0us, 0}, {0us, 4}, {0us, 8}})});
  chains_.reset(&only_queue(*queues_));
  Request like = actual(0);
  like.stripe_log2 = 13;
  like.stripe_count = 4;
  EXPECT_EQ(chains_.find(0, like, model_).count, 3u);
}

TEST_F(AggregationTest, ChainsOfAnySizeUpToABlock) {
  std::vector<Expected> requests;
  for (std::uint64_t i = 0; i < 3 * Chains::kBlock; ++i) requests.push_back({Duration(i), i});
  model_.limits.requests = 1'000'000;
  const Aggregation found = around(2000, requests);
  EXPECT_EQ(found.first, Chains::kBlock);
  EXPECT_EQ(found.count, Chains::kBlock);
}

// ---- the predictor ----

Predictor make_predictor(std::shared_ptr<const PredictedQueues> traces, bool learn = false) {
  return Predictor({.traces = std::move(traces), .learn = learn, .service = {1ms, 1e12}});
}

TEST(Predictor, MatchesByFileOffsetLengthAndTime) {
  Predictor predictor = make_predictor(combine({make_trace({{0us, 0}, {1000us, 1}})}));
  predictor.name_file(7, "out.#");
  const TimePoint start{1h};
  predictor.arrived(actual(0), start);
  EXPECT_TRUE(predictor.find(actual(0), start));
  EXPECT_TRUE(predictor.find(actual(1), start + 3ms));
  EXPECT_FALSE(predictor.find(actual(1), start + 10s)) << "much too late";
  EXPECT_FALSE(predictor.find(actual(2), start)) << "not expected";
  Request longer = actual(1);
  longer.length = 16_KiB;
  EXPECT_FALSE(predictor.find(longer, start));
  Request read = actual(1);
  read.direction = Direction::kRead;
  EXPECT_FALSE(predictor.find(read, start));
  predictor.arrived(actual(0, 8), start);
  EXPECT_FALSE(predictor.find(actual(0, 8), start)) << "a file without that name";
}

TEST(Predictor, PredictionsSurviveUse) {
  Predictor predictor = make_predictor(combine({make_trace({{0us, 0}, {100us, 1}})}));
  TimePoint now{1h};
  for (const FileId file : {1u, 2u, 3u, 3u}) {  // the last one again, after a pause
    predictor.name_file(file, "out.#");
    predictor.arrived(actual(0, file), now);
    const auto match = predictor.find(actual(0, file), now);
    ASSERT_TRUE(match);
    EXPECT_EQ(predictor.aggregation(match, actual(0, file)).count, 2u);
    now += 10s;
  }
}

TEST(Predictor, AFileWithoutANameIsKnownByItsNumber) {
  Predictor predictor = make_predictor(combine({make_trace({{0us, 0}}, {unnamed_pattern(7)})}));
  predictor.arrived(actual(0, 7), TimePoint{1h});
  EXPECT_TRUE(predictor.find(actual(0, 7), TimePoint{1h}));
}

TEST(Predictor, LearnsFromTheFirstIteration) {
  Predictor predictor = make_predictor({}, true);
  TimePoint now{1h};
  for (FileId file = 1; file <= 3; ++file, now += 10s) {
    predictor.name_file(file, "checkpoint.#");
    for (std::uint64_t block = 0; block < 8; ++block) predictor.arrived(actual(block, file), now + block * 50us);
    const auto match = predictor.find(actual(3, file), now + 150us);
    EXPECT_EQ(static_cast<bool>(match), file > 1) << "iteration " << file;
    if (match) {
      EXPECT_EQ(predictor.aggregation(match, actual(3, file)).count, 8u);
      EXPECT_EQ(predictor.aggregation(match, actual(3, file)).wait, 1ms) << "no deviation: as long as merging saves";
    }
  }
}

TEST(Predictor, LearnsIterationsWithPausesInThem) {
  Predictor predictor = make_predictor({}, true);
  TimePoint now{1h};
  for (int iteration = 0; iteration < 2; ++iteration)
    for (const std::uint64_t block : {0u, 100u, 200u}) {
      predictor.arrived(actual(block), now);
      EXPECT_EQ(static_cast<bool>(predictor.find(actual(block), now)), iteration > 0);
      now += 10s;
    }
}

TEST(Predictor, ForgetsWhatIsNotUsedAnyMore) {
  Predictor predictor = make_predictor({}, true);
  TimePoint now{1h};
  for (const std::uint64_t block : {0u, 100u, 100u, 200u, 100u}) {
    now += 10s;
    predictor.arrived(actual(block), now);
  }
  EXPECT_TRUE(predictor.find(actual(100), now));
  EXPECT_TRUE(predictor.find(actual(200), now));
  EXPECT_FALSE(predictor.find(actual(0), now));
}

TEST(Predictor, LearnsNoMoreThanItMay) {
  Predictor predictor = make_predictor({}, true);
  TimePoint now{1h};
  for (FileId file = 0; file < 2 * Predictor::kMostFiles; ++file) predictor.arrived(actual(1, file), now);
  now += 1h;
  constexpr std::uint64_t kBlocks = 2 * Predictor::kMostPerFile;
  for (std::uint64_t block = 0; block < kBlocks; ++block) predictor.arrived(actual(block, 1), now);
  now += 1h;
  predictor.arrived(actual(0, 1), now);
  EXPECT_TRUE(predictor.find(actual(5, 1), now));
  EXPECT_FALSE(predictor.find(actual(kBlocks - 1, 1), now));
}

// A node that runs for long sees more requests that never come again than it can remember.
TEST(Predictor, LearnsAlsoAfterManyRequestsThatWereNotRepeated) {
  Predictor predictor = make_predictor({}, true);
  TimePoint now{1h};
  constexpr FileId kFiles = Predictor::kMostLearned / Predictor::kMostPerFile + 1;
  for (FileId file = 1; file <= kFiles; ++file)
    for (std::uint64_t block = 0; block < Predictor::kMostPerFile; ++block) predictor.arrived(actual(block, file), now);
  for (int iteration = 0; iteration < 2; ++iteration) {
    now += 1h;
    for (std::uint64_t block = 0; block < 4; ++block) predictor.arrived(actual(block, 5000), now);
  }
  EXPECT_TRUE(predictor.find(actual(2, 5000), now));
}

TEST(Predictor, StartsOverWhenItHasSeenTooManyFiles) {
  Predictor predictor = make_predictor(combine({make_trace({{0us, 0}}, {"out.#"})}), true);
  TimePoint now{1h};
  for (FileId file = 1; file <= Predictor::kMostFiles; ++file) predictor.arrived(actual(0, file), now);
  EXPECT_FALSE(predictor.full());
  predictor.arrived(actual(0, Predictor::kMostFiles + 1), now);
  ASSERT_TRUE(predictor.full());
  predictor.start_over();
  EXPECT_FALSE(predictor.full());
  for (int iteration = 0; iteration < 2; ++iteration, now += 1h) predictor.arrived(actual(3, 900'000), now);
  EXPECT_TRUE(predictor.find(actual(3, 900'000), now - 1h)) << "learned";
  predictor.name_file(7, "out.#");
  predictor.arrived(actual(0), now);
  EXPECT_TRUE(predictor.find(actual(0), now)) << "expected from the trace";
}

TEST(Predictor, WaitsThatDoNotPayAreNoLongerAllowed) {
  Predictor predictor = make_predictor(combine({make_trace({{0us, 0}, {100us, 1}})}));
  predictor.name_file(7, "out.#");
  TimePoint now{1h};
  predictor.arrived(actual(0), now);
  const auto match = predictor.find(actual(0), now);
  int waits = 0;
  for (int i = 0; i < 100; ++i, now += 1ms) {
    if (!predictor.pays(match, now)) continue;
    ++waits;
    predictor.waited({.queue = match.queue, .direction = Direction::kWrite, .held = 1ms, .idle = 1ms}, now);
  }
  EXPECT_LE(waits, 4);
  for (int i = 0; i < 10; ++i)
    predictor.waited({.queue = match.queue, .direction = Direction::kWrite, .held = 1ms, .batches = 3}, now);
  EXPECT_TRUE(predictor.pays(match, now)) << "it pays again";
}

TEST(Predictor, MeasuresTheTimeToProcessByDirection) {
  Predictor predictor = make_predictor({});
  TimePoint now{1h};
  std::vector<Request> batch = {actual(0)};
  for (int i = 0; i < 200; ++i, now += 1s) {
    batch[0].length = Bytes(4096ULL << (i % 4));
    predictor.completed(Batch{batch}, now, now + 2ms);
  }
  EXPECT_NEAR(static_cast<double>(predictor.time_to_process(Direction::kWrite, 8_KiB).count()), 2e6, 1e5);
  EXPECT_NEAR(static_cast<double>(predictor.time_to_process(Direction::kRead, 8_KiB).count()), 1e6, 1e5);
}

TEST(Predictor, BeginsWithTheTimeToProcessOfTheTraces) {
  Trace trace = make_trace({});
  for (std::uint64_t i = 0; i < 64; ++i) {
    trace.requests.push_back(make_trace({{20ms * static_cast<int>(i), i}}).requests.front());
    trace.requests.back().completed = trace.requests.back().time + 7ms;
  }
  const Predictor predictor({.traces = combine({trace})});
  EXPECT_NEAR(static_cast<double>(predictor.time_to_process(Direction::kWrite, 8_KiB).count()), 7e6, 1e5);
}

}  // namespace
}  // namespace tutti

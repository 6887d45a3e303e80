// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/phase_sizes.h"

#include <gmock/gmock.h>

#include "sched/prediction/predicted_queues.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using namespace testing_support;
using testing::ElementsAre;

struct TracedWrite {
  Duration time{};
  std::uint32_t file = 0;
  Bytes length{};
  TargetId target = 0;
  ApplicationId application = 1;
  Duration service = 1ms;
};

Trace make_trace(const std::vector<TracedWrite>& writes) {
  Trace trace{.files = {"out.#", "log.#"}, .requests = {}};
  for (const TracedWrite& write : writes)
    trace.requests.push_back({.time = write.time,
                              .file = write.file,
                              .application = write.application,
                              .length = write.length,
                              .target = write.target,
                              .direction = Direction::kWrite,
                              .completed = write.time + write.service});
  return trace;
}

std::shared_ptr<const PredictedQueues> combine(const Trace& trace) {
  return PredictedQueues::combine(std::span(&trace, 1));
}

PhasePattern writes_to(std::string_view pattern) {
  return {std::hash<std::string_view>{}(pattern), Direction::kWrite, 0};
}

TEST(TracedPhaseSizes, ASizeIsThatOfTheBusiestTarget) {
  const auto queues = combine(make_trace({{0ms, 0, 1_MiB, 0}, {1ms, 1, 2_MiB, 1}, {2ms, 0, 2_MiB, 1}}));
  EXPECT_EQ(queues->phase_sizes().find(writes_to("out.#")), 4_MiB) << "files used later belong to the phase";
  EXPECT_EQ(queues->phase_sizes().find(writes_to("log.#")), 0_B);
  EXPECT_EQ(queues->phase_sizes().find({writes_to("out.#").file, Direction::kRead, 0}), 0_B);
}

TEST(TracedPhaseSizes, APhaseLastsWhileRequestsAreUnfinished) {
  const auto queues = combine(make_trace({{0ms, 0, 1_MiB, 0, 1, 300ms},
                                          {50ms, 1, 7_MiB, 0, 2},
                                          {350ms, 0, 1_MiB, 0},
                                          {500ms, 0, 2_MiB, 0},
                                          {700ms, 0, 2_MiB, 0}}));
  EXPECT_EQ(queues->phase_sizes().find(writes_to("out.#")), 2_MiB) << "three phases of 2 MiB";
  EXPECT_EQ(queues->phase_sizes().find(writes_to("log.#")), 7_MiB) << "of another application";
}

TEST(TracedPhaseSizes, PatternsWhosePhasesDifferHaveNone) {
  const auto size_of = [](const std::vector<Bytes>& sizes) {
    std::vector<TracedWrite> writes;
    for (const Bytes size : sizes) writes.push_back({writes.size() * 1s, 0, size});
    return combine(make_trace(writes))->phase_sizes().find(writes_to("out.#"));
  };
  EXPECT_EQ(size_of({1_MiB, 4_MiB, 1_MiB, 4_MiB}), 0_B);
  EXPECT_EQ(size_of({4_MiB, 4_MiB, 1_MiB, 4_MiB}), 4_MiB) << "one in four may differ";
}

class ExpectedPhaseSizesTest : public testing::Test {
 protected:
  // A phase of four requests, a second after the one before it; returns what was expected at its first and last one.
  std::vector<Bytes> run_phase(const PhaseKey& key, FileId file, Bytes size) {
    std::vector<Bytes> expected;
    now_ += 1s;
    for (unsigned i = 0; i < 4; ++i) {
      Request request = make_request(i);
      request.file = file;
      request.direction = Direction::kWrite;
      request.stamp.application = key.application;
      request.stamp.phase = key.phase;
      request.stamp.user = key.user;
      request.stamp.attained = size / 4 * i;
      request.stamp.bottleneck = size / 4;
      expected.push_back(sizes_->arrived(request, now_));
      if (leaves_) sizes_->left(request.stamp);
    }
    return {expected.front(), expected.back()};
  }
  void make(bool learn, const std::shared_ptr<const PredictedQueues>& traces = {}) {
    sizes_ = std::make_unique<ExpectedPhaseSizes>(ExpectedPhaseSizes::Options{traces, learn});
    for (FileId file = 1; file <= 9; ++file) sizes_->name_file(file, file <= 5 ? "out.#" : "log.#");
  }

  std::unique_ptr<ExpectedPhaseSizes> sizes_;
  TimePoint now_{1h};
  bool leaves_ = true;
};

TEST_F(ExpectedPhaseSizesTest, TracesTellTheSizeOfTheFirstPhase) {
  make(false, combine(make_trace({{0ms, 0, 8_MiB}})));
  EXPECT_THAT(run_phase({1, 1, 0}, 1, 8_MiB), ElementsAre(8_MiB, 8_MiB));
  EXPECT_THAT(run_phase({2, 1, 0}, 7, 8_MiB), ElementsAre(0_B, 0_B)) << "another file";
  EXPECT_THAT(run_phase({2, 2, 0}, 7, 8_MiB), ElementsAre(0_B, 0_B)) << "nothing is learned";
}

TEST_F(ExpectedPhaseSizesTest, ThePhaseBeforeTellsTheSizeOfTheNext) {
  make(true);
  EXPECT_THAT(run_phase({1, 1, 0}, 1, 4_MiB), ElementsAre(0_B, 0_B));
  EXPECT_THAT(run_phase({1, 2, 0}, 2, 4_MiB), ElementsAre(4_MiB, 4_MiB));
  EXPECT_THAT(run_phase({1, 3, 0}, 6, 1_MiB), ElementsAre(0_B, 0_B)) << "another pattern";
  EXPECT_THAT(run_phase({1, 4, 0}, 3, 4_MiB), ElementsAre(4_MiB, 4_MiB));
  EXPECT_THAT(run_phase({1, 5, 0}, 8, 1_MiB), ElementsAre(1_MiB, 1_MiB)) << "patterns may alternate";
  EXPECT_THAT(run_phase({1, 6, 1}, 4, 4_MiB), ElementsAre(0_B, 0_B)) << "another user";
}

TEST_F(ExpectedPhaseSizesTest, TheNextRunLearnsFromOneThatHasEnded) {
  make(true);
  run_phase({1, 1, 0}, 1, 4_MiB);
  EXPECT_THAT(run_phase({2, 1, 0}, 1, 4_MiB), ElementsAre(4_MiB, 4_MiB));
  leaves_ = false;
  run_phase({3, 1, 0}, 6, 4_MiB);
  EXPECT_THAT(run_phase({4, 1, 0}, 6, 4_MiB), ElementsAre(0_B, 0_B)) << "requests of the first run still wait";
}

TEST_F(ExpectedPhaseSizesTest, ASizeThatWasWrongIsNotUsedUntilItIsRightAgain) {
  make(true);
  PhaseNumber phase = 1;
  for (int i = 0; i < 8; ++i) run_phase({2, phase++, 0}, 6, 2_MiB);  // right often, with another pattern
  run_phase({1, 1, 0}, 1, 4_MiB);
  EXPECT_THAT(run_phase({1, 2, 0}, 1, 16_MiB), ElementsAre(4_MiB, 4_MiB));
  EXPECT_THAT(run_phase({1, 3, 0}, 1, 16_MiB), ElementsAre(0_B, 0_B));
  EXPECT_THAT(run_phase({1, 4, 0}, 1, 16_MiB), ElementsAre(16_MiB, 16_MiB));
  make(false, combine(make_trace({{0ms, 0, 8_MiB}})));
  run_phase({3, 1, 0}, 1, 1_MiB);
  run_phase({3, 2, 0}, 1, 1_MiB);
  EXPECT_THAT(run_phase({3, 3, 0}, 1, 1_MiB), ElementsAre(0_B, 0_B)) << "the traces stay wrong";
}

TEST_F(ExpectedPhaseSizesTest, IfSizesAreOftenWrongNoneIsUsed) {
  make(true);
  PhaseNumber phase = 1;
  run_phase({2, 1, 0}, 6, 2_MiB);
  for (int i = 0; i < 8; ++i) run_phase({1, phase++, 0}, 1, i % 2 ? 1_MiB : 16_MiB);
  EXPECT_THAT(run_phase({2, 2, 0}, 6, 2_MiB), ElementsAre(0_B, 0_B)) << "although this pattern was never wrong";
  for (int i = 0; i < 16; ++i) run_phase({1, phase++, 0}, 1, 1_MiB);
  EXPECT_THAT(run_phase({2, 3, 0}, 6, 2_MiB), ElementsAre(2_MiB, 2_MiB));
}

TEST_F(ExpectedPhaseSizesTest, MemoryIsBounded) {
  make(true);
  for (FileId file = 0; file < 3 * ExpectedPhaseSizes::kMostPatterns; ++file) {
    Request request = make_request(1);
    request.file = file;
    request.stamp.application = static_cast<ApplicationId>(file);
    sizes_->name_file(file, std::to_string(file));
    sizes_->arrived(request, now_);
    EXPECT_LE(sizes_->patterns(), ExpectedPhaseSizes::kMostPatterns);
  }
}

// ---- concert ----

// 64 KiB at the begin of a phase of unknown size.
Request first_of_phase(RequestId id, ApplicationId application, FileId file) {
  Request request = make_request(id);
  request.file = file;
  request.direction = Direction::kWrite;
  request.stamp.application = application;
  request.stamp.phase = 1;
  request.stamp.issued = at_ms(static_cast<std::int64_t>(id));
  request.stamp.bottleneck = 64_KiB;
  return request;
}

std::vector<RequestId> order_under(const PolicyOptions& options) {
  const auto traces = combine(make_trace({{0ms, 0, 64_MiB}, {10s, 1, 1_MiB}}));
  auto policy = std::move(*make_policy("concert", options, {}, traces));
  policy->name_file(1, "out.#");
  policy->name_file(2, "log.#");
  policy->add(first_of_phase(1, 1, 1), at_ms(5));
  policy->add(first_of_phase(2, 2, 2), at_ms(5));
  return drain(*policy, at_ms(5));
}

TEST(ConcertWithTraces, ThePhaseThatWasSmallerGoesFirst) {
  EXPECT_THAT(order_under({}), ElementsAre(2, 1)) << "the default";
  EXPECT_THAT(order_under({{"prediction", "learn"}}), ElementsAre(2, 1));
  EXPECT_THAT(order_under({{"prediction", "off"}}), ElementsAre(1, 2)) << "order of issue";
}

TEST(ConcertWithTraces, APhaseThatExceedsItsExpectedSizeIsUnknown) {
  const auto traces = combine(make_trace({{0ms, 0, 4_MiB}, {10s, 1, 1_MiB}}));
  auto policy = std::move(*make_policy("concert", {}, {}, traces));
  policy->name_file(1, "out.#");
  policy->name_file(2, "log.#");
  Request late = first_of_phase(3, 2, 2);
  late.stamp.attained = 8_MiB;
  policy->add(first_of_phase(1, 2, 2), at_ms(5));
  policy->add(first_of_phase(2, 1, 1), at_ms(5));
  policy->add(late, at_ms(5));
  EXPECT_THAT(drain(*policy, at_ms(5)), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tutti

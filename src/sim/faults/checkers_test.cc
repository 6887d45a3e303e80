// SPDX-License-Identifier: Apache-2.0
// Every checker of the fault campaign accepts correct histories and reports wrong ones.
#include <gmock/gmock.h>

#include "sim/faults/history.h"
#include "sim/faults/limit_run.h"
#include "sim/faults/name_model.h"
#include "sim/faults/neighbours.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Optional;

BlockHistory::Write write(std::uint64_t value, Nanoseconds begin, Nanoseconds end) {
  return {.value = value, .begin = begin, .end = end, .acknowledged = true};
}
BlockHistory::Write unknown(std::uint64_t value, Nanoseconds begin, Nanoseconds latest) {
  return {.value = value, .begin = begin, .end = latest, .repeated = true};
}
BlockHistory::Write synced(std::uint64_t value, Nanoseconds begin, Nanoseconds end, Nanoseconds at) {
  return {.value = value, .begin = begin, .end = end, .acknowledged = true, .synced = at};
}
BlockHistory::Write repeated(std::uint64_t value, Nanoseconds begin, Nanoseconds end) {
  return {.value = value, .begin = begin, .end = end, .acknowledged = true, .repeated = true};
}

void expect_correct(const BlockHistory& history) {
  const auto wrong = check(history);
  EXPECT_FALSE(wrong) << *wrong;
}

TEST(BlockHistory, ReadsReturnTheLastWriteOrAConcurrentOne) {
  expect_correct({.writes = {write(1, 10, 20), write(2, 30, 60)},
                  .reads = {{0, 1, 5}, {0, 5, 15}, {1, 12, 18}, {1, 25, 28}, {1, 40, 45}, {2, 46, 50}, {2, 70, 80}}});
  // Concurrent writes take effect in any order.
  expect_correct({.writes = {write(1, 10, 30), write(2, 10, 30)}, .reads = {{2, 40, 50}, {2, 60, 70}}});
  expect_correct({.writes = {write(1, 10, 30), write(2, 10, 30)}, .reads = {{1, 40, 50}}});
}

TEST(BlockHistory, AReadMustNotReturnAnOverwrittenValue) {
  EXPECT_THAT(check({.writes = {write(1, 10, 20), write(2, 30, 40)}, .reads = {{1, 50, 60}}}),
              Optional(HasSubstr("an old value")));
}

TEST(BlockHistory, AReadMustNotReturnAValueThatIsNotWrittenYet) {
  EXPECT_THAT(check({.writes = {write(1, 10, 20)}, .reads = {{1, 1, 5}}}), Optional(HasSubstr("was not written")));
  EXPECT_THAT(check({.writes = {write(1, 10, 20)}, .reads = {{7, 30, 40}}}), Optional(HasSubstr("was not written")));
}

TEST(BlockHistory, TwoReadsMustNotSeeConcurrentWritesInDifferentOrders) {
  EXPECT_THAT(check({.writes = {write(1, 10, 100), write(2, 10, 100)}, .reads = {{1, 110, 120}, {2, 130, 140}}}),
              Optional(HasSubstr("an old value")));
  // A read that saw the new value, and a later one that saw the old value, while the write is in progress.
  EXPECT_THAT(check({.writes = {write(1, 1, 5), write(2, 10, 100)}, .reads = {{2, 20, 30}, {1, 40, 50}}}),
              Optional(HasSubstr("an old value")));
}

TEST(BlockHistory, ZerosAreAnOldValue) {
  EXPECT_THAT(check({.writes = {write(1, 10, 20)}, .reads = {{0, 30, 40}}}), Optional(HasSubstr("zeros")));
  expect_correct({.writes = {write(1, 10, 20), write(0, 30, 40)}, .reads = {{1, 25, 28}, {0, 50, 60}}});
  EXPECT_THAT(check({.writes = {write(1, 10, 20), write(0, 30, 40)}, .reads = {{1, 50, 60}}}),
              Optional(HasSubstr("an old value")));
  EXPECT_THAT(check({.writes = {write(0, 1, 5), write(1, 10, 20)}, .reads = {{0, 30, 40}}}),
              Optional(HasSubstr("zeros")));
}

TEST(BlockHistory, AnUnknownWriteTakesEffectUntilItsLatestTime) {
  expect_correct({.writes = {write(1, 1, 5), unknown(2, 10, 100), write(3, 50, 60)}, .reads = {{2, 110, 120}}});
  expect_correct({.writes = {write(1, 1, 5), unknown(2, 10, 100)}, .reads = {{1, 110, 120}}});
  EXPECT_THAT(check({.writes = {unknown(2, 10, 100), write(3, 110, 120)}, .reads = {{2, 130, 140}}}),
              Optional(HasSubstr("an old value")));
}

TEST(BlockHistory, OnlyALongWriteMayTakeEffectTwice) {
  const std::vector<BlockHistory::Read> reads = {{1, 20, 30}, {2, 60, 70}, {1, 80, 90}};
  expect_correct({.writes = {repeated(1, 10, 85), write(2, 40, 50)}, .reads = reads});
  EXPECT_THAT(check({.writes = {write(1, 10, 85), write(2, 40, 50)}, .reads = reads}),
              Optional(HasSubstr("old value")));
  EXPECT_THAT(check({.writes = {repeated(1, 10, 35), write(2, 40, 50)}, .reads = reads}),
              Optional(HasSubstr("old value")));
}

TEST(BlockHistory, APowerCutMayLoseOnlyUnsyncedWrites) {
  expect_correct(
      {.writes = {synced(1, 10, 20, 30), write(2, 40, 50)}, .reads = {{2, 55, 56}, {1, 70, 80}}, .reverts = {{1, 60}}});
  EXPECT_THAT(check({.writes = {synced(1, 10, 20, 30)}, .reads = {}, .reverts = {{0, 60}}}),
              Optional(HasSubstr("lost a synced write")));
  EXPECT_THAT(check({.writes = {write(1, 1, 5), synced(2, 10, 20, 30)}, .reads = {}, .reverts = {{1, 60}}}),
              Optional(HasSubstr("lost a synced write")));
  // Not synced.
  expect_correct({.writes = {write(1, 10, 20)}, .reads = {}, .reverts = {{0, 60}}});
  // The sync comes too late, so it must fail, except if the block was written again.
  EXPECT_THAT(check({.writes = {synced(1, 10, 20, 70)}, .reads = {}, .reverts = {{0, 60}}}),
              Optional(HasSubstr("lost a synced write")));
  expect_correct({.writes = {synced(1, 10, 20, 70), write(2, 62, 64)}, .reads = {}, .reverts = {{0, 60}}});
  // A value that the block never had.
  EXPECT_THAT(check({.writes = {write(1, 10, 20)}, .reads = {}, .reverts = {{9, 60}}}),
              Optional(HasSubstr("which was not written")));
}

TEST(BlockHistory, ALostValueDoesNotReturn) {
  EXPECT_THAT(check({.writes = {write(1, 10, 20)}, .reads = {{1, 70, 80}}, .reverts = {{0, 60}}}),
              Optional(HasSubstr("was lost")));
  // The write is in progress and its stand-in writes again.
  expect_correct(
      {.writes = {repeated(1, 10, 100)}, .reads = {{1, 30, 40}, {0, 65, 66}, {1, 110, 120}}, .reverts = {{0, 60}}});
  // The second power cut is checked against what was synced since the first one.
  EXPECT_THAT(check({.writes = {synced(1, 70, 80, 90)}, .reads = {}, .reverts = {{0, 60}, {0, 100}}}),
              Optional(HasSubstr("lost a synced write")));
}

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() { inode_.generation = 7; }
  void pass(Nanoseconds time) {
    simulator_.at(simulator_.now() + time, [] {});
    simulator_.run_next();
  }
  void apply(std::uint64_t value, std::uint64_t block) {
    auto& data = inode_.data[block];
    data.resize(Inode::kBlock);
    History::fill(data, value);
    history_.written(inode_, block);
  }
  void read(std::uint64_t value, std::uint64_t block) {
    Inode::Block content(Inode::kBlock);
    History::fill(content, value);
    history_.read(inode_.generation, block, content, simulator_.now() - 1);
  }
  std::string wrong() {
    const auto all = history_.check();
    return all.empty() ? "" : all.front();
  }

  Simulator simulator_{1};
  History history_{simulator_, 5s};
  Inode inode_;
};

TEST_F(HistoryTest, AcceptsWritesThatAreAppliedInTime) {
  const auto done = history_.write_begins(7, 1, {0, 1});
  apply(done, 0);
  apply(done, 1);
  pass(10);
  history_.ended(done, Known::kDone, simulator_.now());
  const auto failed = history_.write_begins(7, 1, {1});
  pass(10);
  history_.ended(failed, Known::kUnknown, simulator_.now() + 100);
  pass(50);
  apply(failed, 1);
  pass(60);
  read(done, 0);
  read(failed, 1);
  EXPECT_EQ(wrong(), "");
}

TEST_F(HistoryTest, NothingIsAppliedAfterItWasAcknowledged) {
  const auto number = history_.write_begins(7, 1, {0});
  apply(number, 0);
  pass(10);
  history_.ended(number, Known::kDone, simulator_.now());
  pass(1);
  apply(number, 0);
  EXPECT_THAT(wrong(), HasSubstr("too late"));
}

TEST_F(HistoryTest, NothingIsAppliedAfterItsDeadlineAndTheFenceTime) {
  const auto number = history_.write_begins(7, 1, {0});
  history_.ended(number, Known::kUnknown, simulator_.now() + 100);
  pass(101);
  apply(number, 0);
  EXPECT_THAT(wrong(), HasSubstr("too late"));
}

TEST_F(HistoryTest, TruncatesAreNotAppliedTooLate) {
  const auto number = history_.truncate_begins(7, 2);
  history_.truncated(inode_, 2 * Inode::kBlock);
  EXPECT_EQ(wrong(), "");
  history_.ended(number, Known::kUnknown, simulator_.now() + 100);
  pass(101);
  history_.truncated(inode_, 2 * Inode::kBlock);
  EXPECT_THAT(wrong(), HasSubstr("too late"));
}

TEST_F(HistoryTest, DataIsWrittenOnlyWhereItBelongs) {
  const auto number = history_.write_begins(7, 1, {0});
  apply(number, 1);
  EXPECT_THAT(wrong(), HasSubstr("does not name"));
}

TEST_F(HistoryTest, ReadsOfSeveralWritesInOneBlockAreReported) {
  Inode::Block content(Inode::kBlock);
  content[4000] = std::byte{1};
  history_.read(7, 0, content, 0);
  EXPECT_THAT(wrong(), HasSubstr("parts of several writes"));
}

TEST_F(HistoryTest, SyncsCoverEarlierWritesOfTheirHandle) {
  const auto lose = [&](std::uint64_t synced_handle, bool failed_first) {
    const auto number = history_.write_begins(7, 1, {0});
    apply(number, 0);
    pass(10);
    history_.ended(number, Known::kDone, simulator_.now());
    pass(10);
    if (failed_first) history_.sync_failed(1, simulator_.now());
    history_.synced(synced_handle, simulator_.now());
    pass(10);
    inode_.data.clear();
    history_.reverted(inode_, 0);
    pass(10);
  };
  lose(2, false);  // another handle
  EXPECT_EQ(wrong(), "");
  lose(1, true);  // the caller knows that it must write again
  EXPECT_EQ(wrong(), "");
  lose(1, false);
  EXPECT_THAT(wrong(), HasSubstr("lost a synced write"));
}

TEST(NameModel, LookUpsFindWhatTheOwnerDid) {
  NameModel names;
  const std::size_t name = names.add("x");
  names.changed(name, 5, {10, 20});
  names.changed(name, NameModel::kAbsent, {30, 40});
  names.observed(name, NameModel::kAbsent, {1, 5});
  names.observed(name, 5, {15, 16});
  names.observed(name, 5, {35, 36});
  names.observed(name, NameModel::kAbsent, {35, 36});
  EXPECT_THAT(names.check(), testing::IsEmpty());
  names.observed(name, 5, {50, 60});
  EXPECT_THAT(names.check(), testing::ElementsAre(HasSubstr("found file 5")));
}

TEST(NameModel, AfterAnUnknownOutcomeTheOwnerLooksUp) {
  NameModel names;
  const std::size_t name = names.add("x");
  names.may_have_changed(name, NameModel::kNew, {10, 100});
  EXPECT_EQ(names.content(name), std::nullopt);
  EXPECT_EQ(names.settles_at(name), 100);
  EXPECT_EQ(names.found(name, 9, {110, 120}), std::nullopt);
  EXPECT_EQ(names.content(name), 9u);
  names.may_have_changed(name, NameModel::kAbsent, {130, 200});
  EXPECT_THAT(names.found(name, 8, {210, 220}), Optional(HasSubstr("found file 8")));
  EXPECT_EQ(names.found(name, NameModel::kAbsent, {210, 220}), std::nullopt);
}

TEST(Neighbours, TimesBesideAFaultyClientAreCompared) {
  const auto times = [](std::initializer_list<Duration> each) {
    NeighbourTimes all;
    for (const Duration time : each) all[1].add(time);
    return all;
  };
  const NeighbourTimes healthy = times({10ms, 10ms, 10ms, 50ms});  // mean 20 ms
  EXPECT_THAT(compare(healthy, healthy), testing::IsEmpty());
  EXPECT_THAT(compare(healthy, times({0ms, 0ms, 0ms, 200ms})), testing::IsEmpty());
  EXPECT_THAT(compare(healthy, times({0ms, 0ms, 0ms, 0ms, 0ms, 0ms, 201ms})),
              testing::ElementsAre(HasSubstr("longest small write takes 201.000 ms instead of 50.000 ms")));
  EXPECT_THAT(compare(healthy, times({91ms})), testing::ElementsAre(HasSubstr("mean small write")));
  NeighbourTimes failing = healthy;
  failing[1].failed = 1;
  EXPECT_THAT(compare(healthy, failing), testing::ElementsAre(HasSubstr("fail")));
}

TEST(Limits, TheBusiestSecondCounts) {
  constexpr Nanoseconds kMillisecond = 1'000'000;
  std::vector<ServedRequest> served;
  for (Nanoseconds i = 0; i < 30; ++i) served.push_back({i * 100 * kMillisecond, 1});
  EXPECT_EQ(most_in_a_second(served), 10);
  served.insert(served.begin() + 15, {1450 * kMillisecond, 5});
  EXPECT_EQ(most_in_a_second(served), 15);
  EXPECT_EQ(most_in_a_second({}), 0);
}

// Seeds that found a defect: returned grants that were lost (5000038, 5000050), more than the bound (5000022, 5000046,
// 5000058), jobs that were not served any more (74, 98, 7100382), a share that counted twice after two nodes were
// restarted (110), grants for one request per node that were not used yet, which are more than a short burst
// (70106), writes that met one half-open connection after the other (42001102), and nodes that were entitled to more
// than they needed (3100330, 820179547000386).
class FixedLimits : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FixedLimits, Hold) {
  const LimitOutcome outcome = run_limits(GetParam());
  EXPECT_THAT(outcome.violations, testing::IsEmpty());
  EXPECT_GT(outcome.requests, 1000u);
  EXPECT_GT(outcome.faults, 3u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FixedLimits,
                         testing::Values(74, 98, 110, 5000022, 5000038, 5000046, 5000050, 5000058, 7100382, 70106,
                                         42001102, 3100330, 820179547000386));

// Without shares of the memory for reads, clients that do not read their replies stop the large reads of the others.
// Seeds with a slow reader, a pause, half-open connections and lost replies.
class FixedNeighbours : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FixedNeighbours, AreNotDelayed) {
  EXPECT_THAT(run_neighbours(GetParam()).violations, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, FixedNeighbours, testing::Values(1, 2, 7, 11, 1421047270000528));

}  // namespace
}  // namespace tutti::sim

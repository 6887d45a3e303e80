// SPDX-License-Identifier: Apache-2.0
#include "collective/plan.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/prng.h"
#include "base/testing.h"
#include "collective/measured_choice.h"

namespace tutti::collective {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kKiB = 1 << 10;

// Figure 1 of the paper: in every call rank i of N reads segments k * N + i, k = 0..3.
Collective demonstration(Rank ranks, std::uint64_t segment, Direction direction = Direction::kRead) {
  Collective collective{direction, {}};
  for (Rank rank = 0; rank < ranks; ++rank) collective.lists.push_back({{rank * segment, segment, ranks * segment, 4}});
  return collective;
}

// Each rank has one segment after the other.
Collective in_rank_order(Rank ranks, std::uint64_t segment) {
  Collective collective;
  for (Rank rank = 0; rank < ranks; ++rank) collective.lists.push_back({{rank * segment, segment, 0, 1}});
  return collective;
}

std::vector<Extent> extents(const RankPlan& plan, const Slice& slice) {
  return {plan.of(slice).begin(), plan.of(slice).end()};
}

std::vector<RankPlan> plan(const Collective& collective, const Layout& layout, const Options& options) {
  auto plans = plan_all(collective, layout, options);
  EXPECT_TRUE(plans) << plans.error().message;
  return plans ? *plans : std::vector<RankPlan>{};
}

const Layout kFour = Layout::round_robin(64_KiB, 4);

TEST(PlanKinds, HaveNames) {
  for (const char* name : {"independent", "two-phase", "resonant", "timed", "paper", "auto"})
    EXPECT_STREQ(name_of(*parse_plan_kind(name)), name);
  EXPECT_THAT(parse_plan_kind("resonance").error().message, HasSubstr("two-phase"));
}

// Figure 3 (a): a contiguous quarter of the call for each rank, over all targets.
TEST(TwoPhase, GivesEachRankAContiguousDomain) {
  const auto plans = plan(demonstration(4, 64 * kKiB), kFour, {.kind = PlanKind::kTwoPhase});
  for (Rank rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(plans[rank].requests.size(), 1u);
    EXPECT_FALSE(plans[rank].requests[0].target);
    EXPECT_THAT(extents(plans[rank], plans[rank].requests[0].extents),
                ElementsAre(Extent{rank * 256 * kKiB, 256 * kKiB}));
    EXPECT_EQ(plans[rank].sends.size(), 4u) << "one segment for each rank";
  }
}

TEST(TwoPhase, WorksInRoundsOfTheBuffer) {
  const auto plans = plan(demonstration(2, 100), kFour, {.kind = PlanKind::kTwoPhase, .buffer = 150_B});
  EXPECT_EQ(plans[0].rounds, 3u) << "domains of 400 bytes";
  ASSERT_EQ(plans[1].requests.size(), 3u);
  EXPECT_THAT(extents(plans[1], plans[1].requests[2].extents), ElementsAre(Extent{700, 100}));
}

TEST(TwoPhase, IsIndependentIfRanksAreNotInterleaved) {
  const auto plans = plan(in_rank_order(4, 32 * kKiB), kFour, {.kind = PlanKind::kTwoPhase});
  EXPECT_EQ(plans[3].kind, PlanKind::kIndependent);
  EXPECT_TRUE(plans[3].sends.empty());
  EXPECT_FALSE(plans[3].start_rule.after);
}

// The domains after the last aggregator's would begin at multiples of 2^63.
TEST(TwoPhase, LeavesOtherRanksThanAggregatorsOut) {
  constexpr std::uint64_t kLast = std::uint64_t{1} << 63;
  const Collective collective{Direction::kWrite, {{{0, 10, 0, 1}, {kLast - 10, 10, 0, 1}}, {{20, 10, 0, 1}}, {}}};
  const Options options{.kind = PlanKind::kTwoPhase, .aggregators = 1};
  const auto plans = plan(collective, kFour, options);
  EXPECT_TRUE(plans[2].requests.empty());
  EXPECT_EQ(plan_rank(collective, kFour, options, 2), plans[2]);
}

TEST(TwoPhase, ReadsHolesButDoesNotWriteThem) {
  Collective sparse{Direction::kRead, {{{0, 10, 40, 4}}, {{20, 10, 40, 4}}}};
  const auto reads = plan(sparse, kFour, {.kind = PlanKind::kTwoPhase});
  EXPECT_THAT(extents(reads[0], reads[0].requests[0].extents), ElementsAre(Extent{0, 70}));
  sparse.direction = Direction::kWrite;
  const auto writes = plan(sparse, kFour, {.kind = PlanKind::kTwoPhase});
  EXPECT_THAT(extents(writes[0], writes[0].requests[0].extents),
              ElementsAre(Extent{0, 10}, Extent{20, 10}, Extent{40, 10}, Extent{60, 10}));
}

// Figure 3 (b): all data of an I/O node is requested by one rank, in ascending order.
TEST(Resonant, GivesEachTargetOneAgent) {
  const auto plans = plan(demonstration(4, 64 * kKiB), kFour, {.kind = PlanKind::kResonant});
  for (Rank rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(plans[rank].requests.size(), 1u);
    EXPECT_EQ(plans[rank].requests[0].target, rank);
    EXPECT_THAT(extents(plans[rank], plans[rank].requests[0].extents),
                ElementsAre(Extent{(rank + 0) * 64 * kKiB, 64 * kKiB}, Extent{(rank + 4) * 64 * kKiB, 64 * kKiB},
                            Extent{(rank + 8) * 64 * kKiB, 64 * kKiB}, Extent{(rank + 12) * 64 * kKiB, 64 * kKiB}));
    ASSERT_EQ(plans[rank].sends.size(), 1u) << "the data belongs to the agent itself";
    EXPECT_EQ(plans[rank].sends[0].peer, rank);
  }
}

// Two ranks with 128 KB: each has all data of two targets.
TEST(Resonant, GivesARankSeveralTargetsIfRanksAreFew) {
  const auto plans = plan(demonstration(2, 128 * kKiB), kFour, {.kind = PlanKind::kResonant});
  for (Rank rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(plans[rank].requests[0].target);
    EXPECT_EQ(extents(plans[rank], plans[rank].requests[0].extents).front(), (Extent{rank * 128 * kKiB, 128 * kKiB}));
    EXPECT_EQ(plans[rank].sends.size(), 1u);
  }
}

TEST(Resonant, PacksExtentsIntoListRequests) {
  Collective noncontiguous;
  for (Rank rank = 0; rank < 4; ++rank) noncontiguous.lists.push_back({{rank * 16 * kKiB, 16 * kKiB, 64 * kKiB, 256}});
  const auto plans = plan(noncontiguous, kFour, {.kind = PlanKind::kResonant});
  ASSERT_EQ(plans[0].requests.size(), 1u) << "64 stripes";
  const auto small = plan(noncontiguous, kFour, {.kind = PlanKind::kResonant, .list_io = 10});
  EXPECT_EQ(small[0].requests.size(), 7u);
}

TEST(Resonant, ReadsDirectlyWhatAnotherAgentBrings) {
  const auto plans =
      plan(demonstration(4, 32 * kKiB), kFour, {.kind = PlanKind::kResonant, .read_form = ReadForm::kDirect});
  const RankPlan& last = plans[3];
  ASSERT_EQ(last.direct.size(), 1u);
  EXPECT_EQ(last.sends.size(), last.receives.size());
  for (const Exchange& exchange : last.receives) EXPECT_EQ(exchange.peer, 3u);
  const auto writes = plan(demonstration(4, 32 * kKiB, Direction::kWrite), kFour,
                           {.kind = PlanKind::kResonant, .read_form = ReadForm::kDirect});
  EXPECT_EQ(writes[3].read_form, ReadForm::kExchange);
  EXPECT_TRUE(writes[3].direct.empty());
}

TEST(Resonant, SeveralAgentsOfATargetTakeTurns) {
  const auto plans = plan(demonstration(8, 64 * kKiB), Layout::round_robin(64_KiB, 2),
                          {.kind = PlanKind::kResonant, .agents_per_target = 3});
  std::vector<Rank> first, chained;
  for (Rank rank = 0; rank < 8; ++rank) {
    if (plans[rank].requests.empty()) continue;
    (plans[rank].start_rule.after ? chained : first).push_back(rank);
  }
  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(chained.size(), 4u);
  const auto more = plan(demonstration(8, 64 * kKiB), Layout::round_robin(64_KiB, 4),
                         {.kind = PlanKind::kResonant, .agents_per_target = 100});
  for (const RankPlan& each : more) EXPECT_EQ(each.requests.size(), 1u) << "no rank is the agent of two";
}

TEST(Timed, StartsGroupsOfAsManyRanksAsTargets) {
  const auto plans = plan(in_rank_order(10, 256 * kKiB), kFour, {.kind = PlanKind::kTimed});
  for (Rank rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(plans[rank].start_rule.after, rank < 4 ? std::optional<Rank>{} : rank - 4) << rank;
    EXPECT_EQ(plans[rank].start_rule.next, rank < 6 ? std::optional<Rank>(rank + 4) : std::nullopt) << rank;
    EXPECT_EQ(plans[rank].start_rule.delay, std::chrono::microseconds(500));
    EXPECT_TRUE(plans[rank].sends.empty());
  }
}

TEST(Timed, FormsOneSetPerGroupOfSharedTargets) {
  // Ranks 0, 2, 4 use target 0; ranks 1, 3, 5 use target 1.
  const auto plans = plan(in_rank_order(6, 64 * kKiB), Layout::round_robin(64_KiB, 2), {.kind = PlanKind::kTimed});
  EXPECT_EQ(plans[4].start_rule.after, std::optional<Rank>(2));
  EXPECT_EQ(plans[5].start_rule.after, std::optional<Rank>(3));
}

TEST(Paper, TimesIfTheNonOverlapConditionHolds) {
  EXPECT_TRUE(non_overlap_condition(in_rank_order(4, 1000)));
  EXPECT_FALSE(non_overlap_condition(demonstration(4, 1000)));
  EXPECT_FALSE(non_overlap_condition({Direction::kRead, {{{10, 5, 0, 1}}, {}, {{0, 5, 0, 1}}}})) << "descending";
  EXPECT_TRUE(non_overlap_condition({Direction::kRead, {{{0, 5, 0, 1}}, {}, {{5, 5, 0, 1}}}}));
  EXPECT_EQ(plan(in_rank_order(4, 100), kFour, {.kind = PlanKind::kPaper})[0].kind, PlanKind::kTimed);
  EXPECT_EQ(plan(demonstration(4, 100), kFour, {.kind = PlanKind::kPaper})[0].kind, PlanKind::kResonant);
}

TEST(Auto, UsesAgentsWhereRanksShareDisks) {
  const auto chosen = [](const Collective& collective, const DeviceProfile& device) {
    return plan(collective, kFour, {.kind = PlanKind::kAuto, .device = device})[0].kind;
  };
  // Each rank has a target of its own: agents would only add an exchange.
  EXPECT_EQ(chosen(demonstration(4, 64 * kKiB), DeviceProfile::disk()), PlanKind::kIndependent);
  EXPECT_EQ(chosen(demonstration(4, 128 * kKiB), DeviceProfile::disk()), PlanKind::kResonant);
  EXPECT_EQ(chosen(demonstration(4, 128 * kKiB), DeviceProfile::flash()), PlanKind::kIndependent);
  EXPECT_EQ(chosen(in_rank_order(4, 128 * kKiB), DeviceProfile::disk()), PlanKind::kResonant);
  // Four places far apart: an agent must visit all of them, too.
  EXPECT_EQ(chosen({Direction::kRead, {{{0, 4096, 0, 1}}, {{1 << 30, 4096, 0, 1}}, {{2u << 30, 4096, 0, 1}}}},
                   DeviceProfile::disk()),
            PlanKind::kIndependent);
  // Many small blocks are cheaper through agents on flash, too.
  Collective small{Direction::kWrite, {}};
  for (Rank rank = 0; rank < 4; ++rank) small.lists.push_back({{rank * kKiB, kKiB, 4 * kKiB, 4096}});
  EXPECT_EQ(chosen(small, DeviceProfile::flash()), PlanKind::kResonant);
}

TEST(Plans, WithoutDataHaveNoRounds) {
  for (const PlanKind kind : {PlanKind::kTwoPhase, PlanKind::kResonant, PlanKind::kTimed, PlanKind::kAuto}) {
    const auto plans = plan({Direction::kWrite, {{}, {{5, 0, 3, 4}}, {}}}, kFour, {.kind = kind});
    EXPECT_EQ(plans[1].rounds, 0u);
    EXPECT_TRUE(plans[1].requests.empty());
  }
}

// Ranks that do not wait for each other stay in the order in which they begin, if requests are long enough.
TEST(Auto, BeginsInTheOrderOfTheFile) {
  const auto plans_of = [](std::uint64_t size, Direction direction) {
    Collective collective = in_rank_order(4, size);
    collective.direction = direction;
    return plan(collective, Layout::round_robin(64_KiB, 4), {.kind = PlanKind::kAuto, .free_running = true});
  };
  const auto large = plans_of(1024 * kKiB, Direction::kRead);
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(large[rank].kind, PlanKind::kIndependent);
    const double expected = rank * 256.0 * kKiB / DeviceProfile::disk().bandwidth;
    EXPECT_NEAR(std::chrono::duration<double>(large[rank].start).count(), expected, 1e-6);
  }
  EXPECT_EQ(plans_of(32 * kKiB, Direction::kWrite)[0].kind, PlanKind::kIndependent);
  EXPECT_EQ(plans_of(16 * kKiB, Direction::kWrite)[0].kind, PlanKind::kResonant) << "messages vary by more";
}

TEST(MeasuredChoice, TriesPlansOfNearlyEqualEstimateAndKeepsTheFastest) {
  const std::vector<Estimate> near = {{PlanKind::kTwoPhase, 1.0}, {PlanKind::kResonant, 1.2}, {PlanKind::kTimed, 2.0}};
  MeasuredChoice choice;
  std::vector<PlanKind> kinds;
  for (int i = 0; i < 30; ++i) {
    kinds.push_back(choice.choose(near));
    choice.measured(kinds.back(), kinds.back() == PlanKind::kResonant ? 1.0 : 1.1, 100);
  }
  EXPECT_EQ(kinds.front(), PlanKind::kTwoPhase);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), PlanKind::kTwoPhase), 5) << "four that count, and the first";
  EXPECT_EQ(kinds.back(), PlanKind::kResonant);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), PlanKind::kTimed), 0);
  EXPECT_EQ(choice.choose({{PlanKind::kIndependent, 1.0}}), PlanKind::kIndependent);
}

TEST(Plans, OfSparseFilesHaveRoundsOnlyWhereThereIsData) {
  const Collective sparse{Direction::kRead, {{{0, 100, std::uint64_t{1} << 61, 4}}, {{50, 100, 0, 1}}}};
  for (const PlanKind kind : {PlanKind::kTwoPhase, PlanKind::kResonant}) {
    const auto plans = plan(sparse, kFour, {.kind = kind, .buffer = 1_KiB, .sieve_gap = 0_B});
    EXPECT_LE(plans[0].rounds, 8u) << "each of the four places is in at most two windows";
  }
}

TEST(Plans, RefuseWrongInput) {
  const auto refused = [](const Collective& collective, const Layout& layout, const Options& options) {
    const auto plans = plan_all(collective, layout, options);
    const auto mine = plan_rank(collective, layout, options, 0);
    EXPECT_FALSE(plans);
    EXPECT_FALSE(mine);
    if (plans || mine) return std::string();
    EXPECT_EQ(plans.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(plans.error().message, mine.error().message);
    return plans.error().message;
  };
  const Collective fine = demonstration(2, 100);
  EXPECT_THAT(refused(fine, kFour, {.list_io = 0}), HasSubstr("list_io"));
  EXPECT_THAT(refused(fine, kFour, {.buffer = 0_B}), HasSubstr("buffer"));
  EXPECT_THAT(refused(fine, kFour, {.in_flight = 0}), HasSubstr("in_flight"));
  EXPECT_THAT(refused(fine, kFour, {.device = {.bandwidth = 0}}), HasSubstr("device profile"));
  EXPECT_THAT(refused(fine, kFour, {.delay = std::chrono::seconds(-1)}), HasSubstr("delay"));
  EXPECT_THAT(refused(fine, {.stripe_size = 0_B}, {}), HasSubstr("stripe size"));
  EXPECT_THAT(refused({Direction::kRead, {{}, {{~std::uint64_t{0}, 5, 0, 1}}}}, kFour, {}), HasSubstr("rank 1"));
  EXPECT_THAT(refused({Direction::kWrite, {{{0, 10, 5, 2}}}}, kFour, {}), HasSubstr("overlap"));
  EXPECT_TRUE(plan_all({Direction::kRead, {{{0, 10, 5, 2}}}}, kFour, {}));
  const std::uint64_t huge = std::uint64_t{1} << 62;
  EXPECT_THAT(refused({Direction::kRead, {{{0, huge, 0, 1}}, {{1, huge, 0, 1}}}}, kFour, {.kind = PlanKind::kResonant}),
              HasSubstr("pieces"));
  EXPECT_THAT(refused({Direction::kRead, {{{0, huge, 0, 1}}, {{1, huge, 0, 1}}}}, kFour, {.kind = PlanKind::kTwoPhase}),
              HasSubstr("pieces"));
  EXPECT_FALSE(plan_rank(fine, kFour, {}, 2));
  EXPECT_FALSE(plan_all({}, kFour, {}));
}

// Offsets up to the end of any file, and the largest layouts: no size overflows, no byte is lost.
TEST(Plans, OfTheLargestFiles) {
  constexpr std::uint64_t kLast = std::uint64_t{1} << 63;
  for (const std::uint64_t seed : testing_support::seeds({1, 2, 3})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng random(seed);
    for (int i = 0; i < 300; ++i) {
      Collective collective{Direction::kWrite, {}};
      std::vector<Extent> all;
      for (std::uint64_t rank = 0, at = random.below(kLast / 2); rank < 1 + i % 7u; ++rank) {
        at = std::min(kLast - 1000, at + random.below(kLast >> random.below(60)));
        all.push_back({at, std::min<std::uint64_t>(kLast - at, 1 + random.below(5000))});
        collective.lists.push_back({{all.back().offset, all.back().length, 0, 1}});
      }
      Layout layout = Layout::round_robin(Bytes(1 + random.below(std::uint64_t{1} << (10 + random.below(31)))),
                                          static_cast<std::uint32_t>(1 + random.below(50)));
      if (random.chance(0.3)) layout.stripe_count = ~std::uint32_t{0};
      if (layout.stripe_size < Bytes(100)) layout.stripe_size = Bytes(100);
      std::uint64_t expected = 0, end = 0;
      std::sort(all.begin(), all.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
      for (const Extent& extent : all) {
        expected += extent.end() - std::min(extent.end(), std::max(end, extent.offset));
        end = std::max(end, extent.end());
      }
      for (const PlanKind kind : {PlanKind::kTwoPhase, PlanKind::kResonant, PlanKind::kAuto}) {
        const auto plans = plan(collective, layout, {.kind = kind, .agents_per_target = 2});
        std::uint64_t bytes = 0;
        for (const RankPlan& each : plans)
          for (const IoRequest& request : each.requests)
            for (const Extent& extent : each.of(request.extents)) bytes += extent.length;
        if (plans[0].kind != PlanKind::kIndependent) {
          ASSERT_EQ(bytes, expected) << name_of(kind) << ", case " << i;
        }
      }
    }
  }
}

// Memory in proportion to extents: the parts of all ranks have each piece a few times.
TEST(Plans, OfManyRanksStaySmall) {
  Collective collective;
  for (Rank rank = 0; rank < 256; ++rank) collective.lists.push_back({{rank * 4 * kKiB, 4 * kKiB, kKiB * kKiB, 256}});
  const auto plans = plan(collective, Layout::round_robin(64_KiB, 16), {.kind = PlanKind::kResonant});
  std::size_t stored = 0;
  for (const RankPlan& each : plans) stored += each.extents.size();
  EXPECT_LE(stored, 3u * 256 * 256);
}

// More agents than there are marks of runs (TargetAgents): agents find their runs, and no others.
TEST(Plans, OfManyTargetsAndIrregularListsAgree) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng random(seed);
    Collective collective{Direction::kRead, {}};
    for (Rank rank = 0; rank < 620; ++rank) {
      std::uint64_t at = random.below(100 * kKiB);
      for (auto& list = collective.lists.emplace_back(); list.size() < 30; at = list.back().at(0).end())
        list.push_back({at + random.below(400 * kKiB), 1 + random.below(random.chance(0.1) ? 20000 : 500), 0, 1});
    }
    const Layout layout = Layout::round_robin(4_KiB, 300);
    const Options options{.kind = PlanKind::kResonant, .agents_per_target = 2, .buffer = 64_KiB};
    const auto plans = plan(collective, layout, options);
    for (Rank rank = 0; rank < 620; rank += 31)
      ASSERT_EQ(plan_rank(collective, layout, options, rank), plans[rank]) << rank;
  }
}

}  // namespace
}  // namespace tutti::collective

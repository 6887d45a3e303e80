// SPDX-License-Identifier: Apache-2.0
// Random collectives, planned in every way, are executed on bytes and compared with what MPI promises.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/prng.h"
#include "base/testing.h"
#include "collective/byte_model_testing.h"
#include "collective/plan.h"

namespace tutti::collective {
namespace {

using testing::ByteModel;
using testing::Content;
using testing::each_byte;

constexpr std::uint64_t kFile = 6000;

struct Case {
  Collective collective;
  Layout layout;
  Options options;
};

// Lists that are strided, random, empty, or contiguous by rank. Write lists do not overlap themselves.
AccessList random_list(Prng& random, Rank rank, std::uint64_t shape, Direction direction) {
  AccessList list;
  if (random.chance(0.15)) return list;
  if (shape == 0) return {{rank * 300 + random.below(20), 1 + random.below(280), 0, 1}};
  if (shape == 1) return {{random.below(50) + rank * 16, 16, 16 * (rank + 2), 1 + random.below(30)}};
  if (shape == 2) return {{rank * 64, 64, 256, 1 + random.below(8)}};
  for (std::uint64_t i = 1 + random.below(5); i > 0; --i)
    list.push_back({random.below(1500), random.below(40), random.below(60), random.below(12)});
  return direction == Direction::kWrite ? sorted(list) : list;
}

Layout random_layout(Prng& random) {
  const auto targets = static_cast<std::uint32_t>(1 + random.below(7));
  Layout layout =
      Layout::round_robin(Bytes(1 + random.below(100)), targets, static_cast<std::uint32_t>(random.below(targets)));
  if (random.chance(0.3)) layout.stripe_size = Bytes(64);
  if (random.chance(0.2)) layout.object_size = layout.stripe_size * (1 + random.below(4));
  if (random.chance(0.2)) layout.stripe_count = static_cast<std::uint32_t>(1 + random.below(9));
  if (random.chance(0.1)) layout.targets.push_back(90);
  return layout;
}

Case random_case(Prng& random) {
  Case one;
  one.collective.direction = random.chance(0.5) ? Direction::kRead : Direction::kWrite;
  const auto ranks = static_cast<Rank>(1 + random.below(9));
  const std::uint64_t shape = random.below(4);
  for (Rank rank = 0; rank < ranks; ++rank)
    one.collective.lists.push_back(random_list(random, rank, shape, one.collective.direction));
  one.layout = random_layout(random);
  one.options.read_form = random.chance(0.5) ? ReadForm::kDirect : ReadForm::kExchange;
  one.options.nonblocking = random.chance(0.5);
  one.options.list_io = static_cast<std::uint32_t>(1 + random.below(10));
  one.options.agents_per_target = static_cast<std::uint32_t>(random.below(4));
  one.options.aggregators = static_cast<std::uint32_t>(random.below(12));
  one.options.buffer = Bytes(1 + random.below(random.chance(0.5) ? 100 : 5000));
  one.options.sieve_gap = Bytes(random.chance(0.5) ? random.below(100) : ~std::uint64_t{0});
  if (random.chance(0.3)) one.options.device = DeviceProfile::flash();
  return one;
}

Content random_file(Prng& random) {
  Content file(kFile);
  for (auto& byte : file) byte = static_cast<std::uint8_t>(random.below(256));
  return file;
}

// Which ranks write each byte; the highest is last.
std::vector<std::vector<Rank>> writers(const Collective& collective) {
  std::vector<std::vector<Rank>> result(kFile);
  for (Rank rank = 0; rank < collective.lists.size(); ++rank)
    each_byte(collective.lists[rank], [&](std::uint64_t offset, std::uint64_t) { result[offset].push_back(rank); });
  return result;
}

void check_write(const Collective& collective, const std::vector<RankPlan>& plans, const Content& before) {
  ByteModel model(collective, before);
  model.fill_memory();
  model.execute(plans);
  const auto who = writers(collective);
  std::vector<Content> wanted(collective.lists.size(), Content(kFile));
  for (Rank rank = 0; rank < collective.lists.size(); ++rank)
    each_byte(collective.lists[rank], [&](std::uint64_t offset, std::uint64_t position) {
      wanted[rank][offset] = model.memory(rank)[position];
    });
  for (std::uint64_t offset = 0; offset < kFile; ++offset) {
    const std::uint8_t found = model.file()[offset];
    if (who[offset].empty()) {
      ASSERT_EQ(found, before[offset]) << "no rank writes byte " << offset;
    } else if (ByteModel::has_exchanges(plans.front())) {
      ASSERT_EQ(found, wanted[who[offset].back()][offset]) << "the highest rank wins at " << offset;
    } else {
      ASSERT_TRUE(std::ranges::any_of(who[offset], [&](Rank rank) { return wanted[rank][offset] == found; })) << offset;
    }
  }
}

void check_read(const Collective& collective, const std::vector<RankPlan>& plans, const Content& file) {
  ByteModel model(collective, file);
  model.execute(plans);
  for (Rank rank = 0; rank < collective.lists.size(); ++rank)
    each_byte(collective.lists[rank], [&](std::uint64_t offset, std::uint64_t position) {
      ASSERT_EQ(model.received(rank)[position], 1) << "rank " << rank << ", byte " << offset;
      ASSERT_EQ(model.memory(rank)[position], file[offset]) << "rank " << rank << ", byte " << offset;
    });
}

// Form of requests; every byte is requested by one rank, if ranks exchange data.
void check_requests(const Case& one, const std::vector<RankPlan>& plans) {
  std::vector<int> requested(kFile + 1, 0);
  for (const RankPlan& plan : plans) {
    EXPECT_EQ(plan.kind, plans.front().kind);
    EXPECT_EQ(plan.rounds, plans.front().rounds);
    std::pair<std::uint32_t, std::uint64_t> last{0, 0};  // round, end
    for (const IoRequest& request : plan.requests) {
      EXPECT_LT(request.round, plan.rounds);
      EXPECT_GT(request.extents.count, 0u);
      EXPECT_LE(request.extents.count, one.options.list_io);
      for (const Extent& extent : plan.of(request.extents)) {
        EXPECT_GE((std::pair{request.round, extent.offset}), last) << "extents ascend within a round";
        last = {request.round, extent.end()};
        for (std::uint64_t offset = extent.offset; offset < extent.end(); ++offset) ++requested.at(offset);
        if (!request.target) continue;
        for (const Piece& piece : split(one.layout, extent.offset, Bytes(extent.length)))
          EXPECT_EQ(piece.target, *request.target);
      }
    }
  }
  if (!ByteModel::has_exchanges(plans.front())) return;
  std::vector<bool> needed(kFile + 1, false);
  for (const AccessList& list : one.collective.lists)
    each_byte(list, [&](std::uint64_t offset, std::uint64_t) { needed[offset] = true; });
  const bool sieves = plans.front().kind == PlanKind::kTwoPhase && one.collective.direction == Direction::kRead;
  for (std::uint64_t offset = 0; offset < kFile; ++offset) {
    if (needed[offset] || !sieves) {
      ASSERT_EQ(requested[offset], needed[offset] ? 1 : 0) << offset;
    }
  }
}

// The order of ranks in chains. Fails on a chain that has no beginning.
std::vector<Rank> chain_order(const std::vector<RankPlan>& plans) {
  std::vector<Rank> order;
  for (Rank rank = 0; rank < plans.size(); ++rank) {
    const StartRule& rule = plans[rank].start_rule;
    EXPECT_TRUE(!rule.after || plans[*rule.after].start_rule.next == rank);
    EXPECT_TRUE(!rule.next || plans[*rule.next].start_rule.after == rank);
    if (plans[rank].start_rule.after) continue;
    for (std::optional<Rank> at = rank; at && order.size() <= plans.size(); at = plans[*at].start_rule.next)
      order.push_back(*at);
  }
  EXPECT_EQ(order.size(), plans.size());
  return order;
}

// Every target is asked in ascending order: by one agent, or by its agents one after the other.
void check_resonance(const Case& one, const std::vector<RankPlan>& plans) {
  const std::vector<Rank> order = chain_order(plans);
  if (plans.front().kind != PlanKind::kResonant) return;
  std::map<TargetId, std::uint64_t> position;
  std::map<TargetId, std::set<Rank>> agents;
  for (std::uint32_t round = 0; round < plans.front().rounds; ++round)
    for (const Rank rank : order)
      for (const IoRequest& request : plans[rank].requests) {
        if (request.round != round) continue;
        for (const Extent& extent : plans[rank].of(request.extents))
          for (const Piece& piece : split(one.layout, extent.offset, Bytes(extent.length))) {
            ASSERT_GE(piece.offset, position[piece.target]) << "target " << piece.target;
            position[piece.target] = piece.offset + piece.length.count();
            agents[piece.target].insert(rank);
          }
      }
  for (const auto& [target, ranks] : agents)
    EXPECT_LE(ranks.size(), std::max(std::size_t{1}, plans.size() / agents.size())) << "target " << target;
}

TEST(PlanProperty, EveryPlanMovesTheRightBytes) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2, 3, 4})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng random(seed);
    for (int number = 0; number < 40; ++number) {
      Case one = random_case(random);
      const Content file = random_file(random);
      for (const PlanKind kind : {PlanKind::kIndependent, PlanKind::kTwoPhase, PlanKind::kResonant, PlanKind::kTimed,
                                  PlanKind::kPaper, PlanKind::kAuto}) {
        SCOPED_TRACE(fmt::format("case {}, plan {}", number, name_of(kind)));
        one.options.kind = kind;
        const auto plans = plan_all(one.collective, one.layout, one.options);
        ASSERT_TRUE(plans) << plans.error().message;
        if (one.collective.direction == Direction::kWrite)
          check_write(one.collective, *plans, file);
        else
          check_read(one.collective, *plans, file);
        check_requests(one, *plans);
        check_resonance(one, *plans);
        for (Rank rank = 0; rank < plans->size(); ++rank)
          ASSERT_EQ(plan_rank(one.collective, one.layout, one.options, rank), (*plans)[rank]) << "rank " << rank;
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }
}

// The rule of section 3.3, applied to a table of bytes.
TEST(PlanProperty, AgentsAreChosenByTheRuleOfThePaper) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng random(seed);
    for (int number = 0; number < 200; ++number) {
      Case one = random_case(random);
      one.layout =
          Layout::round_robin(Bytes(50), static_cast<std::uint32_t>(1 + random.below(one.collective.lists.size())));
      one.options.kind = PlanKind::kResonant;
      one.options.agents_per_target = 1;
      one.options.buffer = Bytes(1 << 20);
      const std::size_t ranks = one.collective.lists.size();
      std::vector<std::vector<std::uint64_t>> table(one.layout.stripe_count, std::vector<std::uint64_t>(ranks, 0));
      for (Rank rank = 0; rank < ranks; ++rank)
        each_byte(sorted(one.collective.lists[rank]),
                  [&](std::uint64_t offset, std::uint64_t) { ++table[locate(one.layout, offset).target][rank]; });
      std::vector<bool> taken(ranks, false);
      const auto plans = plan_all(one.collective, one.layout, one.options);
      ASSERT_TRUE(plans);
      for (TargetId target = 0; target < table.size(); ++target) {
        if (std::ranges::all_of(table[target], [](std::uint64_t bytes) { return bytes == 0; })) continue;
        std::optional<Rank> agent;
        for (Rank rank = 0; rank < ranks; ++rank)
          if (!taken[rank] && (!agent || table[target][rank] > table[target][*agent])) agent = rank;
        taken[*agent] = true;
        ASSERT_FALSE((*plans)[*agent].requests.empty()) << "case " << number << ", target " << target;
        ASSERT_EQ((*plans)[*agent].requests.front().target, target) << "case " << number;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::collective

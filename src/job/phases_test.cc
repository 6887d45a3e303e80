// SPDX-License-Identifier: Apache-2.0
#include "job/phases.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/prng.h"
#include "job/live.h"
#include "sched/testing.h"

namespace tutti::job {
namespace {

using namespace std::chrono_literals;
using namespace literals;

const TimePoint kStart{std::chrono::hours(1)};
const std::vector<TargetShare> kShares = {{0, Bytes(100)}, {1, Bytes(60)}};

std::shared_ptr<const Layout> striped(Bytes stripe, std::vector<TargetId> targets) {
  const auto count = static_cast<std::uint32_t>(targets.size());
  return std::make_shared<const Layout>(
      Layout{.stripe_size = stripe, .stripe_count = count, .object_size = {}, .targets = std::move(targets)});
}

Phases with_file(const Phases::Options& options, std::shared_ptr<const Layout> layout = striped(Bytes(1), {0, 1})) {
  Phases phases(options);
  phases.opened(1, std::move(layout));
  return phases;
}

// Issues and completes an operation.
Stamp does(Phases& phases, std::span<const TargetShare> shares, TimePoint now) {
  const Stamp stamp = phases.issue(1, shares, now);
  phases.completed(now);
  return stamp;
}

TEST(Phases, APauseBeginsANewPhaseThatIsExpectedToBeLikeTheLast) {
  auto phases = with_file({.application = 3, .gap = 1s});
  EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(0));
  const Stamp second = does(phases, kShares, kStart + 900ms);
  EXPECT_EQ(second.phase, 1u);
  EXPECT_EQ(second.attained, Bytes(80));
  const Stamp third = does(phases, kShares, kStart + 2s);
  EXPECT_EQ(third.phase, 2u);
  EXPECT_EQ(third.attained, Bytes(0));
  EXPECT_EQ(third.phase_total, Bytes(160));
  EXPECT_EQ(third.phase_start, kStart + 2s);
}

// Other open files change the spread, unless the phase is for one file.
TEST(Phases, APhaseOnOneFileCountsItsTargetsOnly) {
  Phases phases({.application = 3, .targets = 8});
  phases.opened(1, striped(Bytes(1), {0, 1, 2, 3, 4, 5, 6, 7}));
  phases.opened(2, striped(Bytes(1), {5}));
  EXPECT_EQ(phases.targets(2), std::vector<TargetId>{5});
  EXPECT_EQ(phases.targets().size(), 8u);
  ASSERT_TRUE(phases.begin({.total = Bytes(1600)}, 2));
  EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(1600));
  ASSERT_TRUE(phases.begin({.total = Bytes(1600), .kind = 1}));
  EXPECT_LT(does(phases, kShares, kStart).phase_total, Bytes(1600));
  ASSERT_TRUE(phases.begin({.total = Bytes(1600), .kind = 2}, 2));
  phases.closed(2);
  EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(200)) << "only the other file is left";
}

TEST(Phases, ASlowOperationIsNotAPause) {
  auto phases = with_file({.application = 3, .gap = 1s});
  phases.issue(1, kShares, kStart);
  EXPECT_EQ(phases.issue(2, kShares, kStart + 5s).phase, 1u) << "the first operation is not complete";
  phases.completed(kStart + 6s);
  phases.completed(kStart + 6s);
  EXPECT_EQ(phases.issue(3, kShares, kStart + 6s + 500ms).phase, 1u);
}

TEST(Phases, AnAnnouncedPhaseEndsWithEnd) {
  auto phases = with_file({.application = 3, .gap = 1s});
  ASSERT_TRUE(phases.begin({.total = Bytes(320), .kind = 2}));
  const Stamp stamp = does(phases, kShares, kStart);
  EXPECT_EQ(stamp.phase_total, Bytes(160));
  EXPECT_EQ(does(phases, kShares, kStart + 10s).phase, stamp.phase);
  phases.end();
  EXPECT_EQ(phases.learned(2), Bytes(320));
  EXPECT_EQ(does(phases, kShares, kStart + 10s).phase, stamp.phase + 1);
}

TEST(Phases, LearnsNothingFromAPhaseWithoutOperations) {
  auto phases = with_file({.application = 3});
  ASSERT_TRUE(phases.begin({.total = Bytes(1000)}));
  phases.end();
  phases.end();
  EXPECT_TRUE(phases.learned().empty());
  ASSERT_TRUE(phases.begin({.total = Bytes(0)}));
  EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(0));
  EXPECT_EQ(phases.begin({.total = Bytes(~std::uint64_t{0})}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(does(phases, kShares, kStart).attained, Bytes(80)) << "the phase continues";
}

TEST(Phases, UsesTheFilesThatAreOpenAtTheFirstOperation) {
  Phases phases({.application = 3, .targets = 8});
  phases.opened(1, striped(1_MiB, {0}));
  phases.opened(2, striped(1_MiB, {0, 1, 2, 3, 4, 5, 6, 7}));
  phases.closed(1);
  phases.closed(77);  // never opened
  ASSERT_TRUE(phases.begin({.total = 64_MiB}));
  const TargetShare share{0, 1_MiB};
  EXPECT_EQ(does(phases, {&share, 1}, kStart).phase_total, 8_MiB);
  phases.closed(2);
  phases.opened(3, striped(1_MiB, {5}));
  EXPECT_EQ(does(phases, {&share, 1}, kStart).phase_total, 8_MiB);
  ASSERT_TRUE(phases.begin({.total = 64_MiB, .kind = 1}));
  EXPECT_EQ(does(phases, {&share, 1}, kStart).phase_total, 64_MiB) << "one of eight targets gets everything";
}

TEST(Phases, BeforeAFileIsOpenSizesAreUnknown) {
  Phases phases({.application = 3});
  for (const bool open : {false, true}) {
    if (open) phases.opened(1, striped(Bytes(1), {0, 1}));
    ASSERT_TRUE(phases.begin({.total = Bytes(160)}));
    EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(open ? 80 : 0));
  }
}

// Random files, processes and sizes. At the end of a phase the counted size equals the announced one, so the next
// announcement is used. No target got more bytes than announced, by the sum of what all processes moved.
TEST(Phases, AnnouncedCountedAndActualSizesAgree) {
  Prng random(11);
  for (int round = 0; round < 200; ++round) {
    const auto cluster = static_cast<std::uint32_t>(1 + random.below(16));
    const auto processes = static_cast<std::uint32_t>(1 + random.below(9));
    const auto count = static_cast<std::uint32_t>(1 + random.below(cluster));
    const Bytes stripe(std::uint64_t{1} << random.below(12));
    const Bytes each = stripe * (1 + random.below(100)) * count;
    const bool own_files = random.below(2) == 0;
    const auto placed = [&](std::uint32_t first) {
      std::vector<TargetId> targets;
      for (std::uint32_t i = 0; i < count; ++i) targets.push_back((first + i) % cluster);
      return striped(stripe, std::move(targets));
    };
    std::map<TargetId, Bytes> load;
    Bytes announced{};
    for (std::uint32_t rank = 0; rank < processes; ++rank) {
      const auto layout = placed(own_files ? rank * count : 0);  // round robin, as file systems place new files
      auto phases = with_file({.application = 3, .processes = processes, .targets = cluster}, layout);
      for (int phase = 1; phase <= 2; ++phase) {
        ASSERT_TRUE(phases.begin(
            {.total = each * processes, .files = own_files ? PhaseFiles::kOnePerProcess : PhaseFiles::kShared}));
        Stamp last;
        for (Bytes done{}; done < each;) {
          const Bytes length = std::min(each - done, Bytes(1 + random.below(each.count())));
          std::vector<TargetShare> shares;
          for (const Piece& piece : split(*layout, (own_files ? 0 : rank * each.count()) + done.count(), length)) {
            shares.push_back({piece.target, piece.length});
            if (phase == 1) load[piece.target] += piece.length;
          }
          last = does(phases, shares, kStart);
          done += length;
        }
        ASSERT_EQ(last.phase, static_cast<PhaseNumber>(phase));
        ASSERT_GT(last.phase_total, Bytes(0)) << "the announcement of phase " << phase << " is used";
        ASSERT_LE(last.attained, last.phase_total);
        EXPECT_LE((last.attained + last.bottleneck).count(), last.phase_total.count() + 1);
        EXPECT_GE((last.attained + last.bottleneck).count() + 1, last.phase_total.count());
        phases.end();
        EXPECT_EQ(phases.learned(0), each * processes);
        announced = last.phase_total;
      }
    }
    Bytes busiest{};
    for (const auto& [target, bytes] : load) busiest = std::max(busiest, bytes);
    if (!own_files) {
      EXPECT_EQ(announced, busiest);
    }
    // Files are placed round robin, so no target is used by more than one process above the average.
    EXPECT_LE(announced.count(), busiest.count() + 1);
    EXPECT_GE(announced.count() + (own_files ? each.count() / count : 0), busiest.count());
  }
}

// If each rank uses another target, stamps stay comparable: concert serves the phase that began first.
TEST(Phases, RanksOnDifferentTargetsHaveTheSameStamps) {
  using namespace testing_support;
  auto policy = make("concert");
  const auto ask = [&](ApplicationId application, std::int64_t start) {
    for (TargetId rank = 0; rank < 8; ++rank) {
      auto phases = with_file({.application = application, .processes = 8, .targets = 8},
                              striped(512_KiB, {0, 1, 2, 3, 4, 5, 6, 7}));
      EXPECT_TRUE(phases.begin({.total = 4_MiB}));
      Request request = make_request(application);
      const TargetShare share{rank, 512_KiB};
      request.stamp = phases.issue(rank, {&share, 1}, at_ms(start));
      EXPECT_EQ(request.stamp.phase_total, 512_KiB);
      EXPECT_EQ(request.stamp.bottleneck, 512_KiB);
      if (rank == 7) policy->add(request, at_ms(9));
    }
  };
  ask(2, 1);
  ask(1, 0);
  EXPECT_EQ(drain(*policy, at_ms(9)), (std::vector<RequestId>{1, 2}));
}

TEST(Phases, AnOperationOfSeveralProcessesHasOneStamp) {
  auto maker = with_file({.application = 3, .processes = 4, .gap = 1s});
  auto other = with_file({.application = 3, .processes = 4, .gap = 1s});
  const TargetShare all[] = {{0, Bytes(400)}, {1, Bytes(400)}};
  for (int phase = 1; phase <= 2; ++phase) {
    ASSERT_TRUE(maker.begin({.total = Bytes(1600)}));
    ASSERT_TRUE(other.begin({.total = Bytes(1600)}));
    maker.issue_together(1, all, kStart);
    const Stamp stamp = maker.issue_together(2, all, kStart);
    EXPECT_EQ(stamp.attained, Bytes(400));
    EXPECT_EQ(stamp.bottleneck, Bytes(400)) << "of all processes, not times their number";
    EXPECT_EQ(stamp.phase_total, Bytes(800)) << phase;
    for (Phases* process : {&maker, &other}) {
      process->joined(kStart);
      process->completed(kStart);
      process->end();
    }
  }
  EXPECT_EQ(maker.learned(0), Bytes(1600));
  EXPECT_TRUE(other.learned().empty()) << "it has not counted bytes";
}

TEST(Phases, SizesAreSavedForTheNextRun) {
  const auto path = testing::TempDir() + "tutti-phases-test";
  std::filesystem::remove(path);
  {
    auto phases = with_file({.application = 3});
    load_sizes(path, phases);
    ASSERT_TRUE(save_sizes(phases, path));
    EXPECT_FALSE(std::filesystem::exists(path)) << "nothing to save";
    ASSERT_TRUE(phases.begin({.kind = 7}));
    does(phases, kShares, kStart);
    phases.end();
    ASSERT_TRUE(save_sizes(phases, path));
  }
  auto phases = with_file({.application = 4});
  load_sizes(path, phases);
  ASSERT_TRUE(phases.begin({.kind = 7}));
  EXPECT_EQ(does(phases, kShares, kStart).phase_total, Bytes(80));
  std::ofstream(path) << "7 damaged";
  Phases forgetful({.application = 4});
  load_sizes(path, forgetful);
  EXPECT_TRUE(forgetful.learned().empty());
  EXPECT_EQ(save_sizes(phases, "/does/not/exist/phases").error().code, ErrorCode::kIo);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tutti::job

// SPDX-License-Identifier: Apache-2.0
#include "sched/unknown_phases.h"

#include <gmock/gmock.h>

#include <set>

#include "base/prng.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace testing_support;
using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;

constexpr UnknownPhases::Options kOptions{.wait = 300ms, .gain = 1.5, .share = {.stretch = 1000}};

// Phases of unknown size, without a policy around them.
class Fixture {
 public:
  explicit Fixture(const UnknownPhases::Options& options = kOptions) : phases_(store_, accounts_, options) {}

  // `count` requests of 1 MiB of an application, issued now.
  void issue(ApplicationId application, std::uint64_t count, TimePoint now) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Request request = make_request(++last_);
      request.length = request.stamp.bottleneck = 1_MiB;
      request.stamp.application = application;
      request.stamp.phase = 1;
      request.stamp.issued = request.stamp.phase_start = now;
      request.stamp.attained = Bytes(i << 20);
      request.stamp.operation = i;
      const Slot slot = store_.add(request, now);
      store_.account(slot) = accounts_.arrived(request, now, phases_.empty());
      phases_.push(slot, now);
    }
  }
  RequestId take(Slot slot) {
    const RequestId id = store_.request(slot).id;
    phases_.pop(slot);
    store_.remove(slot);
    return id;
  }
  ApplicationId serve(TimePoint now) {
    const Slot slot = phases_.next(now);
    const ApplicationId application = store_.request(slot).stamp.application;
    take(slot);
    return application;
  }
  std::vector<ApplicationId> serve_all(TimePoint now) {
    std::vector<ApplicationId> order;
    while (!phases_.empty()) order.push_back(serve(now));
    return order;
  }
  void cancel(RequestId id) {
    const Slot slot = store_.find(id);
    phases_.remove(slot);
    store_.remove(slot);
  }
  UnknownPhases& phases() { return phases_; }

 private:
  RequestStore store_;
  ServiceAccounts accounts_{ServiceAccounts::Of::kAuto};
  UnknownPhases phases_;
  RequestId last_ = 0;
};

// One large phase, then six small ones.
void issue_unequal(Fixture& fixture) {
  fixture.issue(1, 100, at_ms(0));
  for (ApplicationId application = 2; application <= 7; ++application)
    fixture.issue(application, 1, at_ms(application));
}

TEST(UnknownPhases, WithoutABacklogTheOrderOfIssueHolds) {
  Fixture fixture;
  issue_unequal(fixture);
  const auto order = fixture.serve_all(at_ms(299));
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 100), Each(1));
  EXPECT_THAT(std::vector(order.begin() + 100, order.end()), ElementsAre(2, 3, 4, 5, 6, 7));
}

TEST(UnknownPhases, InABacklogThePhaseThatHasAttainedLeastIsServed) {
  Fixture fixture;
  issue_unequal(fixture);
  const auto order = fixture.serve_all(at_ms(300));
  // 2 MiB of the first phase are in the lowest level, in which it is the oldest.
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 9), ElementsAre(1, 1, 2, 3, 4, 5, 6, 7, 1));
}

TEST(UnknownPhases, PhasesOfSimilarSizeKeepTheOrderOfIssueHoweverLongTheyWait) {
  Fixture fixture;
  for (ApplicationId application = 1; application <= 8; ++application)
    fixture.issue(application, 8 + application, at_ms(application));
  const auto order = fixture.serve_all(at_ms(100'000));
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(UnknownPhases, ABacklogEndsWhenNothingWaits) {
  Fixture fixture;
  issue_unequal(fixture);
  fixture.serve_all(at_ms(300));
  fixture.issue(1, 10, at_ms(1000));
  fixture.issue(2, 1, at_ms(1000));
  const auto order = fixture.serve_all(at_ms(1001));
  EXPECT_EQ(order.back(), 2u);
}

TEST(UnknownPhases, OneByteInStretchIsServedInOrderOfIssue) {
  Fixture fixture({.wait = 0s, .gain = 0, .share = {.stretch = 4}});
  fixture.issue(1, 40, at_ms(0));
  int large = 0;
  for (ApplicationId application = 2; application <= 82; ++application) {  // an endless stream
    fixture.issue(application, 1, at_ms(application));
    large += fixture.serve(at_ms(application)) == 1;
  }
  EXPECT_GE(large, 19);
  EXPECT_LE(large, 24);
}

TEST(UnknownPhases, PhasesContinueForARun) {
  Fixture fixture({.wait = 0s, .gain = 0, .share = {.stretch = 1000, .run = 4_MiB}});
  fixture.issue(1, 12, at_ms(0));
  std::vector<ApplicationId> order;
  for (ApplicationId application = 2; application <= 9; ++application) {
    order.push_back(fixture.serve(at_ms(application)));
    fixture.issue(application, 1, at_ms(application));
  }
  // Each of the others ends after one request.
  EXPECT_THAT(order, ElementsAre(1, 1, 1, 1, 2, 3, 4, 5));
}

TEST(UnknownPhases, PositionsAreExchangedByTheByte) {
  Fixture fixture;
  issue_unequal(fixture);
  const auto position = [&] {
    fixture.phases().next(at_ms(300));
    return fixture.phases().position() / 1'000'000;
  };
  EXPECT_EQ(position(), 0);
  for (int i = 0; i < 100; ++i) fixture.serve(at_ms(300));
  EXPECT_EQ(position(), 2);  // the positions of the first phase are used up, although it has requests
}

TEST(UnknownPhases, ASeekIsChargedToThePhaseThatInterrupts) {
  OldestShare without({.stretch = 4, .run = 1_MiB}), with({.stretch = 4, .run = 1_MiB, .seek = 1_MiB});
  for (OldestShare* share : {&without, &with})
    for (int i = 0; i < 3; ++i) share->served(4096, {.of_oldest = false, .changed = true});
  EXPECT_FALSE(without.due(4096));
  EXPECT_TRUE(with.due(4096));
  with.served(1 << 20, {.of_oldest = true, .changed = true});
  EXPECT_TRUE(with.due(4096));  // a little of 3 * 4096 bytes is left
  with.served(4096, {.of_oldest = true, .changed = false});
  EXPECT_FALSE(with.due(4096));
}

TEST(UnknownPhases, NothingIsLostIfRequestsAreCancelledInABacklog) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    Fixture fixture({.wait = 0s, .gain = 0, .share = {.stretch = 3, .run = 2_MiB}});
    std::set<RequestId> waiting;
    RequestId id = 0;
    std::size_t served = 0, cancelled = 0;
    for (int step = 0; step < 500; ++step) {
      const std::uint64_t count = 1 + prng.below(6);
      fixture.issue(static_cast<ApplicationId>(prng.below(5)), count, at_ms(step));
      for (std::uint64_t i = 0; i < count; ++i) waiting.insert(++id);
      if (prng.chance(0.5)) {  // any that waits, also the next one
        const auto chosen = std::next(waiting.begin(), static_cast<std::ptrdiff_t>(prng.below(waiting.size())));
        fixture.cancel(*chosen);
        waiting.erase(chosen);
        ++cancelled;
      }
      for (std::uint64_t turns = prng.below(8); turns > 0 && !fixture.phases().empty(); --turns, ++served) {
        const Slot slot = fixture.phases().next(at_ms(step));
        ASSERT_NE(slot, kNoSlot);
        fixture.phases().position();
        waiting.erase(fixture.take(slot));
      }
    }
    EXPECT_EQ(served + cancelled + fixture.serve_all(at_ms(1000)).size(), id);
  }
}

}  // namespace
}  // namespace tutti

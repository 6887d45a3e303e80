// SPDX-License-Identifier: Apache-2.0
#include "engine/ring_timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tutti {
namespace {

using namespace std::chrono_literals;

// The timeout entries of a ring, in virtual time.
class RingTimerTest : public testing::Test {
 protected:
  void watch(TimePoint deadline) {
    if (const auto after = timer_.watch(deadline, now_)) entries_.insert(now_ + *after);
  }
  // Lets time pass. What is left to watch is `deadline`, as in the engine.
  void run_until(TimePoint when, TimePoint deadline) {
    while (!entries_.empty() && *entries_.begin() <= when) {
      now_ = *entries_.begin();
      entries_.erase(entries_.begin());
      if (!timer_.ended(now_)) continue;
      ++looks_;
      if (deadline > now_) watch(deadline);
    }
    now_ = when;
  }

  RingTimer timer_;
  TimePoint now_{1h};
  std::multiset<TimePoint> entries_;
  int looks_ = 0;
};

TEST_F(RingTimerTest, LooksAtAWriteAfterItsDeadline) {
  const TimePoint deadline = now_ + 30s;
  watch(deadline);
  run_until(deadline, deadline);
  const int before = looks_;
  EXPECT_LE(before, 31);
  run_until(deadline + 2 * RingTimer::kSlack, deadline);
  EXPECT_EQ(looks_, before + 1);
  EXPECT_TRUE(entries_.empty());
}

TEST_F(RingTimerTest, AnEarlierDeadlineIsLookedAtEarlier) {
  watch(now_ + 900ms);
  watch(now_ + 10ms);
  run_until(now_ + 20ms, now_ + 900ms);
  EXPECT_EQ(looks_, 1);
  run_until(now_ + 1s, now_);
  EXPECT_EQ(looks_, 2);
}

// Each write ends at once; its deadline is hours away, and earlier than that of the write before.
TEST_F(RingTimerTest, EntriesDoNotStayAsLongAsAClientChooses) {
  const TimePoint begin = now_;
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    watch(begin + 10h - i * 1s);
    most = std::max(most, entries_.size());
    run_until(now_ + 1ms, TimePoint{});
  }
  EXPECT_LE(most, 2u);
  run_until(now_ + 2s, TimePoint{});
  EXPECT_TRUE(entries_.empty());
}

// The same within the time that an entry may stay.
TEST_F(RingTimerTest, EntriesAreLimitedHoweverCloseDeadlinesAre) {
  const TimePoint begin = now_;
  for (int i = 0; i < 200'000; ++i) watch(begin + 1s - i * 5us);
  EXPECT_LE(entries_.size(), 1001u);
  run_until(begin + 2s, TimePoint{});
  EXPECT_TRUE(entries_.empty());
}

}  // namespace
}  // namespace tutti

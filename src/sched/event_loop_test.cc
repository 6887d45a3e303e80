// SPDX-License-Identifier: Apache-2.0
// The scheduler as an event loop uses it: never waiting inside, told when to come back.
#include <gtest/gtest.h>
#include <tutti/sched.h>

#include "base/clock.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(SchedulerInAnEventLoop, SaysWhenToAskAgain) {
  ManualClock clock(TimePoint(100ms));
  Scheduler::Options options{
      .policy = "twins", .policy_options = {{"width", "10ms"}, {"mode", "strict"}, {"targets", "2"}}, .clock = &clock};
  auto scheduler = Scheduler::create(options).value();
  std::vector<Scheduler::Dispatched> batches(4);
  TimePoint again{};
  EXPECT_EQ(scheduler->try_next(batches, again), 0U);
  EXPECT_EQ(again, TimePoint::max()) << "nothing waits";

  ASSERT_TRUE(scheduler->add({.id = 1, .length = Bytes(1), .target = 1}));
  EXPECT_EQ(scheduler->try_next(batches, again), 0U) << "the other target's window";
  EXPECT_EQ(again, TimePoint(110ms));
  clock.set(TimePoint(105ms));
  EXPECT_EQ(scheduler->try_next(batches, again), 0U);
  clock.set(again);
  ASSERT_EQ(scheduler->try_next(batches, again), 1U);
  EXPECT_EQ(batches[0].held, 10ms) << "asking again in between does not shorten the wait";
  scheduler->complete(batches[0]);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"

namespace tutti::sim {
namespace {

// Compares with an ordered set: single events, many at a time, near and far, and pops in any sequence.
TEST(EventQueue, ReturnsEventsByTimeThenInTheOrderOfScheduling) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Prng chance(seed);
    EventQueue queue;
    std::set<std::pair<std::int64_t, std::uint32_t>> expected;  // time and number
    std::uint32_t number = 0;
    std::int64_t now = 0;
    const std::uint64_t nearest = seed % 3 == 0 ? 1'000'000 : 50;
    const auto push = [&] {
      std::uint64_t delay = nearest;
      if (seed % 2 == 0 && chance.below(20) == 0) delay <<= chance.below(40);
      const std::int64_t time = now + static_cast<std::int64_t>(chance.below(delay));
      expected.emplace(time, number);
      queue.push(time, EventKind::kStep, {number++, 7});
    };
    for (int step = 0; step < (seed % 5 == 0 ? 200 : 2000); ++step) {
      const std::uint64_t action = chance.below(10);
      if (action < 3) push();
      if (action == 3) {
        for (std::uint64_t i = chance.below(seed % 5 == 0 ? 2000 : 40); i > 0; --i) push();
      }
      for (std::uint64_t i = action < 4 ? 0 : chance.below(4); i > 0 && !queue.empty(); --i) {
        ASSERT_NE(queue.peek(0), nullptr);
        ASSERT_EQ(queue.peek(0)->a, expected.begin()->second);
        const Event event = queue.pop();
        ASSERT_EQ(std::pair(event.time, event.a), *expected.begin());
        ASSERT_EQ(event.kind(), EventKind::kStep);
        ASSERT_EQ(event.b, 7u);
        now = event.time;
        expected.erase(expected.begin());
      }
      ASSERT_EQ(queue.size(), expected.size());
      ASSERT_EQ(queue.empty(), expected.empty());
    }
  }
}

}  // namespace
}  // namespace tutti::sim

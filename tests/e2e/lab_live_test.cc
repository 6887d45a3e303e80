// SPDX-License-Identifier: Apache-2.0
// The thesis's identical pair with real processes: what the gate promises shows in the timelines.
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/experiment.h"

namespace tutti::lab {
namespace {

using Segment = Timeline::Segment;

std::vector<Segment> writes_of(const Timeline& timeline) {
  std::vector<Segment> writes;
  for (const Segment& segment : timeline.segments)
    if (segment.kind == Segment::Kind::kInputOutput) writes.push_back(segment);
  std::sort(writes.begin(), writes.end(), [](const Segment& a, const Segment& b) { return a.from < b.from; });
  return writes;
}

std::size_t overlaps(const std::vector<Segment>& writes) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < writes.size(); ++i) count += writes[i].from < writes[i - 1].to;
  return count;
}

TEST(LabLive, WithLockingNoTwoJobsWriteAtOnce) {
  const auto result = run_experiment("thesis-identical", {.live = true});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->timelines.size(), 3u) << "base, backoff, locking";
  const auto base = writes_of(result->timelines.front());
  const auto locking = writes_of(result->timelines.back());
  ASSERT_FALSE(base.empty());
  EXPECT_EQ(locking.size(), base.size()) << "every checkpoint is written";
  EXPECT_GT(overlaps(base), 0u) << "without a gate there is something to coordinate";
  EXPECT_EQ(overlaps(locking), 0u);
  for (const Timeline& timeline : result->timelines) EXPECT_EQ(writes_of(timeline).size(), base.size());
}

}  // namespace
}  // namespace tutti::lab

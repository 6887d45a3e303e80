// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/service_times.h"

#include <gtest/gtest.h>

#include "sched/prediction/predicted_queues.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

// Writes that take 100 us and 1 ns per byte, `every` so often.
Trace writes(std::size_t count, Duration every) {
  Trace trace{.files = {"f"}, .requests = {}};
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes length((1 + i % 4) << 12);
    const Duration begin = every * static_cast<int>(i);
    trace.requests.push_back({.time = begin,
                              .offset = i << 20,
                              .length = length,
                              .direction = Direction::kWrite,
                              .completed = begin + 100us + Duration(length.count())});
  }
  return trace;
}

TEST(ServiceTimes, AreFittedToRequestsThatWereAlone) {
  const Trace trace = writes(100, 1ms);
  const auto times = measure_service({&trace, 1});
  EXPECT_FALSE(times[0]) << "there are no reads";
  ASSERT_TRUE(times[1]);
  EXPECT_NEAR(static_cast<double>(times[1]->latency.count()), 1e5, 1e3);
  EXPECT_NEAR(times[1]->bytes_per_second, 1e9, 1e7);
}

TEST(ServiceTimes, AreNotKnownIfRequestsOverlap) {
  const Trace busy = writes(100, 50us);
  EXPECT_FALSE(measure_service({&busy, 1})[1]);
  Trace open = writes(100, 1ms);
  for (TraceRequest& request : open.requests) request.completed = kCompletionNotKnown;
  EXPECT_FALSE(measure_service({&open, 1})[1]);
  const Trace few = writes(31, 1ms);
  EXPECT_FALSE(measure_service({&few, 1})[1]);
  EXPECT_FALSE(measure_service({})[1]);
}

TEST(ServiceTimes, AreKeptWithThePredictedQueues) {
  const Trace trace = writes(100, 1ms);
  const auto queues = PredictedQueues::combine({&trace, 1});
  ASSERT_TRUE(queues->service()[1]);
  EXPECT_NEAR(static_cast<double>(queues->service()[1]->latency.count()), 1e5, 1e3);
}

TEST(ServiceTimes, ADamagedTraceIsHarmless) {
  Trace trace = writes(40, 1ms);
  for (TraceRequest& request : trace.requests) request.completed = request.time - 1s;
  EXPECT_FALSE(measure_service({&trace, 1})[1]);
}

}  // namespace
}  // namespace tutti

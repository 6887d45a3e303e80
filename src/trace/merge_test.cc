// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.h"

#include <gmock/gmock.h>

#include "trace/statistics.h"

namespace tutti::trace {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Recording recording(Duration start, const std::string& node, std::vector<std::string> files, Duration step) {
  Recording result{.start = TimePoint(start), .facts = {{"node", node}, {"policy", "fifo"}}};
  result.trace.files = std::move(files);
  for (std::uint32_t i = 0; i < result.trace.files.size(); ++i)
    result.trace.requests.push_back({.time = i * step, .file = i, .length = Bytes(10), .completed = i * step + 1ms});
  return result;
}

TEST(Merge, ServersOfOneRunHaveACommonClock) {
  const Recording merged =
      merge({recording(100s, "a", {"x", "y"}, 2s), recording(101s, "b", {"y", "x"}, 2s)}, Align::kClock);
  EXPECT_THAT(merged.problems.texts(), IsEmpty());
  EXPECT_EQ(merged.start, TimePoint(100s));
  EXPECT_EQ(merged.facts.at("node"), "a,b");
  EXPECT_EQ(merged.facts.at("policy"), "fifo");
  EXPECT_THAT(merged.trace.files, ElementsAre("x", "y"));
  std::vector<Duration> times;
  std::vector<std::uint32_t> files;
  for (const TraceRequest& request : merged.trace.requests) {
    times.push_back(request.time);
    files.push_back(request.file);
    EXPECT_EQ(request.completed, request.time + 1ms);
  }
  EXPECT_THAT(times, ElementsAre(0s, 1s, 2s, 3s));
  EXPECT_THAT(files, ElementsAre(0, 1, 1, 0));
}

TEST(Merge, RunsBeginTogether) {
  const Recording merged =
      merge({recording(100s, "a", {"x", "y"}, 2s), recording(5000s, "a", {"x", "y"}, 2s)}, Align::kFirst);
  EXPECT_EQ(merged.trace.requests[1].time, 0s);
  EXPECT_EQ(merged.trace.requests[3].time, 2s);
}

TEST(Merge, ReportsTracesOfDifferentPrograms) {
  const Recording merged = merge({recording(0s, "a", {"x"}, 1s), recording(0s, "b", {"z"}, 1s)}, Align::kClock);
  EXPECT_THAT(merged.trace.requests, SizeIs(2));
  EXPECT_THAT(merged.problems.texts(), ElementsAre(HasSubstr("a has no file in common"), HasSubstr("b has no file")));
}

TEST(Phases, EndWithAPause) {
  Trace trace{.files = {"x"}, .requests = {}};
  for (const Duration time : {0ms, 10ms, 500ms, 510ms, 2000ms})
    trace.requests.push_back({.time = time, .application = 1, .length = Bytes(5), .completed = time + 200ms});
  trace.requests.push_back({.time = 2000ms, .application = 2, .length = Bytes(7)});
  const auto phases = find_phases(trace, 300ms);
  ASSERT_THAT(phases, SizeIs(3));
  EXPECT_THAT(phases[0].requests, ElementsAre(0, 1, 2, 3));  // 290 ms without unfinished requests
  EXPECT_EQ(phases[0].end, 710ms);
  EXPECT_EQ(phases[0].bytes, Bytes(20));
  EXPECT_TRUE(phases[0].completions_known);
  EXPECT_EQ(phases[1].begin, 2000ms);
  EXPECT_EQ(phases[2].application, 2u);
  EXPECT_FALSE(phases[2].completions_known);
}

TEST(TraceStatistics, CountsByFileApplicationAndDirection) {
  Trace trace{.files = {"x", "y"}, .requests = {}};
  for (std::uint32_t i = 0; i < 10; ++i)
    trace.requests.push_back({.time = i * 1s, .application = 3, .offset = i * 100, .length = Bytes(100)});
  trace.requests.push_back({.time = 11s,
                            .file = 1,
                            .application = 3,
                            .length = Bytes(5000),
                            .direction = Direction::kWrite,
                            .completed = 13s});
  const auto rows = statistics(trace);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].bytes, Bytes(5000));
  EXPECT_EQ(rows[0].response, 2s);
  EXPECT_EQ(rows[1].requests, 10u);
  EXPECT_DOUBLE_EQ(rows[1].contiguous, 0.9);
  EXPECT_DOUBLE_EQ(rows[1].ascending, 1);
  EXPECT_EQ(rows[1].last, 9s);
  EXPECT_EQ(rows[1].completed, 0u);
}

TEST(TraceStatistics, WritesCsv) {
  Trace trace{.files = {"a \"b\"\n"}, .requests = {}};
  trace.requests.push_back(
      {.time = 1500ms, .application = 1, .offset = 7, .length = Bytes(3), .target = 2, .process = 9});
  const std::string text = csv(trace);
  EXPECT_THAT(text, StartsWith("time,completed,application,process,target,direction,offset,length,file\n"));
  EXPECT_THAT(text, HasSubstr("\n1.500000000,,1,9,2,read,7,3,\"a \"\"b\"\"?\"\n"));
}

}  // namespace
}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include "gate/turn_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace tutti::gate {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

// Writes down what a recorder would get.
struct Listener : SchedulerObserver {
  void arrived(std::span<const WaitingRequest> requests) override {
    for (const auto& [request, when] : requests) {
      open[request.id] = request;
      add("begins", request, when);
    }
  }
  void ended(std::span<const Request> requests, TimePoint when, bool served) override {
    for (const Request& request : requests) {
      EXPECT_EQ(open.erase(request.id), 1u);
      add(served ? "ends" : "is dropped", request, when);
    }
  }
  void named(FileId file, std::string_view path) override { names[file] = path; }
  void add(const std::string& what, const Request& request, TimePoint when) {
    lines.push_back(names.at(request.file) + " " + what + " at " +
                    std::to_string(when.time_since_epoch() / seconds(1)));
    last = request;
  }

  std::map<RequestId, Request> open;
  std::map<FileId, std::string> names;
  std::vector<std::string> lines;
  Request last;
};

struct TurnTraceTest : testing::Test {
  Listener listener;
  LockTable table = *LockTable::create({.targets = 4, .observer = std::make_shared<TurnTrace>(listener)});

  Ask ask(Ticket ticket, std::uint64_t number, const std::string& job, std::uint64_t bytes) {
    TargetSet targets(4);
    targets.insert(2);
    targets.insert(3);
    return {
        .ticket = ticket, .id = {.user = 7, .number = number}, .job = job, .targets = targets, .bytes = Bytes(bytes)};
  }
  static TimePoint at(int second) { return TimePoint(seconds(second)); }
};

TEST_F(TurnTraceTest, WaitAndTurnAreRecorded) {
  table.request(1, ask(1, 11, "first", 1000), at(1));
  table.request(2, ask(2, 12, "second", 0), at(2));
  table.release(1, 1, at(5));
  table.release(2, 2, at(6));
  EXPECT_THAT(listener.lines, ElementsAre("wait/first begins at 1", "wait/first ends at 1", "turn/first begins at 1",
                                          "wait/second begins at 2", "turn/first ends at 5", "wait/second ends at 5",
                                          "turn/second begins at 5", "turn/second ends at 6"));
  EXPECT_TRUE(listener.open.empty());
  EXPECT_EQ(listener.last.length, Bytes(1)) << "no bytes were announced";
  EXPECT_EQ(listener.last.target, 2u);
  EXPECT_EQ(listener.last.stamp.application, 12u);
  EXPECT_EQ(listener.last.direction, Direction::kWrite);
}

TEST_F(TurnTraceTest, AnyAnnouncedSizeIsAValidRequest) {
  table.request(1, ask(1, 11, "job", ~std::uint64_t{0}), at(1));
  EXPECT_LT(listener.last.end(), std::uint64_t{1} << 63);
}

TEST_F(TurnTraceTest, ProcessesOfOneJobShareATurn) {
  table.request(1, ask(1, 11, "job", 10), at(1));
  table.request(2, ask(1, 11, "job", 10), at(2));
  table.release(1, 1, at(3));
  EXPECT_EQ(listener.open.size(), 1u);
  table.disconnect(2, at(4));
  EXPECT_THAT(listener.lines,
              ElementsAre("wait/job begins at 1", "wait/job ends at 1", "turn/job begins at 1", "turn/job ends at 4"));
}

TEST_F(TurnTraceTest, AWithdrawnRequestHasNoCompletion) {
  table.request(1, ask(1, 11, "holder", 10), at(1));
  table.request(2, ask(2, 12, "waiter", 10), at(2));
  table.release(2, 2, at(3));
  EXPECT_EQ(listener.lines.back(), "wait/waiter is dropped at 3");
  table.advance(at(100));  // the lease has ended
  EXPECT_TRUE(listener.open.empty());
}

TEST_F(TurnTraceTest, ATurnOfThePreviousGateIsRecordedFromItsReturn) {
  table =
      *LockTable::create({.targets = 4, .recover_until = at(10), .observer = std::make_shared<TurnTrace>(listener)});
  table.reassert_holding(1, ask(1, 11, "job", 10), {.arrived = at(1), .group = 0}, at(3));
  table.release(1, 1, at(4));
  EXPECT_THAT(listener.lines,
              ElementsAre("wait/job begins at 3", "wait/job ends at 3", "turn/job begins at 3", "turn/job ends at 4"));
}

}  // namespace
}  // namespace tutti::gate

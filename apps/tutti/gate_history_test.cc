// SPDX-License-Identifier: Apache-2.0
#include "gate_history.h"

#include <gmock/gmock.h>

#include <map>

#include "base/temporary_directory.h"
#include "gate/turn_trace.h"
#include "trace/live_files.h"

namespace tutti::cli {
namespace {

using namespace std::chrono_literals;
using gate::LockTable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps what a recorder would write.
struct TraceInMemory : SchedulerObserver {
  void arrived(std::span<const WaitingRequest> requests) override {
    for (const auto& [request, when] : requests) {
      open[request.id] = trace.requests.size();
      trace.requests.push_back({.time = when.time_since_epoch(),
                                .file = indexes.at(request.file),
                                .length = request.length,
                                .process = static_cast<std::uint32_t>(request.stamp.operation >> 32)});
    }
  }
  void ended(std::span<const Request> requests, TimePoint when, bool served) override {
    for (const Request& request : requests)
      if (served) trace.requests[open.at(request.id)].completed = when.time_since_epoch();
  }
  void named(FileId file, std::string_view path) override {
    if (!indexes.try_emplace(file, static_cast<std::uint32_t>(trace.files.size())).second) return;
    trace.files.emplace_back(path);
  }

  Trace trace;
  std::map<FileId, std::uint32_t> indexes;
  std::map<RequestId, std::size_t> open;
};

gate::Ask ask(gate::Ticket ticket, const std::string& job, Bytes bytes = {}, std::uint32_t user = 7) {
  gate::TargetSet targets(1);
  targets.insert(0);
  return {.ticket = ticket, .id = {.user = user, .number = ticket}, .job = job, .targets = targets, .bytes = bytes};
}

// Job `long` holds its turns for 60 s, `short` for 2 s, `brief` for 1 s with an announced size.
Trace recorded() {
  TraceInMemory listener;
  auto table = LockTable::create({.observer = std::make_shared<gate::TurnTrace>(listener)});
  TimePoint now{};
  for (gate::Ticket ticket = 1; ticket < 12; ticket += 3) {
    table->request(1, ask(ticket, "long"), now);
    table->request(2, ask(ticket + 1, "short"), now += 1s);
    table->request(3, ask(ticket + 2, "brief", Bytes(1'000'000'000)), now);
    table->release(1, ticket, now += 59s);
    table->release(2, ticket + 1, now += 2s);
    table->release(3, ticket + 2, now += 1s);
    now += 100s;
  }
  table->request(1, ask(99, "withdrawn"), now);
  table->request(2, ask(100, "withdrawn"), now);
  table->release(2, 100, now + 1s);
  return listener.trace;
}

// The jobs that wait for the target, in the order in which they will be served.
std::vector<std::string> order(const std::string& discipline, std::vector<LockTable::PastEvent> past) {
  auto table = LockTable::create({.discipline = discipline, .past = std::move(past)});
  const TimePoint tomorrow{};
  table->request(1, ask(1, "holder"), tomorrow + 24h);
  table->request(2, ask(2, "long"), tomorrow + 24h);
  table->request(3, ask(3, "unknown"), tomorrow + 24h);
  table->request(4, ask(4, "short"), tomorrow + 24h);
  table->request(5, ask(5, "brief"), tomorrow + 24h);
  table->request(6, ask(6, "short", {}, 8), tomorrow + 24h);  // of another user
  std::vector<std::string> jobs;
  for (const LockTable::Turn* turn : table->queue()) jobs.push_back(turn->ask.job);
  return jobs;
}

TEST(GateHistory, AGateKnowsTheTurnsOfAnEarlierOne) {
  EXPECT_THAT(order("shortest", {}), ElementsAre("long", "unknown", "short", "brief", "short"));
  EXPECT_THAT(order("shortest", past_events(recorded())), ElementsAre("brief", "short", "long", "unknown", "short"));
}

TEST(GateHistory, WaitsAndTurnsAreEventsInOrderOfTime) {
  const auto events = past_events(recorded());
  ASSERT_EQ(events.size(), 4 * 6 + 1u);  // `withdrawn` was granted once and did not end
  EXPECT_EQ(events[0].job, "long");
  EXPECT_FALSE(events[0].held);
  EXPECT_EQ(events[3].job, "long");
  EXPECT_EQ(events[3].held, 60s);
  EXPECT_EQ(events[3].announced, Bytes());
  EXPECT_EQ(events[5].job, "brief");
  EXPECT_EQ(events[5].held, 1s);
  EXPECT_EQ(events[5].announced, Bytes(1'000'000'000));
  EXPECT_EQ(events[5].user, 7u);
  EXPECT_TRUE(std::ranges::is_sorted(events, {}, &LockTable::PastEvent::time));
}

TEST(GateHistory, OnlyTheLastTurnsOfAJobAreKept) {
  Trace trace{.files = {"turn/often", "turn/once"}, .requests = {}};
  trace.requests.push_back({.time = 0s, .file = 1, .length = Bytes(1), .completed = 1s});
  for (int i = 1; i <= 1000; ++i)
    trace.requests.push_back({.time = i * 1s, .length = Bytes(1), .completed = i * 1s + 1ms});
  const auto events = past_events(trace);
  ASSERT_EQ(events.size(), kMostPastTurns + 1);
  EXPECT_EQ(events.front().job, "once");
  EXPECT_EQ(events.back().time, TimePoint(1000s + 1ms));
}

// The time between the gates is not part of a job's period.
TEST(GateHistory, PeriodsContinueAfterTheFirstTurn) {
  auto table = LockTable::create({.discipline = "set10", .past = past_events(recorded())});
  const TimePoint start = TimePoint() + 24h * 365;
  table->request(1, ask(1, "long"), start);
  const LockTable::Turn* turn = table->holders().at(0);
  ASSERT_TRUE(turn->history->period);
  EXPECT_EQ(*turn->history->period, 163s);
  EXPECT_EQ(turn->history->expected_hold, 60s);
}

TEST(GateHistory, OnlyTracesOfGatesAreRead) {
  const TemporaryDirectory directory;
  EXPECT_EQ(load_gate_history(directory.path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(load_gate_history(directory.path() + "/absent").error().code, ErrorCode::kNotFound);
  trace::Recording recording{.facts = {{"node", "node0"}}, .trace = recorded()};
  ASSERT_TRUE(trace::write_file(recording, directory.path() + "/node0.1.trace"));
  EXPECT_EQ(load_gate_history(directory.path()).error().code, ErrorCode::kNotFound);
  recording.facts["node"] = "gate";
  ASSERT_TRUE(trace::write_file(recording, directory.path() + "/gate.1.trace"));
  const auto history = load_gate_history(directory.path());
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(history->turns, 12u);
  EXPECT_EQ(history->events.size(), past_events(recording.trace).size());
  EXPECT_THAT(history->problems, ElementsAre(HasSubstr("trace of node0 is not that of a gate")));
}

}  // namespace
}  // namespace tutti::cli

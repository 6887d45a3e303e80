// SPDX-License-Identifier: Apache-2.0
// Random requests of many sessions under every discipline, with checks of the invariants after each step.
#include <gtest/gtest.h>

#include <map>

#include "base/prng.h"
#include "gate/lock_table.h"

namespace tutti::gate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kTargets = 4;
constexpr SessionId kSessions = 12;
constexpr Duration kLease = seconds(10);
constexpr Duration kLimit = seconds(20);

// What a client knows from the answers alone. The clients of this test sometimes forget to renew.
struct ClientView {
  enum class State { kNothing, kWaiting, kHolding } state = State::kNothing;
  Ticket ticket = 0;
  TargetSet targets{kTargets};
  std::uint32_t group = 0;
  TimePoint arrived{};
};

class RandomSessions {
 public:
  RandomSessions(std::string discipline, std::uint64_t seed) : discipline_(std::move(discipline)), prng_(seed) {
    start(std::nullopt);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step();
      receive();
      check();
    }
    drain();
  }

 private:
  void start(std::optional<TimePoint> recover_until) {
    OptionTexts options;
    if (discipline_ == "fifo-pass" || discipline_ == "shortest") options["limit"] = "20s";
    table_ = std::make_unique<LockTable>(std::move(*LockTable::create({.targets = kTargets,
                                                                       .lease = kLease,
                                                                       .discipline = discipline_,
                                                                       .discipline_options = options,
                                                                       .recover_until = recover_until})));
  }

  void step() {
    const SessionId session = 1 + prng_.below(kSessions);
    ClientView& view = views_[session];
    switch (prng_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return ask(session, view);
      case 4:
      case 5:
      case 6:
        table_->release(session, view.ticket, now_);  // also when it holds nothing
        view.state = ClientView::State::kNothing;
        return;
      case 7:
      case 8:
        return table_->renew(session, view.ticket, now_);
      case 9:
        table_->disconnect(session, now_);
        view.state = ClientView::State::kNothing;
        return;
      case 10:
        now_ += milliseconds(prng_.below(3000));
        return table_->advance(now_);
      default:
        if (prng_.chance(0.05)) restart();
    }
  }

  // Two jobs of three processes; the others are jobs of their own.
  static std::uint64_t number_of(SessionId session) { return session <= 6 ? 1 + session % 2 : 0; }

  Ask make_ask(const ClientView& view, SessionId session) {
    return {.ticket = view.ticket,
            .id = {.user = 1, .number = number_of(session)},
            .job = "job" + std::to_string(session % 5),
            .targets = view.targets,
            .bytes = Bytes(prng_.below(1000) * prng_.below(2))};
  }

  void ask(SessionId session, ClientView& view) {
    if (view.state != ClientView::State::kNothing) {  // a second REQ: must be refused
      const auto refused = table_->counts().refused;
      ClientView second = view;
      second.ticket = next_ticket_++;
      table_->request(session, make_ask(second, session), now_);
      if (view.state == ClientView::State::kWaiting) {
        EXPECT_EQ(table_->counts().refused, refused + 1);
      }
      return;
    }
    view.ticket = next_ticket_++;
    view.targets = TargetSet(kTargets);
    while (view.targets.empty())
      for (TargetId target = 0; target < kTargets; ++target)
        if (prng_.chance(0.4)) view.targets.insert(target);
    view.state = ClientView::State::kWaiting;
    table_->request(session, make_ask(view, session), now_);
  }

  void restart() {
    start(now_ + kLease);
    for (auto& [session, view] : views_) {
      if (view.state == ClientView::State::kHolding)
        table_->reassert_holding(session, make_ask(view, session), {view.arrived, view.group}, now_);
      else if (view.state == ClientView::State::kWaiting)
        table_->reassert_waiting(session, make_ask(view, session), {view.arrived}, now_);
    }
  }

  void receive() {
    for (const Answer& answer : table_->answers()) {
      ClientView& view = views_[answer.session];
      if (answer.ticket != view.ticket) continue;
      if (answer.kind == AnswerKind::kQueued) view.arrived = answer.arrived;
      if (answer.kind == AnswerKind::kGranted) {
        ASSERT_EQ(view.state, ClientView::State::kWaiting) << "a grant without a request";
        view.state = ClientView::State::kHolding;
        view.group = answer.group;
        view.arrived = answer.arrived;
      }
      if (answer.kind == AnswerKind::kLost) view.state = ClientView::State::kNothing;
    }
    table_->clear_answers();
  }

  void check() {
    // By group and target: the job that holds it. Jobs without a number are identified by their session.
    std::map<std::pair<std::uint32_t, TargetId>, std::pair<std::uint64_t, SessionId>> holder;
    std::map<std::uint32_t, TargetSet> held;
    std::size_t holding = 0, waiting = 0;
    for (const auto& [session, view] : views_) {
      holding += view.state == ClientView::State::kHolding;
      waiting += view.state == ClientView::State::kWaiting;
      if (view.state != ClientView::State::kHolding) continue;
      const std::uint64_t number = number_of(session);
      view.targets.for_each([&](TargetId target) {
        const std::pair job(number, number == 0 ? session : 0);
        ASSERT_EQ(holder.try_emplace({view.group, target}, job).first->second, job) << "two holders of one target";
      });
    }
    std::size_t holding_sessions = 0, waiting_sessions = 0;
    for (const LockTable::Turn* turn : table_->holders()) {
      holding_sessions += turn->sessions.size();
      TargetSet& taken = held.try_emplace(turn->placement.group, TargetSet(kTargets)).first->second;
      ASSERT_FALSE(taken.intersects(turn->ask.targets)) << "two turns with one target";
      taken |= turn->ask.targets;
      for (const LockTable::SessionEntry* session : turn->sessions)
        ASSERT_TRUE(views_[session->id].targets.within(turn->ask.targets))
            << "holds a target that its turn does not have";
    }
    for (const LockTable::Turn* turn : table_->queue()) {
      ASSERT_FALSE(turn->sessions.empty());
      waiting_sessions += turn->sessions.size();
    }
    ASSERT_EQ(table_->holders().size(), table_->holding());
    ASSERT_EQ(table_->queue().size(), table_->waiting());
    ASSERT_EQ(holding, holding_sessions);
    ASSERT_EQ(waiting, waiting_sessions) << "a request was lost or invented";
    if (!table_->recovering()) check_nobody_waits_in_vain(held);
  }

  // The first turn of each group's queue is always blocked by a holder: no wakeup was lost.
  void check_nobody_waits_in_vain(std::map<std::uint32_t, TargetSet>& held) {
    std::map<std::uint32_t, TargetSet> blocked = held;
    for (const LockTable::Turn* turn : table_->queue()) {
      TargetSet& taken = blocked.try_emplace(turn->placement.group, TargetSet(kTargets)).first->second;
      ASSERT_TRUE(taken.intersects(turn->ask.targets)) << "could be granted and is not";
      if (discipline_ == "fifo" || discipline_ == "set10" || turn->overdue) taken |= turn->ask.targets;
    }
  }

  // Without renewals and new requests, every waiter is granted within (waiting + 1) leases.
  void drain() {
    now_ += kLease;
    table_->advance(now_);
    for (SessionId i = 0; i <= kSessions && (table_->waiting() > 0 || table_->holding() > 0); ++i) {
      receive();
      check();
      now_ += kLease;
      table_->advance(now_);
    }
    receive();
    EXPECT_EQ(table_->waiting(), 0u);
    EXPECT_EQ(table_->holding(), 0u);
    EXPECT_FALSE(table_->next_deadline().has_value());
  }

  std::string discipline_;
  Prng prng_;
  TimePoint now_{std::chrono::hours(1)};
  std::unique_ptr<LockTable> table_;
  std::map<SessionId, ClientView> views_;
  Ticket next_ticket_ = 1;
};

class LockTableProperty : public testing::TestWithParam<std::string> {};

TEST_P(LockTableProperty, NeverTwoHoldersNeverALostWakeup) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomSessions(GetParam(), seed).run(1500);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const DisciplineInfo& info : disciplines()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(EveryDiscipline, LockTableProperty, testing::ValuesIn(names()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// Random sessions against every discipline: what must hold whatever happens.
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

// What a well-meant but forgetful client believes, from the answers alone.
struct Belief {
  enum class State { kNothing, kWaiting, kHolding } state = State::kNothing;
  Ticket ticket = 0;
  TargetSet targets{kTargets};
  std::uint32_t group = 0;
  TimePoint arrived{};
  TimePoint asked{};
};

class World {
 public:
  World(std::string discipline, std::uint64_t seed) : discipline_(std::move(discipline)), prng_(seed) {
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
    Belief& belief = beliefs_[session];
    switch (prng_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return ask(session, belief);
      case 4:
      case 5:
      case 6:
        table_->release(session, belief.ticket, now_);  // also when it holds nothing
        belief.state = Belief::State::kNothing;
        return;
      case 7:
      case 8:
        return table_->renew(session, belief.ticket, now_);
      case 9:
        table_->disconnect(session, now_);
        belief.state = Belief::State::kNothing;
        return;
      case 10:
        now_ += milliseconds(prng_.below(3000));
        return table_->advance(now_);
      default:
        if (prng_.chance(0.05)) restart();
    }
  }

  Ask make_ask(const Belief& belief, SessionId session) {
    return {.ticket = belief.ticket,
            .job = "job" + std::to_string(session % 5),
            .targets = belief.targets,
            .bytes = Bytes(prng_.below(1000) * prng_.below(2))};
  }

  void ask(SessionId session, Belief& belief) {
    if (belief.state != Belief::State::kNothing) {  // a second REQ: must be refused
      const auto refused = table_->counts().refused;
      Belief second = belief;
      second.ticket = next_ticket_++;
      table_->request(session, make_ask(second, session), now_);
      if (belief.state == Belief::State::kWaiting) {
        EXPECT_EQ(table_->counts().refused, refused + 1);
      }
      return;
    }
    belief.ticket = next_ticket_++;
    belief.targets = TargetSet(kTargets);
    while (belief.targets.empty())
      for (TargetId target = 0; target < kTargets; ++target)
        if (prng_.chance(0.4)) belief.targets.insert(target);
    belief.state = Belief::State::kWaiting;
    belief.asked = now_;
    table_->request(session, make_ask(belief, session), now_);
  }

  void restart() {
    start(now_ + kLease);
    for (auto& [session, belief] : beliefs_) {
      if (belief.state == Belief::State::kHolding)
        table_->reassert_holding(session, make_ask(belief, session), belief.group, now_);
      else if (belief.state == Belief::State::kWaiting)
        table_->reassert_waiting(session, make_ask(belief, session), belief.arrived, now_);
    }
  }

  void receive() {
    for (const Answer& answer : table_->answers()) {
      Belief& belief = beliefs_[answer.session];
      if (answer.ticket != belief.ticket) continue;
      if (answer.kind == Answer::Kind::kQueued) belief.arrived = answer.arrived;
      if (answer.kind == Answer::Kind::kGranted) {
        ASSERT_EQ(belief.state, Belief::State::kWaiting) << "a grant nobody asked for";
        belief.state = Belief::State::kHolding;
        belief.group = answer.group;
      }
      if (answer.kind == Answer::Kind::kLost) belief.state = Belief::State::kNothing;
    }
    table_->clear_answers();
  }

  void check() {
    std::map<std::uint32_t, TargetSet> held;
    std::size_t holding = 0, waiting = 0;
    for (const auto& [session, belief] : beliefs_) {
      holding += belief.state == Belief::State::kHolding;
      waiting += belief.state == Belief::State::kWaiting;
      if (belief.state != Belief::State::kHolding) continue;
      TargetSet& taken = held.try_emplace(belief.group, TargetSet(kTargets)).first->second;
      ASSERT_FALSE(taken.intersects(belief.targets)) << "two holders of one target";
      taken |= belief.targets;
    }
    ASSERT_EQ(holding, table_->holding());
    ASSERT_EQ(waiting, table_->waiting()) << "a request was lost or invented";
    if (!table_->recovering()) check_nobody_waits_in_vain(held);
  }

  // The first of each group's queue is always blocked by a holder: no wakeup is ever lost.
  void check_nobody_waits_in_vain(std::map<std::uint32_t, TargetSet>& held) {
    std::map<std::uint32_t, TargetSet> blocked = held;
    for (const LockTable::Entry* entry : table_->queue()) {
      TargetSet& taken = blocked.try_emplace(entry->place.group, TargetSet(kTargets)).first->second;
      ASSERT_TRUE(taken.intersects(entry->ask.targets)) << "could go and does not";
      if (discipline_ == "fifo" || discipline_ == "set10" || entry->overdue) taken |= entry->ask.targets;
    }
  }

  // If nobody renews and nobody else comes, everyone has had its turn after (waiting + 1) leases.
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
  std::map<SessionId, Belief> beliefs_;
  Ticket next_ticket_ = 1;
};

class LockTableProperty : public testing::TestWithParam<std::string> {};

TEST_P(LockTableProperty, NeverTwoHoldersNeverALostWakeup) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World(GetParam(), seed).run(1500);
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

// SPDX-License-Identifier: Apache-2.0
#include "gate/lock_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tutti::gate {
namespace {

using namespace literals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = AnswerKind;

// A lock table with a manual clock, and its last answers.
class Gate {
 public:
  explicit Gate(LockTable::Options options) : table_(std::move(*LockTable::create(std::move(options)))) {}

  void ask(SessionId session, std::vector<TargetId> targets, Bytes bytes = {}) {
    table_.request(session, make(session, targets, bytes), now_);
  }
  // A process of the job with this number.
  void ask_as(std::uint64_t number, SessionId session, std::vector<TargetId> targets) {
    table_.request(session, make_as(number, session, targets), now_);
  }
  Ask make_as(std::uint64_t number, SessionId session, const std::vector<TargetId>& targets) {
    Ask ask = make(session, targets);
    ask.id = {.user = 1000, .number = number};
    return ask;
  }
  void release(SessionId session) { table_.release(session, session, now_); }
  void renew(SessionId session) { table_.renew(session, session, now_); }
  void disconnect(SessionId session) { table_.disconnect(session, now_); }
  void pass(Duration time) { table_.advance(now_ += time); }
  Ask make(SessionId session, const std::vector<TargetId>& targets, Bytes bytes = {}) {
    return {.ticket = session,
            .job = "job" + std::to_string(session),
            .targets = TargetSet::of(table_.options().targets, targets),
            .bytes = bytes};
  }

  std::vector<Answer> take() {
    std::vector<Answer> answers(table_.answers().begin(), table_.answers().end());
    table_.clear_answers();
    return answers;
  }
  std::vector<SessionId> granted() {
    std::vector<SessionId> granted;
    for (const Answer& answer : take())
      if (answer.kind == Kind::kGranted) granted.push_back(answer.session);
    return granted;
  }
  Refusal refusal() {
    const auto answers = take();
    return answers.size() == 1 && answers[0].kind == Kind::kRefused ? answers[0].refusal : Refusal::kNone;
  }

  TimePoint now_{std::chrono::hours(1)};
  LockTable table_;
};

TEST(LockTable, TurnsAreGrantedOneAfterTheOtherInOrder) {
  Gate gate({});
  for (SessionId job : {1, 2, 3}) gate.ask(job, {0});
  EXPECT_THAT(gate.granted(), ElementsAre(1));
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
  gate.release(3);
  EXPECT_THAT(gate.take(), IsEmpty());
  EXPECT_EQ(gate.table_.holding(), 0u);
}

// Figure 3.5: A1 wants FS0 and FS1, A2 wants FS1 and FS2, A3 wants FS2 and FS3, in this order.
Gate figure35(std::string discipline) {
  Gate gate({.targets = 4, .discipline = std::move(discipline)});
  gate.ask(1, {0, 1});
  gate.ask(2, {1, 2});
  gate.ask(3, {2, 3});
  return gate;
}

TEST(LockTable, Figure35aWithOrderPreservationA3DoesNotPassA2) {
  Gate gate = figure35("fifo");
  EXPECT_THAT(gate.granted(), ElementsAre(1));
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
}

TEST(LockTable, Figure35bWithoutOrderPreservationA3PassesA2) {
  Gate gate = figure35("fifo-pass");
  EXPECT_THAT(gate.granted(), ElementsAre(1, 3));
  gate.release(1);
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.release(3);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
}

TEST(LockTable, Figure35bTheLimitEndsStarvation) {
  Gate gate(
      {.targets = 4, .lease = seconds(1000), .discipline = "fifo-pass", .discipline_options = {{"limit", "10s"}}});
  gate.ask(1, {0, 1});
  gate.ask(2, {1, 2});
  gate.ask(3, {2, 3});
  EXPECT_THAT(gate.granted(), ElementsAre(1, 3));
  gate.pass(seconds(5));  // requests like A1 and A3 keep arriving, so the targets of A2 are never both free
  gate.ask(4, {0, 1});
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(4));
  gate.pass(seconds(6));  // A2 is overdue now: no request passes it
  gate.ask(5, {2, 3});
  gate.release(3);
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.ask(6, {3});  // shares nothing with A2
  EXPECT_THAT(gate.granted(), ElementsAre(6));
  gate.release(4);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
}

TEST(LockTable, ShortestOrdersBySizeAnnouncedOrLearned) {
  Gate gate({.lease = seconds(1000), .discipline = "shortest"});
  gate.ask(9, {0}, 50_MiB);  // the table learns the rate, 50 MiB/s, and the size of job 9
  gate.pass(seconds(1));
  gate.release(9);
  gate.ask(1, {0}, 1_GiB);
  gate.granted();
  gate.ask(2, {0});  // unknown size: last
  gate.ask(3, {0}, 100_MiB);
  gate.ask(9, {0});  // learned: 50 MiB
  gate.ask(4, {0}, 10_MiB);
  std::vector<SessionId> order;
  for (SessionId last = 1; last != 0;) {
    gate.release(last);
    const auto next = gate.granted();
    last = next.empty() ? 0 : next[0];
    if (last != 0) order.push_back(last);
  }
  EXPECT_THAT(order, ElementsAre(4, 9, 3, 2));
}

// Job 2 holds for 10 s and 1 s in turn. After its short turn, the long one must not seem short.
TEST(LockTable, ShortestExpectsTheLongerOfTwoTurnsThatDiffer) {
  Gate gate({.lease = seconds(1000), .discipline = "shortest"});
  const auto turn_of = [&](SessionId job, Duration hold) {
    gate.ask(job, {0});
    gate.pass(hold);
    gate.release(job);
    gate.granted();
  };
  for (const int length : {10, 1}) turn_of(2, seconds(length));
  for (int i = 0; i < 2; ++i) turn_of(3, seconds(5));
  gate.ask(1, {0});
  gate.granted();
  gate.ask(2, {0});
  gate.ask(3, {0});
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
  gate.release(3);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.release(2);
  gate.granted();
  for (int i = 0; i < 2; ++i) turn_of(2, seconds(1));  // from now on it is short
  gate.ask(1, {0});
  gate.granted();
  gate.ask(3, {0});
  gate.ask(2, {0});
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
}

// Sizes that are not announced are learned in seconds. A few wrong announcements must not make them seem large or
// small.
TEST(LockTable, ShortestLearnsSizesInSpiteOfWrongAnnouncements) {
  for (const Bytes wrong : {Bytes(std::numeric_limits<std::uint64_t>::max()), Bytes(1)}) {
    Gate gate({.lease = seconds(1000), .discipline = "shortest"});
    const auto turn_of = [&](SessionId job, Duration hold, Bytes bytes) {
      gate.ask(job, {0}, bytes);
      gate.pass(hold);
      gate.release(job);
    };
    turn_of(10, seconds(1), 100_MiB);
    turn_of(10, seconds(1), 100_MiB);
    turn_of(9, seconds(100), wrong);
    turn_of(2, seconds(1), {});
    for (const auto& [job, bytes] : {std::pair(1, 1_B), {2, 0_B}, {3, 1_GiB}, {4, 10_MiB}}) gate.ask(job, {0}, bytes);
    gate.granted();
    for (const SessionId next : {4, 2, 3}) {
      gate.release(gate.table_.holders()[0]->sessions[0]->id);
      EXPECT_THAT(gate.granted(), ElementsAre(next)) << wrong.count() << " B announced";
    }
  }
}

TEST(LockTable, ShortestGrantsALargePhaseAfterTheLimit) {
  Gate gate({.lease = seconds(1000), .discipline = "shortest", .discipline_options = {{"limit", "10s"}}});
  gate.ask(1, {0}, 1_MiB);
  gate.ask(2, {0}, 1_GiB);
  gate.pass(seconds(9));
  gate.ask(3, {0}, 1_MiB);
  gate.granted();
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
  gate.ask(4, {0}, 1_MiB);
  gate.pass(seconds(1));
  gate.release(3);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
}

// The table has learned periods of about 10 s for jobs 1 and 2, and about 1000 s for jobs 3 and 4.
class GateWithTwoClasses : public Gate {
 public:
  explicit GateWithTwoClasses(const std::string& share)
      : Gate({.lease = seconds(100'000), .discipline = "set10", .discipline_options = {{"share", share}}}) {
    for (int round = 0; round < 2; ++round)
      for (SessionId job : {3, 4}) {
        phase(job, seconds(100));
        pass(seconds(400));
      }
    for (int round = 0; round < 60; ++round)
      for (SessionId job : {1, 2}) {
        phase(job, seconds(1));
        pass(seconds(4));
      }
    granted();
  }

 private:
  void phase(SessionId job, Duration hold) {
    ask(job, {0});
    pass(hold);
    release(job);
  }
};

TEST(LockTable, Set10SharingBandwidthHasOneJobPerClass) {
  GateWithTwoClasses gate("bandwidth");
  for (SessionId job : {1, 2, 3, 4, 5}) gate.ask(job, {0});  // 5 has no history: the typical class, that of 1 and 2
  EXPECT_THAT(gate.granted(), ElementsAre(1, 3));
  gate.release(3);
  EXPECT_THAT(gate.granted(), ElementsAre(4));
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(5));
}

TEST(LockTable, Set10SharingTimeHasOneJobAtATimeAndStarvesNoClass) {
  GateWithTwoClasses gate("time");
  for (SessionId job : {3, 4, 1, 2}) gate.ask(job, {0});
  EXPECT_THAT(gate.granted(), ElementsAre(3));  // the only request
  // Job 3's turn of 100 s counts for 100 s * 10^3; the other class takes turns of 10 s, each counts for 10 s * 10^1.
  int turns = 0;
  SessionId last = 3;
  for (SessionId next = 0; next != 4 && turns < 2000; last = next) {
    gate.pass(last == 3 ? seconds(100) : seconds(10));
    gate.release(last);
    if (last != 3) gate.ask(last, {0});
    const auto granted = gate.granted();
    ASSERT_EQ(granted.size(), 1u);
    next = granted[0];
    turns += next == 4 ? 0 : 1;
  }
  EXPECT_EQ(last, 4u);
  EXPECT_NEAR(turns, 1000, 50);
}

// The table expects that job 3 holds its turn for 100 s, which would delay job 4 by 10,000 s.
TEST(LockTable, Set10CountsWhatWasHeldInsteadOfWhatWasExpected) {
  for (const bool withdrawn : {false, true}) {
    GateWithTwoClasses gate("time");
    for (SessionId job : {1, 3, 4, 2}) gate.ask(job, {0});
    if (withdrawn) gate.release(3);
    EXPECT_THAT(gate.granted(), ElementsAre(1));
    int turns = 0;  // of jobs 1 and 2, each of 10 s, before job 4
    for (SessionId last = 1; last != 4 && turns < 2000;) {
      gate.pass(last == 3 ? seconds(1) : seconds(10));
      gate.release(last);
      if (last != 3) gate.ask(last, {0});
      const auto granted = gate.granted();
      ASSERT_EQ(granted.size(), 1u);
      turns += last == 3 ? 0 : 1;
      last = granted[0];
    }
    EXPECT_NEAR(turns, withdrawn ? 1 : 10, 1);
  }
}

TEST(LockTable, Set10AClassOwesNothingForTimeThatNoOtherClassWanted) {
  GateWithTwoClasses gate("time");
  gate.ask(3, {0});
  gate.pass(seconds(100));
  gate.release(3);
  for (SessionId job : {1, 2, 4}) gate.ask(job, {0});
  EXPECT_THAT(gate.granted(), ElementsAre(3, 1));
  for (const auto& [last, next] : {std::pair(1, 4), {4, 2}}) {
    gate.pass(seconds(10));
    gate.release(static_cast<SessionId>(last));
    EXPECT_THAT(gate.granted(), ElementsAre(next));
  }
}

// Job 1 waits for 1000 s and gives up. It still has the class of its period, in which job 2 holds the turn.
TEST(LockTable, Set10DoesNotCountWaitingThatWasGivenUpAsPartOfAPeriod) {
  Gate gate({.lease = seconds(10'000), .discipline = "set10", .discipline_options = {{"share", "bandwidth"}}});
  for (int round = 0; round < 8; ++round) {
    gate.ask(1, {0});
    gate.pass(seconds(1));
    gate.release(1);
    gate.pass(seconds(9));
  }
  gate.ask(2, {0});
  gate.ask(1, {0});
  gate.pass(seconds(1000));
  gate.release(1);
  gate.pass(seconds(9));
  gate.granted();
  gate.ask(1, {0});
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(1));
}

TEST(LockTable, Set10WithOneClassIsFifo) {
  Gate gate({.lease = seconds(1000), .discipline = "set10"});
  for (SessionId job : {4, 2, 3, 1}) gate.ask(job, {0});
  for (int round = 0; round < 12; ++round) {
    const auto granted = gate.granted();
    ASSERT_EQ(granted.size(), 1u);
    EXPECT_EQ(granted[0], (std::vector<SessionId>{4, 2, 3, 1})[static_cast<std::size_t>(round % 4)]);
    gate.pass(seconds(5));
    gate.release(granted[0]);
    gate.ask(granted[0], {0});
  }
}

TEST(LockTable, AHolderThatStopsRenewingLosesItsTurn) {
  Gate gate({.lease = seconds(10)});
  gate.ask(1, {0});
  gate.ask(2, {0});
  gate.pass(seconds(9));
  gate.renew(1);
  gate.pass(seconds(9));
  gate.take();
  EXPECT_EQ(gate.table_.next_deadline(), gate.now_ + seconds(1));
  gate.pass(seconds(1));
  const auto answers = gate.take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].kind, Kind::kLost);
  EXPECT_EQ(answers[0].session, 1u);
  EXPECT_EQ(answers[1].kind, Kind::kGranted);
  EXPECT_EQ(answers[1].session, 2u);
}

TEST(LockTable, ALateRenewalIsRefusedEvenBeforeAdvanceIsCalled) {
  Gate gate({.lease = seconds(10)});
  gate.ask(1, {0});
  gate.ask(2, {0});
  gate.take();
  gate.now_ += seconds(11);
  gate.renew(1);
  const auto answers = gate.take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].kind, Kind::kLost);
  EXPECT_EQ(answers[1].session, 2u);
}

TEST(LockTable, MisuseIsAnsweredAndDoesNotAffectOthers) {
  Gate gate({.targets = 2, .lease = seconds(10)});
  gate.release(7);
  EXPECT_EQ(gate.refusal(), Refusal::kNotHeld);
  gate.renew(7);
  EXPECT_EQ(gate.refusal(), Refusal::kNotHeld);
  gate.ask(1, {0});
  gate.ask(2, {0});
  gate.take();
  gate.ask(1, {1});
  EXPECT_EQ(gate.refusal(), Refusal::kSecondRequest);
  gate.ask(2, {1});
  EXPECT_EQ(gate.refusal(), Refusal::kSecondRequest);
  gate.table_.release(1, 99, gate.now_);  // an old ticket
  EXPECT_EQ(gate.refusal(), Refusal::kNotHeld);
  EXPECT_EQ(gate.table_.holding(), 1u);
  gate.pass(seconds(10));
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.renew(1);
  EXPECT_EQ(gate.refusal(), Refusal::kExpired);
  gate.release(1);
  EXPECT_EQ(gate.refusal(), Refusal::kExpired);
  EXPECT_EQ(gate.table_.holding(), 1u);
  gate.ask(1, {0});  // and may ask again
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(1));
  EXPECT_EQ(gate.table_.counts().refused, 7u);
}

TEST(LockTable, ASessionThatLeavesTheQueueUnblocksThoseBehindIt) {
  Gate gate({.targets = 3});
  gate.ask(1, {0});
  gate.ask(2, {0, 1});  // reserves 1
  gate.ask(3, {1});
  gate.ask(4, {0, 2});  // reserves 2
  gate.ask(5, {2});
  EXPECT_THAT(gate.granted(), ElementsAre(1));
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
  gate.disconnect(4);
  EXPECT_THAT(gate.granted(), ElementsAre(5));
  gate.disconnect(1);
  EXPECT_THAT(gate.granted(), IsEmpty());
  EXPECT_EQ(gate.table_.waiting(), 0u);
}

TEST(LockTable, TheQueueIsBounded) {
  Gate gate({.max_waiting = 2});
  for (SessionId job : {1, 2, 3}) gate.ask(job, {0});
  gate.take();
  gate.ask(4, {0});
  EXPECT_EQ(gate.refusal(), Refusal::kFull);
  EXPECT_EQ(gate.table_.waiting(), 2u);
}

TEST(LockTable, AfterARestartHoldersKeepTheirTurnAndWaitersTheirPosition) {
  Gate gate({.targets = 2, .lease = seconds(10), .recover_until = TimePoint(std::chrono::hours(1)) + seconds(10)});
  const TimePoint before = gate.now_ - seconds(30);
  gate.ask(5, {1});  // new; must wait for the end of recovery
  gate.table_.reassert_waiting(3, gate.make(3, {0}), {before + seconds(2)}, gate.now_);  // arrived second
  gate.table_.reassert_waiting(2, gate.make(2, {0}), {before + seconds(1)}, gate.now_);  // arrived first
  gate.table_.reassert_holding(1, gate.make(1, {0}), {}, gate.now_);
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.table_.reassert_holding(4, gate.make(4, {0}), {}, gate.now_);  // a second holder of target 0
  EXPECT_EQ(gate.refusal(), Refusal::kConflict);
  gate.pass(seconds(9));
  gate.renew(1);
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.pass(seconds(1));
  EXPECT_THAT(gate.granted(), ElementsAre(5));
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
  gate.table_.reassert_holding(9, gate.make(9, {1}), {}, gate.now_);  // recovery is over
  EXPECT_EQ(gate.refusal(), Refusal::kExpired);
}

TEST(LockTable, AReassertOverANewConnectionChangesNothing) {
  Gate gate({.targets = 1, .lease = seconds(10)});
  gate.ask(1, {0});
  gate.ask(2, {0});
  gate.ask(3, {0});
  gate.take();
  gate.pass(seconds(5));
  gate.table_.reassert_holding(1, gate.make(1, {0}), {}, gate.now_);
  gate.table_.reassert_waiting(2, gate.make(2, {0}), {gate.now_}, gate.now_);
  const auto answers = gate.take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].kind, Kind::kRenewed);
  EXPECT_EQ(answers[1].kind, Kind::kQueued);
  gate.release(1);
  EXPECT_THAT(gate.granted(), ElementsAre(2));
  // The grant was lost with the connection. The answer to a second request repeats it and starts a new lease.
  gate.pass(seconds(9));
  gate.table_.reassert_waiting(2, gate.make(2, {0}), {gate.now_}, gate.now_);
  EXPECT_EQ(gate.take().back().kind, Kind::kRenewed);
  gate.pass(seconds(9));
  EXPECT_EQ(gate.table_.holding(), 1u);
}

TEST(LockTable, ProcessesOfOneJobShareOneTurn) {
  Gate gate({.targets = 3, .lease = seconds(10)});
  gate.ask(9, {0});
  gate.ask_as(7, 1, {0, 1});  // waits for 9
  gate.ask(8, {1});           // waits for job 7
  gate.ask_as(7, 2, {0, 1});  // joins while the turn waits
  gate.ask_as(7, 3, {1});     // fewer targets: joins, too
  EXPECT_THAT(gate.granted(), ElementsAre(9));
  EXPECT_EQ(gate.table_.waiting(), 2u);
  gate.release(9);
  EXPECT_THAT(gate.granted(), ElementsAre(1, 2, 3));
  gate.ask_as(7, 4, {0});  // joins while the turn is held
  EXPECT_THAT(gate.granted(), ElementsAre(4));
  for (SessionId process : {1, 3}) gate.release(process);
  gate.disconnect(4);
  EXPECT_THAT(gate.granted(), IsEmpty());
  EXPECT_EQ(gate.table_.holding(), 1u);
  gate.release(2);  // the last one
  EXPECT_THAT(gate.granted(), ElementsAre(8));
}

TEST(LockTable, OtherUsersOtherNumbersAndOtherTargetsDoNotJoin) {
  Gate gate({.targets = 2});
  gate.ask_as(7, 1, {0});
  Ask other_user = gate.make_as(7, 2, {0});
  other_user.id.user = 1001;
  gate.table_.request(2, other_user, gate.now_);
  gate.ask_as(8, 3, {0});
  gate.ask_as(0, 4, {0});
  gate.ask_as(0, 5, {0});
  gate.ask_as(7, 6, {0, 1});  // not covered: a turn of its own
  EXPECT_THAT(gate.granted(), ElementsAre(1));
  EXPECT_EQ(gate.table_.waiting(), 5u);
}

TEST(LockTable, AProcessThatStopsRenewingLeavesTheTurnAndTheOthersKeepIt) {
  Gate gate({.lease = seconds(10)});
  gate.ask_as(7, 1, {0});
  gate.ask_as(7, 2, {0});
  gate.ask(3, {0});
  gate.take();
  gate.pass(seconds(9));
  gate.renew(2);
  gate.take();
  gate.pass(seconds(1));
  const auto answers = gate.take();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].kind, Kind::kLost);
  EXPECT_EQ(answers[0].session, 1u);
  gate.pass(seconds(9));
  EXPECT_THAT(gate.granted(), ElementsAre(3));
}

TEST(LockTable, AJobCannotExtendItsTurnByJoiningIt) {
  Gate gate({.lease = seconds(10)});
  gate.ask_as(7, 1, {0});
  gate.pass(seconds(9));
  gate.renew(1);
  gate.pass(seconds(2));
  gate.ask_as(7, 2, {0});  // late, but no other job waits
  EXPECT_THAT(gate.granted(), ElementsAre(1, 2));
  gate.ask(9, {0});
  gate.ask_as(7, 3, {0});  // more than a lease after the grant, and job 9 waits
  EXPECT_THAT(gate.granted(), IsEmpty());
  gate.release(1);
  gate.release(2);
  EXPECT_THAT(gate.granted(), ElementsAre(9));
  gate.release(9);
  EXPECT_THAT(gate.granted(), ElementsAre(3));
}

TEST(LockTable, AfterARestartTheProcessesOfAJobAreOneTurnAgain) {
  Gate gate({.targets = 3, .lease = seconds(10), .recover_until = TimePoint(std::chrono::hours(1)) + seconds(10)});
  const TimePoint early = gate.now_ - seconds(30), late = gate.now_ - seconds(20);
  // Job 7 held 0-1. Its processes with fewer targets re-assert first.
  gate.table_.reassert_holding(1, gate.make_as(7, 1, {0}), {early}, gate.now_);
  gate.table_.reassert_holding(2, gate.make_as(7, 2, {1}), {early}, gate.now_);
  gate.table_.reassert_holding(3, gate.make_as(7, 3, {0, 1}), {early}, gate.now_);
  EXPECT_EQ(gate.table_.holding(), 1u);
  gate.table_.reassert_holding(4, gate.make_as(8, 4, {1}), {early}, gate.now_);
  EXPECT_EQ(gate.take().back().refusal, Refusal::kConflict);
  // Job 9 waited for 1-2.
  gate.table_.reassert_waiting(5, gate.make_as(9, 5, {2}), {late}, gate.now_);
  gate.table_.reassert_waiting(6, gate.make_as(9, 6, {1, 2}), {late}, gate.now_);
  EXPECT_EQ(gate.table_.waiting(), 1u);
  gate.pass(seconds(9));
  for (SessionId process : {1, 2, 3}) gate.renew(process);
  gate.pass(seconds(1));
  EXPECT_THAT(gate.granted(), IsEmpty());
  for (SessionId process : {3, 1, 2}) gate.release(process);
  EXPECT_THAT(gate.granted(), ElementsAre(5, 6));
}

TEST(LockTable, AHolderThatReconnectsRejoinsTheTurnOfItsJob) {
  Gate gate({.lease = seconds(10)});
  gate.ask_as(7, 1, {0});
  gate.ask_as(7, 2, {0});
  gate.disconnect(1);
  gate.take();
  gate.table_.reassert_holding(1, gate.make_as(7, 1, {0}), {}, gate.now_);
  EXPECT_EQ(gate.take().back().kind, Kind::kRenewed);
}

TEST(LockTable, GroupsAndTurnsOfOneJobAreBounded) {
  Gate gate({.targets = 100, .max_turns_per_job = 4, .recover_until = TimePoint(std::chrono::hours(1)) + seconds(10)});
  for (SessionId i = 0; i < 50; ++i)  // group numbers that this discipline does not have
    gate.table_.reassert_holding(i, gate.make(i, {static_cast<TargetId>(i)}),
                                 {{}, 1000 + static_cast<std::uint32_t>(i)}, gate.now_);
  EXPECT_EQ(gate.table_.holding(), 50u);
  gate.table_.reassert_holding(60, gate.make(60, {3}), {{}, 5000}, gate.now_);
  EXPECT_EQ(gate.take().back().refusal, Refusal::kConflict);
  for (SessionId i = 0; i < 5; ++i) gate.ask_as(7, 70 + i, {static_cast<TargetId>(60 + i)});
  EXPECT_EQ(gate.take().back().refusal, Refusal::kFull);
}

TEST(LockTable, TimeThatRunsBackwardsExpiresNoLease) {
  Gate gate({.lease = seconds(10)});
  gate.ask(1, {0});
  gate.now_ -= seconds(60);
  gate.renew(1);
  gate.pass(seconds(60) + milliseconds(9999));
  EXPECT_EQ(gate.table_.holding(), 1u);
  gate.pass(milliseconds(1));
  EXPECT_EQ(gate.table_.holding(), 0u);
}

TEST(LockTable, UnknownDisciplinesAndOptionsAreExplained) {
  EXPECT_THAT(LockTable::create({.discipline = "lottery"}).error().message, testing::HasSubstr("fifo-pass"));
  EXPECT_THAT(LockTable::create({.discipline = "fifo", .discipline_options = {{"limit", "1s"}}}).error().message,
              testing::HasSubstr("limit"));
  EXPECT_FALSE(LockTable::create({.targets = 0}));
  EXPECT_FALSE(LockTable::create({.lease = std::chrono::hours(2'200'000)})) << "no client would accept it";
}

}  // namespace
}  // namespace tutti::gate

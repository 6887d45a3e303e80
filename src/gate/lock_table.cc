// SPDX-License-Identifier: Apache-2.0
#include "gate/lock_table.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "wire/gate_messages.h"

namespace tutti::gate {

using State = LockTable::SessionEntry::State;

const char* explain(Refusal refusal) {
  constexpr const char* kTexts[] = {"no error",
                                    "this session already waits for or holds a turn; release it first",
                                    "this session has no turn with that ticket",
                                    "the lease has expired; another job may hold the targets",
                                    "another job holds one of those targets",
                                    "too many requests wait; proceed without a turn or try again later"};
  return kTexts[static_cast<std::size_t>(refusal)];
}

LockTable::LockTable(Options options, std::unique_ptr<Discipline> discipline)
    : options_(std::move(options)),
      discipline_(std::move(discipline)),
      recovering_(options_.recover_until.has_value()) {}

Result<LockTable> LockTable::create(Options options) {
  if (options.targets == 0 || options.targets > kMaxTargets)
    return fail(ErrorCode::kInvalid, "a gate has 1 to " + std::to_string(kMaxTargets) + " targets");
  if (options.lease <= Duration::zero() || options.lease > wire::kMaxLease)
    return fail(ErrorCode::kInvalid, "the lease must be longer than 0 and at most a year");
  auto discipline = make_discipline(options.discipline, options.discipline_options);
  if (!discipline) return Failure(discipline.error());
  const std::vector<PastEvent> past = std::exchange(options.past, {});
  LockTable table(std::move(options), std::move(*discipline));
  table.learn(past);
  return table;
}

void LockTable::request(SessionId session, Ask ask, TimePoint now) {
  move_to(now);
  ++counts_.requests;
  if (busy(session)) return refuse(session, ask.ticket, Refusal::kSecondRequest);
  if (Turn* turn = joinable(ask)) {
    ++counts_.joined;
    join(session, ask.ticket, *turn);
    return answer(sessions_.at(session), *turn, turn->holding ? AnswerKind::kGranted : AnswerKind::kQueued);
  }
  enqueue(session, std::move(ask), now_);
}

void LockTable::release(SessionId id, Ticket ticket, TimePoint now) {
  move_to(now);
  SessionEntry* session = find(id, ticket);
  if (!session) return refuse(id, ticket, Refusal::kNotHeld);
  if (session->state == State::kLost) {
    session->state = State::kIdle;
    return refuse(id, ticket, Refusal::kExpired);
  }
  ++(session->state == State::kHolding ? counts_.releases : counts_.withdrawn);
  leave(*session, State::kIdle);
}

void LockTable::renew(SessionId id, Ticket ticket, TimePoint now) {
  move_to(now);
  SessionEntry* session = find(id, ticket);
  if (!session) return refuse(id, ticket, Refusal::kNotHeld);
  if (session->state == State::kLost) return refuse(id, ticket, Refusal::kExpired);
  if (session->state == State::kWaiting) return answer(*session, *session->turn, AnswerKind::kQueued);
  // The lease may have expired since the last call of advance().
  if (session->deadline <= now_) return expire(*session);
  set_deadline(*session, now_ + options_.lease);
  answer(*session, *session->turn, AnswerKind::kRenewed);
}

void LockTable::reassert_waiting(SessionId id, Ask ask, EarlierAnswer earlier, TimePoint now) {
  move_to(now);
  // The client counts its lease from this message, so a grant that it has not received starts again.
  if (SessionEntry* session = find(id, ask.ticket); session && session->state != State::kLost)
    return renew(id, ask.ticket, now);
  if (!recovering_) return request(id, std::move(ask), now);
  if (busy(id)) return refuse(id, ask.ticket, Refusal::kSecondRequest);
  ++counts_.reasserted;
  const TimePoint arrived = std::min(earlier.arrived, now_);
  Turn* const turn = find_turn(ask.id, [&](const Turn& t) { return !t.holding && t.arrived == arrived; });
  if (!turn) return enqueue(id, std::move(ask), arrived);
  TargetSet added = ask.targets;
  added -= turn->ask.targets;
  group(turn->placement.group).want(added);
  turn->ask.targets |= added;
  join(id, ask.ticket, *turn);
  answer(sessions_.at(id), *turn, AnswerKind::kQueued);
}

void LockTable::reassert_holding(SessionId id, Ask ask, EarlierAnswer earlier, TimePoint now) {
  move_to(now);
  if (SessionEntry* session = find(id, ask.ticket); session && session->state == State::kHolding)
    return renew(id, ask.ticket, now);
  if (busy(id)) return refuse(id, ask.ticket, Refusal::kSecondRequest);
  Turn* turn = nullptr;
  if (recovering_) {
    // The gate may have used another discipline before the restart, with more groups.
    if (earlier.group >= discipline_->groups()) earlier.group = 0;
    turn = find_turn(ask.id, [&](const Turn& t) {
      return t.holding && t.placement.group == earlier.group &&
             (t.arrived == earlier.arrived || t.ask.targets.intersects(ask.targets));
    });
    TurnGroup& its_group = group(earlier.group);
    TargetSet claimed = ask.targets;
    if (turn) claimed -= turn->ask.targets;
    if (its_group.held.intersects(claimed)) return refuse(id, ask.ticket, Refusal::kConflict);
    its_group.held |= claimed;
    const Ticket ticket = ask.ticket;
    if (turn) {
      turn->ask.targets |= claimed;
    } else {
      turn = &make_turn(id, std::move(ask), std::min(earlier.arrived, now_));
      turn->placement.group = earlier.group;
      if (options_.observer) options_.observer->asked(*turn, now_);
      turn->holding = true;
      turn->granted = now_;
      ++holding_;
      if (options_.observer) options_.observer->granted(*turn, now_);
    }
    ++counts_.reasserted;
    join(id, ticket, *turn);
  } else {
    turn = joinable(ask);  // other processes of the job may still hold its turn
    if (!turn || !turn->holding) return refuse(id, ask.ticket, Refusal::kExpired);
    join(id, ask.ticket, *turn);
  }
  answer(sessions_.at(id), *turn, AnswerKind::kRenewed);
}

bool LockTable::holds(SessionId id) const {
  const auto it = sessions_.find(id);
  return it != sessions_.end() && it->second.state == State::kHolding;
}

void LockTable::disconnect(SessionId id, TimePoint now) {
  move_to(now);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  if (it->second.turn) {
    ++counts_.disconnected;
    leave(it->second, State::kLost);
  }
  if (it->second.history) --it->second.history->uses;
  sessions_.erase(it);
}

void LockTable::advance(TimePoint now) {
  move_to(now);
  if (recovering_ && now_ >= *options_.recover_until) {
    recovering_ = false;
    dispatch_all();
  }
  while (true) {
    const TimePoint lease = leases_.empty() ? TimePoint::max() : leases_.begin()->first;
    const TimePoint overdue = overdue_at_.empty() ? TimePoint::max() : overdue_at_.begin()->first.first;
    if (std::min(lease, overdue) > now_) return;
    lease < overdue ? expire(sessions_.at(leases_.begin()->second)) : become_overdue(*overdue_at_.begin()->second);
  }
}

std::optional<TimePoint> LockTable::next_deadline() const {
  TimePoint next = recovering_ ? *options_.recover_until : TimePoint::max();
  if (!leases_.empty()) next = std::min(next, leases_.begin()->first);
  if (!overdue_at_.empty()) next = std::min(next, overdue_at_.begin()->first.first);
  return next == TimePoint::max() ? std::nullopt : std::optional(next);
}

std::vector<const LockTable::Turn*> LockTable::holders() const {
  std::vector<const Turn*> holders;
  for (const auto& [id, session] : sessions_)
    if (session.state == State::kHolding && session.turn->sessions.front() == &session) holders.push_back(session.turn);
  std::sort(holders.begin(), holders.end(), [](const Turn* a, const Turn* b) {
    return std::tie(a->granted, a->sequence) < std::tie(b->granted, b->sequence);
  });
  return holders;
}

std::vector<const LockTable::Turn*> LockTable::queue() const {
  std::vector<const Turn*> queue;
  for (const auto& [number, group] : groups_)
    for (ServiceOrder order(group); Turn* turn = order.next();) queue.push_back(turn);
  return queue;
}

LockTable::SessionEntry* LockTable::find(SessionId session, Ticket ticket) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.state == State::kIdle || it->second.ticket != ticket) return nullptr;
  return &it->second;
}

bool LockTable::busy(SessionId session) const {
  const auto it = sessions_.find(session);
  return it != sessions_.end() && it->second.turn;
}

template <typename Fits>
LockTable::Turn* LockTable::find_turn(const JobId& id, Fits fits) {
  if (id.number == 0) return nullptr;
  const auto [first, last] = jobs_.equal_range(id);
  for (auto it = first; it != last; ++it)
    if (fits(*it->second)) return it->second;
  return nullptr;
}

// The turn of the same job that this request may join, or nullptr.
LockTable::Turn* LockTable::joinable(const Ask& ask) {
  return find_turn(ask.id, [&](const Turn& turn) {
    if (!ask.targets.within(turn.ask.targets)) return false;
    return !turn.holding || now_ < turn.granted + options_.lease ||
           !group(turn.placement.group).wanted.intersects(turn.ask.targets);
  });
}

void LockTable::join(SessionId id, Ticket ticket, Turn& turn) {
  SessionEntry& session = sessions_[id];
  assert(!session.turn);
  session.id = id;
  session.ticket = ticket;
  session.turn = &turn;
  session.state = State::kWaiting;
  turn.sessions.push_back(&session);
  if (turn.holding) hold(session);
}

// A turn without sessions, in no group.
LockTable::Turn& LockTable::make_turn(SessionId session, Ask ask, TimePoint arrived) {
  if (unused_.empty()) unused_.push_back(&turns_.emplace_back());
  Turn& turn = *unused_.back();
  unused_.pop_back();
  turn.history = &history_of(sessions_[session], ask);
  ++turn.history->uses;
  turn.ask = std::move(ask);
  turn.holding = turn.overdue = false;
  turn.placement = {};
  turn.arrived = arrived;
  turn.sequence = next_sequence_++;
  if (turn.ask.id.number != 0) jobs_.emplace(turn.ask.id, &turn);
  return turn;
}

void LockTable::enqueue(SessionId session, Ask ask, TimePoint arrived) {
  assert(ask.targets.size() == options_.targets && !ask.targets.empty());
  const Ticket ticket = ask.ticket;
  const bool many = ask.id.number != 0 && jobs_.count(ask.id) >= options_.max_turns_per_job;
  if (waiting_ >= options_.max_waiting || many) return refuse(session, ticket, Refusal::kFull);
  Turn& turn = make_turn(session, std::move(ask), arrived);
  join(session, ticket, turn);
  if (options_.observer) options_.observer->asked(turn, now_);
  turn.placement = discipline_->place(turn.ask.bytes, learn_period(*turn.history, now_));
  group(turn.placement.group).add(turn);
  ++waiting_;
  set_overdue_at(turn, true);
  dispatch(turn.placement.group, turn.ask.targets);
  if (!turn.holding) answer(*turn.sessions.front(), turn, AnswerKind::kQueued);
}

void LockTable::hold(SessionEntry& session) {
  session.state = State::kHolding;
  set_deadline(session, now_ + options_.lease);
}

void LockTable::grant(Turn& turn, TurnGroup& its_group) {
  assert(!its_group.held.intersects(turn.ask.targets));
  its_group.held |= turn.ask.targets;
  set_overdue_at(turn, false);
  --waiting_;
  ++holding_;
  turn.holding = true;
  turn.granted = now_;
  const Duration waited = now_ - turn.arrived;
  discipline_->granted(turn.placement);
  ++counts_.grants;
  counts_.waited += waited;
  counts_.longest_wait = std::max(counts_.longest_wait, waited);
  if (options_.observer) options_.observer->granted(turn, now_);
  for (SessionEntry* session : turn.sessions) {
    hold(*session);
    answer(*session, turn, AnswerKind::kGranted);
  }
}

// Before the targets in `freed` became free or were requested, no turn could be granted. So only turns that use one of
// them can be granted now, and the search ends when all of them are held or reserved again. A grant does not change the
// order of the others.
void LockTable::dispatch(std::uint32_t number, const TargetSet& freed) {
  if (recovering_) return;
  TurnGroup& its_group = group(number);
  TargetSet open = freed;
  open -= its_group.held;
  open &= its_group.wanted;
  if (open.empty()) return;
  TargetSet blocked = its_group.held;
  ServiceOrder order(its_group);
  while (Turn* const turn = open.empty() ? nullptr : order.next()) {
    const bool free = !turn->ask.targets.intersects(blocked);
    if (free || turn->overdue || discipline_->keeps_order()) {
      blocked |= turn->ask.targets;
      open -= turn->ask.targets;
    }
    if (!free) continue;
    turn->placement.start = order.start();
    its_group.remove(*turn);
    grant(*turn, its_group);
  }
}

void LockTable::dispatch_all() {
  for (auto& [number, unused] : groups_) dispatch(number, TargetSet::all(options_.targets));
}

void LockTable::leave(SessionEntry& session, State becomes) {
  Turn& turn = *std::exchange(session.turn, nullptr);
  session.state = becomes;
  set_deadline(session, TimePoint::max());
  std::erase(turn.sessions, &session);
  if (turn.sessions.empty()) end(turn);
}

void LockTable::end(Turn& turn) {
  if (options_.observer) options_.observer->ended(turn, now_);
  TurnGroup& its_group = group(turn.placement.group);
  if (turn.holding) {
    its_group.held -= turn.ask.targets;
    --holding_;
    learn_hold(*turn.history, turn.ask.bytes, {.held = now_ - turn.granted, .ended = now_});
  } else {
    its_group.remove(turn);
    set_overdue_at(turn, false);
    --waiting_;
    turn.history->ended = now_;  // the job goes on without a turn; its waiting is no part of its period
  }
  --turn.history->uses;
  const auto [first, last] = jobs_.equal_range(turn.ask.id);
  for (auto it = first; it != last; ++it) {
    if (it->second != &turn) continue;
    jobs_.erase(it);
    break;
  }
  // A correction changes the order, so turns that use none of its targets may be granted, too.
  const double correction = discipline_->ended(turn.placement, turn.holding ? now_ - turn.granted : Duration::zero());
  if (correction != 0) its_group.delay(turn, correction);
  dispatch(turn.placement.group, correction != 0 ? TargetSet::all(options_.targets) : turn.ask.targets);
  unused_.push_back(&turn);
}

void LockTable::set_deadline(SessionEntry& session, TimePoint deadline) {
  if (session.deadline != TimePoint::max()) leases_.erase({session.deadline, session.id});
  session.deadline = deadline;
  if (deadline != TimePoint::max()) leases_.insert(leases_.end(), {deadline, session.id});
}

void LockTable::set_overdue_at(Turn& turn, bool set) {
  const auto limit = discipline_->limit();
  if (!limit || turn.overdue) return;
  const std::pair key(turn.arrived + *limit, turn.sequence);
  set ? void(overdue_at_.emplace(key, &turn)) : void(overdue_at_.erase(key));
}

void LockTable::expire(SessionEntry& session) {
  ++counts_.expired;
  answer(session, *session.turn, AnswerKind::kLost);
  leave(session, State::kLost);
}

// Only delays other turns, so no turn can be granted now that could not be granted before.
void LockTable::become_overdue(Turn& turn) {
  TurnGroup& its_group = group(turn.placement.group);
  its_group.remove(turn);
  set_overdue_at(turn, false);
  turn.overdue = true;
  its_group.add(turn);
}

LockTable::TurnGroup& LockTable::group(std::uint32_t number) {
  assert(number < discipline_->groups());
  return groups_.try_emplace(number, options_.targets).first->second;
}

void LockTable::answer(const SessionEntry& session, const Turn& turn, AnswerKind kind) {
  answers_.push_back({.session = session.id,
                      .ticket = session.ticket,
                      .kind = kind,
                      .arrived = turn.arrived,
                      .group = turn.placement.group,
                      .refusal = Refusal::kNone});
}

void LockTable::refuse(SessionId session, Ticket ticket, Refusal refusal) {
  ++counts_.refused;
  answers_.push_back({.session = session,
                      .ticket = ticket,
                      .kind = AnswerKind::kRefused,
                      .arrived = {},
                      .group = 0,
                      .refusal = refusal});
}

}  // namespace tutti::gate

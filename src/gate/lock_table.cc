// SPDX-License-Identifier: Apache-2.0
#include "gate/lock_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>
#include <utility>

namespace tutti::gate {

using State = LockTable::Entry::State;

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

const char* explain(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "nothing is wrong";
    case Refusal::kSecondRequest:
      return "this session waits for or holds a lock already; release it first";
    case Refusal::kNotHeld:
      return "this session holds no lock with that ticket";
    case Refusal::kExpired:
      return "the lease ran out before; somebody else may hold the targets";
    case Refusal::kConflict:
      return "somebody else holds one of those targets";
    case Refusal::kFull:
      return "too many requests wait; go ahead or try again later";
    case Refusal::kTargets:
      return "the gate has no such target";
    case Refusal::kProtocol:
      return "malformed or unexpected message";
  }
  return "unknown refusal";
}

bool LockTable::Before::operator()(const Entry* a, const Entry* b) const {
  // Among those that waited past the limit only the arrival counts.
  const auto key = [](const Entry* e) {
    return std::tuple(!e->overdue, e->overdue ? 0.0 : e->place.rank, e->arrived, e->sequence);
  };
  return key(a) < key(b);
}

LockTable::LockTable(Options options, std::unique_ptr<Discipline> discipline)
    : options_(std::move(options)),
      discipline_(std::move(discipline)),
      recovering_(options_.recover_until.has_value()) {}

Result<LockTable> LockTable::create(Options options) {
  if (options.targets == 0 || options.targets > kMaxTargets)
    return fail(ErrorCode::kInvalid, "a gate has 1 to " + std::to_string(kMaxTargets) + " targets");
  if (options.lease <= Duration::zero()) return fail(ErrorCode::kInvalid, "the lease must be longer than nothing");
  auto discipline = make_discipline(options.discipline, options.discipline_options);
  if (!discipline) return Failure(discipline.error());
  return LockTable(std::move(options), std::move(*discipline));
}

void LockTable::request(SessionId session, Ask ask, TimePoint now) {
  move_to(now);
  ++counts_.requests;
  if (busy(session)) return refuse(session, ask.ticket, Refusal::kSecondRequest);
  if (waiting_ >= options_.max_waiting) return refuse(session, ask.ticket, Refusal::kFull);
  enqueue(session, std::move(ask), now_);
}

void LockTable::release(SessionId session, Ticket ticket, TimePoint now) {
  move_to(now);
  Entry* entry = find(session, ticket);
  if (!entry) return refuse(session, ticket, Refusal::kNotHeld);
  if (entry->state == State::kLost) {
    entry->state = State::kIdle;
    return refuse(session, ticket, Refusal::kExpired);
  }
  ++(entry->state == State::kHolding ? counts_.releases : counts_.withdrawn);
  leave(*entry, State::kIdle);
}

void LockTable::renew(SessionId session, Ticket ticket, TimePoint now) {
  move_to(now);
  Entry* entry = find(session, ticket);
  if (!entry) return refuse(session, ticket, Refusal::kNotHeld);
  if (entry->state == State::kLost) return refuse(session, ticket, Refusal::kExpired);
  if (entry->state == State::kHolding) {
    // A renewal that is late by the clock, though nobody has noticed yet, is late all the same.
    if (entry->deadline <= now_) return expire(*entry);
    set_deadline(*entry, now_ + options_.lease);
  }
  answer(*entry, Answer::Kind::kRenewed);
}

void LockTable::reassert_waiting(SessionId session, Ask ask, TimePoint arrived, TimePoint now) {
  move_to(now);
  if (Entry* entry = find(session, ask.ticket); entry && entry->state != State::kLost)
    return answer(*entry, entry->state == State::kHolding ? Answer::Kind::kGranted : Answer::Kind::kQueued);
  if (!recovering_) return request(session, std::move(ask), now);
  if (busy(session)) return refuse(session, ask.ticket, Refusal::kSecondRequest);
  if (waiting_ >= options_.max_waiting) return refuse(session, ask.ticket, Refusal::kFull);
  ++counts_.reasserted;
  enqueue(session, std::move(ask), std::min(arrived, now_));
}

void LockTable::reassert_holding(SessionId session, Ask ask, std::uint32_t group_number, TimePoint now) {
  move_to(now);
  if (Entry* entry = find(session, ask.ticket); entry && entry->state == State::kHolding)
    return renew(session, ask.ticket, now);
  if (busy(session)) return refuse(session, ask.ticket, Refusal::kSecondRequest);
  if (!recovering_) return refuse(session, ask.ticket, Refusal::kExpired);
  Group& its_group = group(group_number);
  if (its_group.held.intersects(ask.targets)) return refuse(session, ask.ticket, Refusal::kConflict);
  ++counts_.reasserted;
  Entry& entry = entry_for(session, std::move(ask), now_);
  entry.place.group = group_number;
  hold(entry);
  its_group.held |= entry.ask.targets;
  answer(entry, Answer::Kind::kRenewed);
}

void LockTable::disconnect(SessionId session, TimePoint now) {
  move_to(now);
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  if (busy(it->second)) {
    ++counts_.disconnected;
    leave(it->second, State::kLost);
  }
  if (it->second.history) --it->second.history->sessions;
  sessions_.erase(it);
}

void LockTable::advance(TimePoint now) {
  move_to(now);
  if (recovering_ && now_ >= *options_.recover_until) {
    recovering_ = false;
    dispatch_all();
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    Entry& entry = sessions_.at(deadlines_.begin()->second);
    entry.state == State::kHolding ? expire(entry) : become_overdue(entry);
  }
}

std::optional<TimePoint> LockTable::next_deadline() const {
  std::optional<TimePoint> next;
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  if (recovering_) next = std::min(next.value_or(TimePoint::max()), *options_.recover_until);
  return next;
}

std::vector<const LockTable::Entry*> LockTable::holders() const {
  std::vector<const Entry*> holders;
  for (const auto& [session, entry] : sessions_)
    if (entry.state == State::kHolding) holders.push_back(&entry);
  std::sort(holders.begin(), holders.end(), [](const Entry* a, const Entry* b) {
    return std::tie(a->granted, a->sequence) < std::tie(b->granted, b->sequence);
  });
  return holders;
}

std::vector<const LockTable::Entry*> LockTable::queue() const {
  std::vector<const Entry*> queue;
  for (const auto& [number, group] : groups_) queue.insert(queue.end(), group.waiting.begin(), group.waiting.end());
  return queue;
}

LockTable::Entry* LockTable::find(SessionId session, Ticket ticket) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.state == State::kIdle || it->second.ask.ticket != ticket) return nullptr;
  return &it->second;
}

bool LockTable::busy(const Entry& entry) {
  return entry.state == State::kWaiting || entry.state == State::kHolding;
}

bool LockTable::busy(SessionId session) const {
  const auto it = sessions_.find(session);
  return it != sessions_.end() && busy(it->second);
}

// The session's entry, made ready for a new request. It keeps its memory from one request to the next.
LockTable::Entry& LockTable::entry_for(SessionId session, Ask ask, TimePoint arrived) {
  Entry& entry = sessions_[session];
  entry.session = session;
  if (!entry.history || *entry.history->job != ask.job) {
    if (entry.history) --entry.history->sessions;
    entry.history = &history_of(ask.job);
    ++entry.history->sessions;
  }
  entry.ask = std::move(ask);
  entry.place = {};
  entry.overdue = false;
  entry.arrived = arrived;
  entry.sequence = next_sequence_++;
  return entry;
}

void LockTable::enqueue(SessionId session, Ask ask, TimePoint arrived) {
  assert(ask.targets.size() == options_.targets && !ask.targets.empty());
  Entry& entry = entry_for(session, std::move(ask), arrived);
  entry.state = State::kWaiting;
  entry.place = discipline_->place(entry.ask.bytes, learn_period(*entry.history));
  group(entry.place.group).add(entry);
  ++waiting_;
  if (const auto limit = discipline_->limit()) set_deadline(entry, arrived + *limit);
  dispatch(entry.place.group, entry.ask.targets);
  if (entry.state == State::kWaiting) answer(entry, Answer::Kind::kQueued);
}

void LockTable::hold(Entry& entry) {
  entry.state = State::kHolding;
  entry.granted = now_;
  ++holding_;
  set_deadline(entry, now_ + options_.lease);
}

void LockTable::grant(Entry& entry, Group& its_group) {
  assert(!its_group.held.intersects(entry.ask.targets));
  its_group.held |= entry.ask.targets;
  --waiting_;
  hold(entry);
  const Duration waited = now_ - entry.arrived;
  discipline_->granted(entry.place);
  ++counts_.grants;
  counts_.waited += waited;
  counts_.longest_wait = std::max(counts_.longest_wait, waited);
  answer(entry, Answer::Kind::kGranted);
}

// Before `freed` became free, or was asked for, nobody could go. So only a request that touches it can go now, and
// the search ends when all of it is held or reserved again.
void LockTable::dispatch(std::uint32_t number, const TargetSet& freed) {
  if (recovering_) return;
  Group& its_group = group(number);
  TargetSet open = freed;
  open -= its_group.held;
  open &= its_group.wanted;
  TargetSet blocked = its_group.held;
  for (auto it = its_group.waiting.begin(); it != its_group.waiting.end() && !open.empty();) {
    Entry& entry = **it;
    const bool goes = !entry.ask.targets.intersects(blocked);
    if (goes || entry.overdue || discipline_->keeps_order()) {
      blocked |= entry.ask.targets;
      open -= entry.ask.targets;
    }
    it = goes ? its_group.remove(it) : std::next(it);
    if (goes) grant(entry, its_group);
  }
}

void LockTable::dispatch_all() {
  for (auto& [number, unused] : groups_) dispatch(number, TargetSet::all(options_.targets));
}

void LockTable::leave(Entry& entry, State becomes) {
  Group& its_group = group(entry.place.group);
  if (entry.state == State::kHolding) {
    its_group.held -= entry.ask.targets;
    --holding_;
    learn_hold(entry);
  } else {
    its_group.remove(its_group.waiting.find(&entry));
    --waiting_;
  }
  entry.state = becomes;
  set_deadline(entry, TimePoint::max());
  dispatch(entry.place.group, entry.ask.targets);
}

void LockTable::set_deadline(Entry& entry, TimePoint deadline) {
  if (entry.deadline != TimePoint::max()) deadlines_.erase({entry.deadline, entry.session});
  entry.deadline = deadline;
  if (deadline != TimePoint::max()) deadlines_.insert(deadlines_.end(), {deadline, entry.session});
}

void LockTable::expire(Entry& entry) {
  ++counts_.expired;
  answer(entry, Answer::Kind::kLost);
  leave(entry, State::kLost);
}

// Only takes places away from others: nobody can go who could not before.
void LockTable::become_overdue(Entry& entry) {
  Group& its_group = group(entry.place.group);
  its_group.waiting.erase(&entry);
  entry.overdue = true;
  its_group.waiting.insert(&entry);
  set_deadline(entry, TimePoint::max());
}

LockTable::Group& LockTable::group(std::uint32_t number) {
  return groups_.try_emplace(number, options_.targets).first->second;
}

void LockTable::Group::add(Entry& entry) {
  waiting.insert(waiting.end(), &entry);  // last, most often
  wanted |= entry.ask.targets;
  entry.ask.targets.for_each([&](TargetId target) { ++waiting_for[target]; });
}

std::set<LockTable::Entry*, LockTable::Before>::iterator LockTable::Group::remove(
    std::set<Entry*, Before>::iterator at) {
  (*at)->ask.targets.for_each([&](TargetId target) {
    if (--waiting_for[target] == 0) wanted.erase(target);
  });
  return waiting.erase(at);
}

void LockTable::answer(const Entry& entry, Answer::Kind kind) {
  answers_.push_back({.session = entry.session,
                      .ticket = entry.ask.ticket,
                      .kind = kind,
                      .arrived = entry.arrived,
                      .group = entry.place.group,
                      .refusal = Refusal::kNone});
}

void LockTable::refuse(SessionId session, Ticket ticket, Refusal refusal) {
  ++counts_.refused;
  answers_.push_back({.session = session,
                      .ticket = ticket,
                      .kind = Answer::Kind::kRefused,
                      .arrived = {},
                      .group = 0,
                      .refusal = refusal});
}

// The job begins another phase.
History LockTable::learn_period(JobHistory& past) {
  past.used = true;
  if (past.hold) {
    constexpr std::uint32_t kRemembered = 8;  // phases that weigh in the mean
    const Duration sample = (now_ - past.ended) + *past.hold;
    past.periods = std::min(past.periods + 1, kRemembered);
    const Duration mean = past.period.value_or(Duration::zero());
    past.period = mean + (sample - mean) / past.periods;
    constexpr double kFading = 0.9;
    period_logarithms_ = period_logarithms_ * kFading + std::log10(std::max(seconds(sample), 1e-9));
    periods_ = periods_ * kFading + 1;
  }
  return {.period = past.period,
          .hold = past.hold,
          .bytes_per_second = rate_bytes_ > 0 ? rate_bytes_ / std::max(rate_seconds_, 1e-9) : 1e9,
          .typical_magnitude = periods_ > 0 ? std::optional(period_logarithms_ / periods_) : std::nullopt};
}

void LockTable::learn_hold(const Entry& entry) {
  JobHistory& past = *entry.history;
  past.hold = now_ - entry.granted;
  past.ended = now_;
  if (entry.ask.bytes.count() == 0) return;
  constexpr double kFading = 0.9;
  rate_bytes_ = rate_bytes_ * kFading + static_cast<double>(entry.ask.bytes.count());
  rate_seconds_ = rate_seconds_ * kFading + seconds(*past.hold);
}

LockTable::JobHistory& LockTable::history_of(const std::string& job) {
  if (const auto it = histories_.find(job); it != histories_.end()) return it->second;
  if (histories_.size() >= options_.max_jobs) evict_one();
  const auto added = histories_.try_emplace(job).first;
  added->second.job = &added->first;
  round_.push_back(&added->second);
  return added->second;
}

// Passes by those in use, and once by those used since the last time. Gives up after a few: the next job goes on.
void LockTable::evict_one() {
  for (int tries = 8; tries > 0; --tries) {
    JobHistory* const past = round_.front();
    round_.pop_front();
    if (past->sessions == 0 && !std::exchange(past->used, false)) {
      histories_.erase(std::string(*past->job));
      return;
    }
    round_.push_back(past);
  }
}

}  // namespace tutti::gate

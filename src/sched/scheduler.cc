// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cassert>
#include <deque>

#include "base/clock.h"
#include "base/mutex.h"
#include "sched/event_count.h"
#include "sched/inbox.h"
#include "sched/policy.h"
#include "sched/prediction/trace.h"
#include "sched/statistics.h"

namespace tutti {
namespace {

// A longer wait is made of several, so that no time overflows.
constexpr Duration kLongestWait = std::chrono::hours(1);

// The path of a request: add() puts it into the inbox; next() moves the inbox into the policy, asks the policy and
// hands out batches; complete() ends them. Producers touch the inbox only, dispatchers share everything else.
class LiveScheduler final : public Scheduler {
 public:
  LiveScheduler(Options options, std::unique_ptr<Policy> policy)
      : options_(std::move(options)),
        clock_(options_.clock ? *options_.clock : real_clock()),
        inbox_(Load{options_.max_requests, options_.max_bytes}),
        policy_(std::move(policy)) {}

  Result<void> add(const Request& request) override;
  void name_file(FileId file, std::string_view path) override;
  bool cancel(RequestId id) override;
  bool next(Dispatched& batch) override { return next(std::span(&batch, 1)) == 1; }
  std::size_t next(std::span<Dispatched> batches) override { return next(batches, Duration::max()); }
  std::size_t next(std::span<Dispatched> batches, Duration timeout) override;
  std::size_t try_next(std::span<Dispatched> batches) override;
  std::size_t try_next(std::span<Dispatched> batches, TimePoint& again) override;
  void set_aside(const Dispatched& batch) override;
  void complete(const Dispatched& batch) override { complete(std::span(&batch, 1)); }
  void complete(std::span<const Dispatched> batches) override;
  Result<void> switch_policy(const std::string& name, const PolicyOptions& options) override;
  void stop(Stop how) override;
  Statistics statistics() override;
  State state() override;

 private:
  // A batch that was handed out and not yet completed. Reused, so that its vectors keep their memory.
  struct BatchInFlight {
    std::vector<Request> requests;
    TimePoint dispatched;
    bool used = false;
    bool aside = false;  // does not count
  };

  // Wakes another dispatcher: there is more to dispatch than this one took.
  void offer_work();

  void collect() TUTTI_REQUIRES(mutex_);
  State state_now() const TUTTI_REQUIRES(mutex_);
  // Hands out what may be dispatched now; `pause` says what to wait for if that is less than asked for.
  std::size_t fill(std::span<Dispatched> batches, Decision& pause) TUTTI_REQUIRES(mutex_);
  bool may_dispatch() const TUTTI_REQUIRES(mutex_) {
    return options_.max_in_flight == 0 || in_flight_ < options_.max_in_flight;
  }
  bool nothing_left() const TUTTI_REQUIRES(mutex_) { return policy_->waiting() == 0 && dropped_.empty(); }
  void dispatch(const Batch& batch, TimePoint now, Dispatched& out) TUTTI_REQUIRES(mutex_);
  void dispatch_dropped(Dispatched& out) TUTTI_REQUIRES(mutex_);
  BatchInFlight& hand_out(std::span<const Request> requests, TimePoint now, Dispatched& out) TUTTI_REQUIRES(mutex_);
  void finish(const Dispatched& batch, TimePoint now) TUTTI_REQUIRES(mutex_);

  Options options_;
  Clock& clock_;
  Inbox inbox_;
  EventCount arrivals_;     // for dispatchers that wait for requests
  EventCount completions_;  // for dispatchers that wait because max_in_flight is reached

  Mutex mutex_;  // taken before the inbox's own
  // Patterns of files, for the next policy. Files that were opened before a policy with prediction was in use have
  // none.
  boost::unordered_flat_map<FileId, std::string> names_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<Policy> policy_ TUTTI_GUARDED_BY(mutex_);
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;
  std::vector<WaitingRequest> collected_ TUTTI_GUARDED_BY(mutex_);  // what collect() works on; empty otherwise
  std::deque<WaitingRequest> dropped_ TUTTI_GUARDED_BY(mutex_);  // after stop(kDrop): what next() has yet to hand out
  std::deque<BatchInFlight> batches_ TUTTI_GUARDED_BY(mutex_);   // by ticket
  std::vector<std::uint32_t> free_tickets_ TUTTI_GUARDED_BY(mutex_);
  Load dispatched_ TUTTI_GUARDED_BY(mutex_);                  // what fill() has not reported to the inbox yet
  std::vector<RequestId> finished_ TUTTI_GUARDED_BY(mutex_);  // what complete() works on
  std::size_t in_flight_ TUTTI_GUARDED_BY(mutex_) = 0;
  bool holding_ TUTTI_GUARDED_BY(mutex_) = false;  // the policy delays, since hold_start_
  TimePoint hold_start_ TUTTI_GUARDED_BY(mutex_){}, hold_end_ TUTTI_GUARDED_BY(mutex_){};  // its last wait
  SchedulerStatistics statistics_ TUTTI_GUARDED_BY(mutex_);
};

Result<void> LiveScheduler::add(const Request& request) {
  if (request.length == Bytes())
    return fail(ErrorCode::kInvalid, fmt::format("request {}: length 0; at least 1", request.id));
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;
  if (request.offset > kEnd || request.length > Bytes(kEnd - request.offset))
    return fail(ErrorCode::kInvalid, fmt::format("request {}: offset {} and length {} reach past 2^63", request.id,
                                                 request.offset, request.length.count()));
  bool crowded = false;
  auto added = inbox_.add(request, clock_.now(), crowded);
  if (!added) return added;
  arrivals_.notify_one();
  if (crowded) {  // no dispatcher is active: do its work, so that the inbox stays small
    Lock lock(mutex_, kSpinFirst);
    collect();
  }
  return added;
}

void LiveScheduler::collect() {
  inbox_.collect(collected_);
  if (options_.observer && !collected_.empty()) options_.observer->arrived(collected_);
  for (const WaitingRequest& waiting : collected_) {
    const bool added = policy_->add(waiting.request, waiting.arrived);
    assert(added && "the inbox lets every id in once");
    statistics_.added(waiting.request);
  }
  collected_.clear();
}

bool LiveScheduler::cancel(RequestId id) {
  Lock lock(mutex_, kSpinFirst);
  collect();
  const auto request = policy_->cancel(id);
  if (!request) return false;
  inbox_.left({1, request->length});
  inbox_.forget(std::span(&id, 1));
  statistics_.cancelled(*request);
  if (options_.observer) options_.observer->ended(std::span(&*request, 1), clock_.now(), false);
  if (stopped_) arrivals_.notify_all();  // it may have been the last one
  return true;
}

std::size_t LiveScheduler::next(std::span<Dispatched> batches, Duration timeout) {
  constexpr auto kNever = TimePoint::max();
  const TimePoint start = timeout == Duration::max() ? TimePoint{} : clock_.steady();
  const TimePoint deadline = timeout < kNever - start ? start + timeout : kNever;  // on the steady clock
  for (bool watched = false;; watched = !watched) {
    const EventCount::Ticket arrived = arrivals_.ticket(), landed = completions_.ticket();
    Lock lock(mutex_, kSpinFirst);
    Decision pause = Idle{};
    const std::size_t count = fill(batches, pause);
    const bool done = stopped_ && nothing_left();
    const bool full = !may_dispatch();
    const bool more = count > 0 && !full && !nothing_left();
    lock.unlock();
    if (more) offer_work();
    if (done && count == 0) arrivals_.notify_all(), completions_.notify_all();  // the other dispatchers are done, too
    if (count > 0 || done || batches.empty()) return count;
    const Duration left = deadline == kNever ? Duration::max() : deadline - clock_.steady();
    if (left <= Duration::zero()) return 0;
    const TimePoint end = deadline == kNever ? kNever : clock_.now() + std::min<Duration>(left, kLongestWait);
    const auto* wait = std::get_if<WaitUntil>(&pause);
    if (full)
      completions_.wait(landed, clock_, end);
    else if (wait || watched || !arrivals_.spin(arrived))
      arrivals_.wait(arrived, clock_, wait ? std::min(wait->at, end) : end);
  }
}

void LiveScheduler::offer_work() {
  if (arrivals_.has_sleepers()) arrivals_.notify_one();
  if (completions_.has_sleepers()) completions_.notify_one();
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches) {
  TimePoint again;
  return try_next(batches, again);
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches, TimePoint& again) {
  Lock lock(mutex_, kSpinFirst);
  Decision pause = Idle{};
  const std::size_t count = fill(batches, pause);
  const auto* wait = std::get_if<WaitUntil>(&pause);
  again = wait ? wait->at : TimePoint::max();
  return count;
}

std::size_t LiveScheduler::fill(std::span<Dispatched> batches, Decision& pause) {
  collect();
  const TimePoint now = clock_.now();
  std::size_t count = 0;
  while (count < batches.size() && !dropped_.empty()) dispatch_dropped(batches[count++]);
  while (count < batches.size() && may_dispatch()) {
    pause = policy_->next(now);
    const auto* go = std::get_if<Dispatch>(&pause);
    if (!go) break;
    dispatch(go->batch, now, batches[count++]);
    pause = Idle{};
  }
  inbox_.left(dispatched_);
  dispatched_ = {};
  if (count > 0 && std::exchange(holding_, false)) hold_end_ = now;
  if (std::holds_alternative<WaitUntil>(pause) && !std::exchange(holding_, true)) hold_start_ = now;
  return count;
}

void LiveScheduler::dispatch(const Batch& batch, TimePoint now, Dispatched& out) {
  BatchInFlight& in_flight = hand_out(batch.requests, now, out);
  TimePoint oldest = now;
  for (std::size_t i = 0; i < in_flight.requests.size(); ++i) {
    ++dispatched_.requests;
    dispatched_.bytes += in_flight.requests[i].length;
    oldest = std::min(oldest, batch.arrived[i]);
  }
  out.arrived = oldest;
  const Duration held = (holding_ ? now : std::min(hold_end_, now)) - std::max(hold_start_, oldest);
  out.held = std::max(held, Duration::zero());
  statistics_.dispatched(in_flight.requests, batch.arrived, now);
}

void LiveScheduler::dispatch_dropped(Dispatched& out) {
  const WaitingRequest waiting = dropped_.front();
  dropped_.pop_front();
  hand_out(std::span(&waiting.request, 1), clock_.now(), out);
  out.arrived = waiting.arrived;
  out.dropped = true;
  statistics_.dropped(waiting.request);
}

LiveScheduler::BatchInFlight& LiveScheduler::hand_out(std::span<const Request> requests, TimePoint now,
                                                      Dispatched& out) {
  if (free_tickets_.empty()) {
    free_tickets_.push_back(static_cast<std::uint32_t>(batches_.size()));
    batches_.emplace_back();
  }
  out = Dispatched{};
  out.ticket = free_tickets_.back();
  free_tickets_.pop_back();
  BatchInFlight& in_flight = batches_[out.ticket];
  in_flight.requests.assign(requests.begin(), requests.end());
  in_flight.dispatched = out.dispatched = now;
  in_flight.used = true;
  in_flight.aside = false;
  out.requests = in_flight.requests;
  ++in_flight_;
  return in_flight;
}

void LiveScheduler::set_aside(const Dispatched& batch) {
  Lock lock(mutex_, kSpinFirst);
  assert(batches_[batch.ticket].used && !batches_[batch.ticket].aside);
  const bool was_full = !may_dispatch();
  batches_[batch.ticket].aside = true;
  --in_flight_;
  lock.unlock();
  if (was_full) completions_.notify_one();
}

void LiveScheduler::complete(std::span<const Dispatched> batches) {
  const TimePoint now = clock_.now();
  Lock lock(mutex_, kSpinFirst);
  const bool was_full = !may_dispatch();
  for (const Dispatched& batch : batches) finish(batch, now);
  inbox_.forget(finished_);
  finished_.clear();
  lock.unlock();
  if (was_full) completions_.notify_one();
}

void LiveScheduler::finish(const Dispatched& batch, TimePoint now) {
  assert(batch.ticket < batches_.size() && batches_[batch.ticket].used && "every batch is completed once");
  BatchInFlight& in_flight = batches_[batch.ticket];
  for (const Request& request : in_flight.requests) finished_.push_back(request.id);
  if (!batch.dropped) policy_->completed(Batch{in_flight.requests}, in_flight.dispatched, now);
  statistics_.completed(in_flight.requests);
  if (options_.observer) options_.observer->ended(in_flight.requests, now, !batch.dropped);
  in_flight.used = false;
  free_tickets_.push_back(batch.ticket);
  if (!in_flight.aside) --in_flight_;
}

void LiveScheduler::name_file(FileId file, std::string_view path) {
  constexpr std::size_t kMostNames = 1 << 16, kLongestName = 256;  // clients choose how many
  if (options_.observer) options_.observer->named(file, path);
  std::string pattern = name_pattern(path);
  if (pattern.size() > kLongestName) return;  // it is recognised by its id
  Lock lock(mutex_, kSpinFirst);
  if (!policy_->name_file(file, pattern)) return;
  if (names_.size() >= kMostNames) names_.clear();  // the next policy recognises these by their ids
  names_[file] = std::move(pattern);
}

Result<void> LiveScheduler::switch_policy(const std::string& name, const PolicyOptions& options) {
  auto made = make_policy(name, options, options_.device_class, options_.predictions);
  if (!made) return Failure(made.error());
  Lock lock(mutex_, kSpinFirst);
  collect();
  if (options_.limits) (*made)->use(options_.limits);
  for (const auto& [file, pattern] : names_) (*made)->name_file(file, pattern);
  for (const WaitingRequest& waiting : policy_->take_all()) {
    const bool added = (*made)->add(waiting.request, waiting.arrived);
    assert(added && "ids that wait are unique");
  }
  policy_ = std::move(*made);
  options_.policy = name;
  options_.policy_options = options;
  lock.unlock();
  arrivals_.notify_all();
  return {};
}

void LiveScheduler::stop(Stop how) {
  Lock lock(mutex_, kSpinFirst);  // after kStopped was returned, nothing more is dispatched
  inbox_.close();
  collect();
  stopped_ = true;
  if (how == Stop::kDrop) {
    for (const WaitingRequest& waiting : policy_->take_all()) {
      inbox_.left({1, waiting.request.length});
      dropped_.push_back(waiting);
    }
  }
  lock.unlock();
  arrivals_.notify_all();
  completions_.notify_all();
}

Scheduler::Statistics LiveScheduler::statistics() {
  Lock lock(mutex_, kSpinFirst);
  collect();
  Statistics statistics = statistics_.report();
  static_cast<State&>(statistics) = state_now();
  return statistics;
}

Scheduler::State LiveScheduler::state() {
  Lock lock(mutex_, kSpinFirst);
  collect();
  return state_now();
}

Scheduler::State LiveScheduler::state_now() const {
  const Load waiting = inbox_.waiting();
  return {.policy = options_.policy,
          .waiting = waiting.requests + dropped_.size(),
          .waiting_bytes = waiting.bytes,
          .in_flight = in_flight_};
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::create(Options options) {
  auto policy = make_policy(options.policy, options.policy_options, options.device_class, options.predictions);
  if (!policy) return Failure(policy.error());
  if (options.limits) (*policy)->use(options.limits);
  return std::make_unique<LiveScheduler>(std::move(options), std::move(*policy));
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "sched/doorbell.h"
#include "sched/inbox.h"
#include "sched/policy.h"
#include "sched/statistics.h"

namespace tutti {
namespace {

// A request's way: add() leaves it in the inbox; next() collects the inbox into the policy, asks the policy, and hands
// out flights; complete() lands them. Producers touch the inbox only, dispatchers share everything else.
class LiveScheduler final : public Scheduler {
 public:
  LiveScheduler(Options options, std::unique_ptr<Policy> policy)
      : options_(std::move(options)),
        clock_(options_.clock ? *options_.clock : real_clock()),
        inbox_(Load{options_.max_requests, options_.max_bytes}),
        policy_(std::move(policy)) {}

  Result<void> add(const Request& request) override;
  bool cancel(RequestId id) override;
  bool next(Dispatched& batch) override { return next(std::span(&batch, 1)) == 1; }
  std::size_t next(std::span<Dispatched> batches) override;
  std::size_t try_next(std::span<Dispatched> batches) override;
  std::size_t try_next(std::span<Dispatched> batches, TimePoint& again) override;
  void complete(const Dispatched& batch) override { complete(std::span(&batch, 1)); }
  void complete(std::span<const Dispatched> batches) override;
  Result<void> switch_policy(const std::string& name, const PolicyOptions& options) override;
  void stop(Stop how) override;
  Statistics statistics() override;

 private:
  // A batch that was handed out and not yet completed. Reused, so that its vectors keep their memory.
  struct Flight {
    std::vector<Request> requests;
    TimePoint dispatched;
    bool used = false;
  };

  // There is more to dispatch than one dispatcher took.
  void offer_work();

  // Those below are called with mutex_ held.
  void collect();
  // Hands out what may go now; `pause` says what to wait for when that is less than asked for.
  std::size_t fill(std::span<Dispatched> batches, Decision& pause);
  bool may_dispatch() const { return options_.max_in_flight == 0 || in_flight_ < options_.max_in_flight; }
  bool nothing_left() const { return policy_->waiting() == 0 && dropped_.empty(); }
  void launch(const Batch& batch, TimePoint now, Dispatched& out);
  void launch_dropped(Dispatched& out);
  Flight& take_off(std::span<const Request> requests, TimePoint now, Dispatched& out);
  void land(const Dispatched& batch, TimePoint now);

  Options options_;
  Clock& clock_;
  Inbox inbox_;
  Doorbell arrivals_;  // rings for whoever waits for requests
  Doorbell landings_;  // rings for whoever waits for a place in flight

  std::mutex mutex_;  // guards everything below; taken before the inbox's own
  std::unique_ptr<Policy> policy_;
  bool stopped_ = false;
  std::vector<Waiting> collected_;  // what collect() works on; empty otherwise
  std::deque<Waiting> dropped_;     // after stop(kDrop): what next() has yet to hand out
  std::deque<Flight> flights_;      // by ticket
  std::vector<std::uint32_t> free_tickets_;
  Load launched_;                  // what fill() has yet to tell the inbox
  std::vector<RequestId> landed_;  // what complete() works on
  std::size_t in_flight_ = 0;
  bool holding_ = false;                 // the policy waits on purpose, since hold_start_
  TimePoint hold_start_{}, hold_end_{};  // its last wait
  SchedulerStatistics statistics_;
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
  arrivals_.ring();
  if (crowded) {  // nobody dispatches right now: what waits belongs to the policy, not into the inbox
    const auto lock = lock_soon(mutex_);
    collect();
  }
  return added;
}

void LiveScheduler::collect() {
  inbox_.collect(collected_);
  for (const Waiting& waiting : collected_) {
    const bool added = policy_->add(waiting.request, waiting.arrived);
    assert(added && "the inbox lets every id in once");
    statistics_.added(waiting.request);
  }
  collected_.clear();
}

bool LiveScheduler::cancel(RequestId id) {
  const auto lock = lock_soon(mutex_);
  collect();
  const auto request = policy_->cancel(id);
  if (!request) return false;
  inbox_.left({1, request->length});
  inbox_.forget(std::span(&id, 1));
  statistics_.cancelled(*request);
  if (stopped_) arrivals_.ring_all();  // it may have been the last one
  return true;
}

std::size_t LiveScheduler::next(std::span<Dispatched> batches) {
  for (bool watched = false;; watched = !watched) {
    const Doorbell::News arrived = arrivals_.news(), landed = landings_.news();
    auto lock = lock_soon(mutex_);
    Decision pause = Idle{};
    const std::size_t count = fill(batches, pause);
    const bool done = stopped_ && nothing_left();
    const bool full = !may_dispatch();
    const bool more = count > 0 && !full && !nothing_left();
    lock.unlock();
    if (more) offer_work();
    if (done && count == 0) arrivals_.ring_all(), landings_.ring_all();  // the other dispatchers are done too
    if (count > 0 || done || batches.empty()) return count;
    const auto* wait = std::get_if<WaitUntil>(&pause);
    if (full)
      landings_.wait(landed, clock_, TimePoint::max());
    else if (wait || watched || !arrivals_.watch(arrived))
      arrivals_.wait(arrived, clock_, wait ? wait->at : TimePoint::max());
  }
}

void LiveScheduler::offer_work() {
  if (arrivals_.somebody_sleeps()) arrivals_.ring();
  if (landings_.somebody_sleeps()) landings_.ring();
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches) {
  TimePoint again;
  return try_next(batches, again);
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches, TimePoint& again) {
  const auto lock = lock_soon(mutex_);
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
  while (count < batches.size() && !dropped_.empty()) launch_dropped(batches[count++]);
  while (count < batches.size() && may_dispatch()) {
    pause = policy_->next(now);
    const auto* go = std::get_if<Dispatch>(&pause);
    if (!go) break;
    launch(go->batch, now, batches[count++]);
    pause = Idle{};
  }
  inbox_.left(launched_);
  launched_ = {};
  if (count > 0 && std::exchange(holding_, false)) hold_end_ = now;
  if (std::holds_alternative<WaitUntil>(pause) && !std::exchange(holding_, true)) hold_start_ = now;
  return count;
}

void LiveScheduler::launch(const Batch& batch, TimePoint now, Dispatched& out) {
  Flight& flight = take_off(batch.requests, now, out);
  TimePoint oldest = now;
  for (std::size_t i = 0; i < flight.requests.size(); ++i) {
    ++launched_.requests;
    launched_.bytes += flight.requests[i].length;
    oldest = std::min(oldest, batch.arrived[i]);
  }
  out.arrived = oldest;
  const Duration held = (holding_ ? now : std::min(hold_end_, now)) - std::max(hold_start_, oldest);
  out.held = std::max(held, Duration::zero());
  statistics_.dispatched(flight.requests, batch.arrived, now);
}

void LiveScheduler::launch_dropped(Dispatched& out) {
  const Waiting waiting = dropped_.front();
  dropped_.pop_front();
  take_off(std::span(&waiting.request, 1), clock_.now(), out);
  out.arrived = waiting.arrived;
  out.dropped = true;
  statistics_.dropped(waiting.request);
}

LiveScheduler::Flight& LiveScheduler::take_off(std::span<const Request> requests, TimePoint now, Dispatched& out) {
  if (free_tickets_.empty()) {
    free_tickets_.push_back(static_cast<std::uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  out = Dispatched{};
  out.ticket = free_tickets_.back();
  free_tickets_.pop_back();
  Flight& flight = flights_[out.ticket];
  flight.requests.assign(requests.begin(), requests.end());
  flight.dispatched = out.dispatched = now;
  flight.used = true;
  out.requests = flight.requests;
  ++in_flight_;
  return flight;
}

void LiveScheduler::complete(std::span<const Dispatched> batches) {
  const TimePoint now = clock_.now();
  auto lock = lock_soon(mutex_);
  const bool was_full = !may_dispatch();
  for (const Dispatched& batch : batches) land(batch, now);
  inbox_.forget(landed_);
  landed_.clear();
  lock.unlock();
  if (was_full) landings_.ring();
}

void LiveScheduler::land(const Dispatched& batch, TimePoint now) {
  assert(batch.ticket < flights_.size() && flights_[batch.ticket].used && "every batch is completed once");
  Flight& flight = flights_[batch.ticket];
  for (const Request& request : flight.requests) landed_.push_back(request.id);
  if (!batch.dropped) policy_->completed(Batch{flight.requests}, flight.dispatched, now);
  statistics_.completed(flight.requests);
  flight.used = false;
  free_tickets_.push_back(batch.ticket);
  --in_flight_;
}

Result<void> LiveScheduler::switch_policy(const std::string& name, const PolicyOptions& options) {
  auto made = make_policy(name, options);
  if (!made) return Failure(made.error());
  auto lock = lock_soon(mutex_);
  collect();
  for (const Waiting& waiting : policy_->take_all()) {
    const bool added = (*made)->add(waiting.request, waiting.arrived);
    assert(added && "ids that wait are unique");
  }
  policy_ = std::move(*made);
  options_.policy = name;
  options_.policy_options = options;
  lock.unlock();
  arrivals_.ring_all();
  return {};
}

void LiveScheduler::stop(Stop how) {
  auto lock = lock_soon(mutex_);  // who is told that we are stopping may rely on it: nothing is dispatched in between
  inbox_.close();
  collect();
  stopped_ = true;
  if (how == Stop::kDrop) {
    for (const Waiting& waiting : policy_->take_all()) {
      inbox_.left({1, waiting.request.length});
      dropped_.push_back(waiting);
    }
  }
  lock.unlock();
  arrivals_.ring_all();
  landings_.ring_all();
}

Scheduler::Statistics LiveScheduler::statistics() {
  const auto lock = lock_soon(mutex_);
  collect();
  Statistics statistics = statistics_.report();
  statistics.policy = options_.policy;
  const Load waiting = inbox_.waiting();
  statistics.waiting = waiting.requests + dropped_.size();
  statistics.waiting_bytes = waiting.bytes;
  statistics.in_flight = in_flight_;
  return statistics;
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::create(Options options) {
  auto policy = make_policy(options.policy, options.policy_options);
  if (!policy) return Failure(policy.error());
  return std::make_unique<LiveScheduler>(std::move(options), std::move(*policy));
}

}  // namespace tutti

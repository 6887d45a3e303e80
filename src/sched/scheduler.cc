// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "sched/policy.h"
#include "sched/statistics.h"

namespace tutti {
namespace {

// Critical sections take well under a microsecond: trying a few times beats going to sleep over one.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex) {
  for (int i = 0; i < 200; ++i) {
    if (mutex.try_lock()) return {mutex, std::adopt_lock};
    __builtin_ia32_pause();
  }
  return std::unique_lock(mutex);
}

class LiveScheduler final : public Scheduler {
 public:
  LiveScheduler(Options options, std::unique_ptr<Policy> policy)
      : options_(std::move(options)),
        clock_(options_.clock ? *options_.clock : real_clock()),
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
  Statistics statistics() const override;

 private:
  // A batch that was handed out and not yet completed. Reused, so that its vectors keep their memory.
  struct Flight {
    std::vector<Request> requests;
    TimePoint dispatched;
    bool used = false;
  };

  Result<void> admit(const Request& request, TimePoint now);
  // Hands out what may go now; `pause` says what to wait for when that is less than asked for.
  std::size_t fill(std::span<Dispatched> batches, Decision& pause);
  bool may_dispatch() const { return options_.max_in_flight == 0 || in_flight_ < options_.max_in_flight; }
  void launch(const Batch& batch, TimePoint now, Dispatched& out);
  void launch_dropped(Dispatched& out);
  Flight& take_off(std::span<const Request> requests, TimePoint now, Dispatched& out);
  void look_out(std::unique_lock<std::mutex>& lock);
  void sleep(std::unique_lock<std::mutex>& lock, const Decision& pause);
  bool somebody_sleeps() const { return sleepers_ > wakeups_; }
  void wake_one(std::unique_lock<std::mutex>& lock);

  static constexpr std::size_t kMostPerTurn = 16;

  Options options_;
  Clock& clock_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable wakeup_;
  std::atomic<std::uint64_t> arrivals_{0};  // written under the mutex, watched without
  int patience_ = 0;                        // how long look_out() does, in spins
  int skipped_ = 0;
  int sleepers_ = 0;  // threads inside sleep()
  int wakeups_ = 0;   // notifications on their way to them
  std::unique_ptr<Policy> policy_;
  Bytes waiting_bytes_;
  bool stopped_ = false;
  std::deque<Waiting> dropped_;  // after stop(kDrop): what next() has yet to hand out
  std::deque<Flight> flights_;   // by ticket
  std::vector<std::uint32_t> free_tickets_;
  std::size_t in_flight_ = 0;
  boost::unordered_flat_set<RequestId> ids_in_flight_;
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
  const TimePoint now = clock_.now();
  auto lock = lock_soon(mutex_);
  auto admitted = admit(request, now);
  if (admitted && somebody_sleeps() && may_dispatch()) wake_one(lock);
  return admitted;
}

Result<void> LiveScheduler::admit(const Request& request, TimePoint now) {
  if (stopped_) return fail(ErrorCode::kStopped, "the scheduler is stopping; no new requests");
  if (policy_->waiting() >= options_.max_requests)
    return fail(ErrorCode::kFull, fmt::format("{} requests wait already; try again later", options_.max_requests));
  if (waiting_bytes_ + request.length > options_.max_bytes)
    return fail(ErrorCode::kFull, fmt::format("{} bytes wait already, {} at most; try again later",
                                              waiting_bytes_.count(), options_.max_bytes.count()));
  if (ids_in_flight_.contains(request.id) || !policy_->add(request, now))
    return fail(ErrorCode::kDuplicate, fmt::format("request id {} is in use", request.id));
  waiting_bytes_ += request.length;
  statistics_.added(request);
  arrivals_.store(arrivals_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return {};
}

bool LiveScheduler::cancel(RequestId id) {
  auto lock = lock_soon(mutex_);
  const auto request = policy_->cancel(id);
  if (!request) return false;
  waiting_bytes_ -= request->length;
  statistics_.cancelled(*request);
  if (stopped_ && sleepers_ > 0) wakeup_.notify_all();  // it may have been the last one
  return true;
}

std::size_t LiveScheduler::next(std::span<Dispatched> batches) {
  // More at a time would keep producers waiting for the lock longer than they are willing to spin.
  batches = batches.first(std::min<std::size_t>(batches.size(), kMostPerTurn));
  auto lock = lock_soon(mutex_);
  for (bool looked = false;;) {
    Decision pause = Idle{};
    const std::size_t count = fill(batches, pause);
    if (count > 0 && somebody_sleeps() && policy_->waiting() > 0) wake_one(lock);
    if (count > 0 || batches.empty()) return count;
    if (stopped_ && policy_->waiting() == 0) {
      if (sleepers_ > 0) wakeup_.notify_all();  // the other dispatchers are done too
      return 0;
    }
    if (!looked && std::holds_alternative<Idle>(pause) && may_dispatch())
      look_out(lock);
    else
      sleep(lock, pause);
    looked = !looked;
  }
}

// Something often arrives just after the queue ran empty, and waiting for it awake is cheaper than going to sleep and
// being woken. How long to look out follows from how often it was worth it: an idle scheduler soon does not at all.
void LiveScheduler::look_out(std::unique_lock<std::mutex>& lock) {
  if (patience_ == 0 && ++skipped_ % 64 != 0) return;
  const std::uint64_t seen = arrivals_.load(std::memory_order_relaxed);
  const int spins = std::max(patience_, 16);
  lock.unlock();
  bool arrived = false;
  for (int i = 0; i < spins && !arrived; ++i) {
    __builtin_ia32_pause();
    arrived = arrivals_.load(std::memory_order_relaxed) != seen;
  }
  lock = lock_soon(mutex_);
  patience_ = arrived ? std::min(2 * spins, 2048) : patience_ / 2;
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches) {
  TimePoint again;
  return try_next(batches, again);
}

std::size_t LiveScheduler::try_next(std::span<Dispatched> batches, TimePoint& again) {
  auto lock = lock_soon(mutex_);
  Decision pause = Idle{};
  const std::size_t count = fill(batches, pause);
  const auto* wait = std::get_if<WaitUntil>(&pause);
  again = wait ? wait->at : TimePoint::max();
  return count;
}

std::size_t LiveScheduler::fill(std::span<Dispatched> batches, Decision& pause) {
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
  if (count > 0 && std::exchange(holding_, false)) hold_end_ = now;
  if (std::holds_alternative<WaitUntil>(pause) && !std::exchange(holding_, true)) hold_start_ = now;
  return count;
}

void LiveScheduler::launch(const Batch& batch, TimePoint now, Dispatched& out) {
  Flight& flight = take_off(batch.requests, now, out);
  TimePoint oldest = now;
  for (std::size_t i = 0; i < flight.requests.size(); ++i) {
    waiting_bytes_ -= flight.requests[i].length;
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
  for (const Request& request : requests) ids_in_flight_.insert(request.id);
  out.requests = flight.requests;
  ++in_flight_;
  return flight;
}

void LiveScheduler::complete(std::span<const Dispatched> batches) {
  const TimePoint now = clock_.now();
  auto lock = lock_soon(mutex_);
  const bool was_full = !may_dispatch();
  for (const Dispatched& batch : batches) {
    assert(batch.ticket < flights_.size() && flights_[batch.ticket].used && "every batch is completed once");
    Flight& flight = flights_[batch.ticket];
    for (const Request& request : flight.requests) ids_in_flight_.erase(request.id);
    if (!batch.dropped) policy_->completed(Batch{flight.requests}, flight.dispatched, now);
    statistics_.completed(flight.requests);
    flight.used = false;
    free_tickets_.push_back(batch.ticket);
    --in_flight_;
  }
  if (was_full && somebody_sleeps()) wake_one(lock);
}

Result<void> LiveScheduler::switch_policy(const std::string& name, const PolicyOptions& options) {
  auto made = make_policy(name, options);
  if (!made) return Failure(made.error());
  auto lock = lock_soon(mutex_);
  for (const Waiting& waiting : policy_->take_all()) {
    const bool added = (*made)->add(waiting.request, waiting.arrived);
    assert(added && "ids that wait are unique");
  }
  policy_ = std::move(*made);
  options_.policy = name;
  options_.policy_options = options;
  wakeup_.notify_all();
  return {};
}

void LiveScheduler::stop(Stop how) {
  auto lock = lock_soon(mutex_);
  stopped_ = true;
  if (how == Stop::kDrop) {
    for (const Waiting& waiting : policy_->take_all()) dropped_.push_back(waiting);
    waiting_bytes_ = Bytes();
  }
  wakeup_.notify_all();
}

Scheduler::Statistics LiveScheduler::statistics() const {
  auto lock = lock_soon(mutex_);
  Statistics statistics = statistics_.report();
  statistics.policy = options_.policy;
  statistics.waiting = policy_->waiting() + dropped_.size();
  statistics.waiting_bytes = waiting_bytes_;
  statistics.in_flight = in_flight_;
  return statistics;
}

void LiveScheduler::sleep(std::unique_lock<std::mutex>& lock, const Decision& pause) {
  ++sleepers_;
  if (const auto* wait = std::get_if<WaitUntil>(&pause))
    clock_.wait(wakeup_, lock, wait->at);
  else
    wakeup_.wait(lock);
  --sleepers_;
  if (wakeups_ > 0) --wakeups_;
}

void LiveScheduler::wake_one(std::unique_lock<std::mutex>& lock) {
  ++wakeups_;
  lock.unlock();
  wakeup_.notify_one();
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::create(Options options) {
  auto policy = make_policy(options.policy, options.policy_options);
  if (!policy) return Failure(policy.error());
  return std::make_unique<LiveScheduler>(std::move(options), std::move(*policy));
}

}  // namespace tutti

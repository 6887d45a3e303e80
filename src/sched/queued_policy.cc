// SPDX-License-Identifier: Apache-2.0
#include "sched/queued_policy.h"

namespace tutti {

bool QueuedPolicy::add(const Request& request, TimePoint now) {
  const bool first = store_.empty();
  const Slot slot = store_.add(request, now);
  if (slot == kNoSlot) return false;
  if (first && gather_ > Duration::zero()) begin_ = now + gather_;
  enqueue(slot);
  return true;
}

Decision QueuedPolicy::next(TimePoint now) {
  if (store_.empty()) return Idle{};
  if (now < begin_) return WaitUntil{begin_};
  batch_.clear();
  arrived_.clear();
  if (patience_ > Duration::zero()) {
    // Overdue requests are not merged: a request merged with one of them could overtake the next overdue one.
    if (const Slot oldest = store_.overdue(now, patience_); oldest != kNoSlot) {
      dequeue(oldest);
      take(oldest);
      return dispatch();
    }
  }
  return choose(now);
}

std::optional<Request> QueuedPolicy::cancel(RequestId id) {
  const Slot slot = store_.find(id);
  if (slot == kNoSlot) return std::nullopt;
  const Request request = store_.request(slot);
  dequeue(slot);
  store_.remove(slot);
  return request;
}

std::optional<TimePoint> QueuedPolicy::overdue(TimePoint now) {
  if (patience_ == Duration::zero() || store_.empty()) return std::nullopt;
  const Slot oldest = store_.overdue(now, patience_);
  if (oldest == kNoSlot) return std::nullopt;
  return store_.arrived(oldest);
}

std::vector<WaitingRequest> QueuedPolicy::take_all() {
  std::vector<WaitingRequest> all;
  all.reserve(store_.size());
  while (!store_.empty()) {
    const Slot slot = store_.oldest();
    all.push_back({store_.request(slot), store_.arrived(slot)});
    dequeue(slot);
    store_.remove(slot);
  }
  return all;
}

void QueuedPolicy::take(Slot slot) {
  batch_.push_back(store_.request(slot));
  arrived_.push_back(store_.arrived(slot));
  store_.remove(slot);
}

OptionInfo patience_option(std::string fallback) {
  return {.name = "patience",
          .kind = OptionInfo::Kind::kDuration,
          .fallback = std::move(fallback),
          .help = "A request that has waited this long is served next; 0: never",
          .choices = {}};
}

OptionInfo gather_option() {
  return {.name = "gather",
          .kind = OptionInfo::Kind::kDuration,
          .fallback = "0s",
          .help =
              "After an idle period, wait this long for more requests before serving the first one; 1ms suits disks. "
              "Adds this "
              "latency to isolated requests",
          .choices = {}};
}

OptionInfo slack_option() {
  return {
      .name = "slack",
      .kind = OptionInfo::Kind::kDuration,
      .fallback = "10ms",
      .help = "Maximum difference between issue and arrival time; an older issue time is replaced by arrival - slack",
      .choices = {}};
}

}  // namespace tutti

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
    // Overdue requests go alone: anything merged with one of them might pass the next.
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

std::vector<Waiting> QueuedPolicy::take_all() {
  std::vector<Waiting> all;
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
          .help = "a request that has waited this long goes first; 0: never",
          .choices = {}};
}

OptionInfo gather_option() {
  return {
      .name = "gather",
      .kind = OptionInfo::Kind::kDuration,
      .fallback = "0s",
      .help = "how long a server that was idle waits for more to choose from, 1ms for disks; a lone request pays it",
      .choices = {}};
}

}  // namespace tutti

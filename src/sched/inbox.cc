// SPDX-License-Identifier: Apache-2.0
#include "sched/inbox.h"

#include <fmt/format.h>

#include "base/mutex.h"

namespace tutti {

Result<void> Inbox::add(const Request& request, TimePoint now, bool& crowded) {
  Lock lock(mutex_, kSpinFirst);
  if (closed_) return fail(ErrorCode::kStopped, "the scheduler is stopping; no new requests");
  const Load load = waiting();
  if (!most_.admits(load, request.length)) {
    if (load.requests >= most_.requests)
      return fail(ErrorCode::kFull, fmt::format("{} requests wait already; try again later", most_.requests));
    return fail(ErrorCode::kFull, fmt::format("{} bytes wait already, {} at most; try again later", load.bytes.count(),
                                              most_.bytes.count()));
  }
  if (finished_.size() >= kCrowded / 4) erase_finished();
  if (!ids_.insert(request.id)) {
    erase_finished();
    if (!ids_.insert(request.id))
      return fail(ErrorCode::kDuplicate, fmt::format("request id {} is in use", request.id));
  }
  ++waiting_;
  waiting_bytes_ += request.length.count();
  arrived_.push_back({request, now});
  crowded = arrived_.size() >= kCrowded;
  return {};
}

void Inbox::collect(std::vector<WaitingRequest>& collected) {
  Lock lock(mutex_, kSpinFirst);
  collected.swap(arrived_);
}

void Inbox::left(Load load) {
  if (load.requests == 0) return;
  waiting_ -= load.requests;
  waiting_bytes_ -= load.bytes.count();
}

void Inbox::forget(std::span<const RequestId> ids) {
  Lock lock(mutex_, kSpinFirst);
  finished_.insert(finished_.end(), ids.begin(), ids.end());
  if (finished_.size() >= 4 * kCrowded) erase_finished();  // no producer does it
}

void Inbox::erase_finished() {
  for (const RequestId id : finished_) ids_.erase(id);
  finished_.clear();
}

void Inbox::close() {
  Lock lock(mutex_, kSpinFirst);
  closed_ = true;
}

}  // namespace tutti

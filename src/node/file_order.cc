// SPDX-License-Identifier: Apache-2.0
#include "node/file_order.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tutti::node {

bool FileOrder::add(Ordered& change) {
  change.epoch = first_ + epochs_.size() - 1;
  ++epochs_.back().unfinished;
  return add_read(change);
}

bool FileOrder::add_read(Ordered& read) {
  if (exclusive_ == 0) return true;
  epochs_.back().waiting.push_back(&read);
  return false;
}

void FileOrder::add(Ordered& barrier, Barrier kind) {
  barrier.epoch = first_ + epochs_.size() - 1;
  epochs_.back().barrier = &barrier;
  epochs_.back().kind = kind;
  if (kind == Barrier::kExclusive) ++exclusive_;
  epochs_.emplace_back();
}

FileOrder::Ready FileOrder::take_ready() {
  forget_finished();
  // A barrier that can start has no unfinished changes before it, so those released below arrived after it.
  Ready ready;
  start_barriers(ready);
  release_waiting(ready);
  return ready;
}

void FileOrder::forget_finished() {
  while (epochs_[over_].finished) ++over_;
  to_start_ = std::max(to_start_, over_);
  to_release_ = std::max(to_release_, over_);
  if (over_ <= epochs_.size() / 2) return;
  epochs_.erase(epochs_.begin(), epochs_.begin() + static_cast<std::ptrdiff_t>(over_));
  to_start_ -= over_;
  to_release_ -= over_;
  first_ += std::exchange(over_, 0);
}

void FileOrder::start_barriers(Ready& ready) {
  for (; to_start_ < epochs_.size(); ++to_start_) {
    Epoch& epoch = epochs_[to_start_];
    if (!epoch.barrier || epoch.unfinished > 0) return;
    const bool exclusive = epoch.kind == Barrier::kExclusive;
    if (exclusive && (epoch.started || to_start_ != over_)) return;  // it runs, or waits for earlier syncs
    epoch.started = true;
    ready.push_back(epoch.barrier);
    if (exclusive) return;
  }
}

void FileOrder::release_waiting(Ready& ready) {
  for (; to_release_ < epochs_.size(); ++to_release_) {
    if (to_release_ > over_ && epochs_[to_release_ - 1].kind == Barrier::kExclusive) return;
    auto& waiting = epochs_[to_release_].waiting;
    ready.insert(ready.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }
}

void FileOrder::done(Ordered& change) {
  Epoch& epoch = epoch_of(change);
  assert(epoch.unfinished > 0);
  --epoch.unfinished;
}

void FileOrder::barrier_done(Ordered& barrier) {
  Epoch& epoch = epoch_of(barrier);
  assert(epoch.barrier == &barrier && epoch.started);
  epoch.finished = true;
  if (epoch.kind == Barrier::kExclusive) --exclusive_;
}

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
#include "node/file_order.h"

#include <cassert>
#include <utility>

namespace tutti::node {

bool FileOrder::add(Ordered& transfer) {
  transfer.epoch = first_ + epochs_.size() - 1;
  ++epochs_.back().unfinished;
  if (exclusive_ == 0) return true;
  epochs_.back().waiting.push_back(&transfer);
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
  while (epochs_[over_].finished) ++over_;
  if (over_ > epochs_.size() / 2) {
    epochs_.erase(epochs_.begin(), epochs_.begin() + static_cast<std::ptrdiff_t>(over_));
    first_ += std::exchange(over_, 0);
  }
  Ready ready;
  bool all_done = true;  // every transfer up to here
  for (std::size_t i = over_; i < epochs_.size(); ++i) {
    Epoch& epoch = epochs_[i];
    ready.insert(ready.end(), epoch.waiting.begin(), epoch.waiting.end());
    epoch.waiting.clear();
    all_done = all_done && epoch.unfinished == 0;
    const bool exclusive = epoch.barrier && epoch.kind == Barrier::kExclusive;
    if (epoch.barrier && !epoch.started && all_done && (!exclusive || i == over_)) {
      epoch.started = true;
      ready.push_back(epoch.barrier);
    }
    if (exclusive) break;
  }
  return ready;
}

void FileOrder::done(Ordered& transfer) {
  Epoch& epoch = epoch_of(transfer);
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

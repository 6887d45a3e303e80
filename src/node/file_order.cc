// SPDX-License-Identifier: Apache-2.0
#include "node/file_order.h"

#include <algorithm>
#include <cassert>

namespace tutti::node {

bool FileOrder::add(Ordered& transfer) {
  transfer.epoch = first_ + epochs_.size() - 1;
  ++epochs_.back().unfinished;
  const auto blocks = [](const Epoch& epoch) {
    return epoch.barrier && epoch.kind == Barrier::kExclusive && !epoch.finished;
  };
  const bool waits = std::ranges::any_of(epochs_, blocks);
  if (waits) epochs_.back().waiting.push_back(&transfer);
  return !waits;
}

void FileOrder::add(Ordered& barrier, Barrier kind) {
  barrier.epoch = first_ + epochs_.size() - 1;
  epochs_.back().barrier = &barrier;
  epochs_.back().kind = kind;
  epochs_.emplace_back();
}

FileOrder::Ready FileOrder::take_ready() {
  std::size_t over = 0;
  while (epochs_[over].finished) ++over;
  epochs_.erase(epochs_.begin(), epochs_.begin() + static_cast<std::ptrdiff_t>(over));
  first_ += over;
  Ready ready;
  bool all_done = true;  // every transfer up to here
  for (std::size_t i = 0; i < epochs_.size(); ++i) {
    Epoch& epoch = epochs_[i];
    ready.insert(ready.end(), epoch.waiting.begin(), epoch.waiting.end());
    epoch.waiting.clear();
    all_done = all_done && epoch.unfinished == 0;
    const bool exclusive = epoch.barrier && epoch.kind == Barrier::kExclusive;
    if (epoch.barrier && !epoch.started && all_done && (!exclusive || i == 0)) {
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
}

}  // namespace tutti::node

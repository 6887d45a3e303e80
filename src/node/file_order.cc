// SPDX-License-Identifier: Apache-2.0
#include "node/file_order.h"

#include <cassert>

namespace tutti::node {

void FileOrder::add(Ordered& transfer) {
  transfer.epoch = first_ + epochs_.size() - 1;
  ++epochs_.back().unfinished;
  epochs_.back().parked.push_back(&transfer);
}

void FileOrder::add(Ordered& barrier, Barrier kind) {
  barrier.epoch = first_ + epochs_.size() - 1;
  epochs_.back().barrier = &barrier;
  epochs_.back().kind = kind;
  epochs_.emplace_back();
}

std::vector<Ordered*> FileOrder::take_ready() {
  while (epochs_.front().finished) {
    epochs_.pop_front();
    ++first_;
  }
  std::vector<Ordered*> ready;
  bool all_done = true;  // every transfer up to here
  for (std::size_t i = 0; i < epochs_.size(); ++i) {
    Epoch& epoch = epochs_[i];
    ready.insert(ready.end(), epoch.parked.begin(), epoch.parked.end());
    epoch.parked.clear();
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

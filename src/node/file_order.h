// SPDX-License-Identifier: Apache-2.0
// What must wait for what on one file: reads and writes go past each other as the policy likes, barriers do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tutti::node {

// Something that takes its place in a FileOrder. The order does not own it.
struct Ordered {
  std::uint64_t epoch = 0;  // the order's own
};

enum class Barrier {
  kSync,       // waits for everything before it; what comes later need not wait for it (fsync)
  kExclusive,  // and what comes later waits for it, too (truncate)
};

// A state machine. Everything added becomes ready once, and is then reported done. Not thread-safe.
//
// Arrivals are cut into epochs by the barriers between them: a barrier closes the epoch before it.
class FileOrder {
 public:
  FileOrder() : epochs_(1) {}

  void add(Ordered& transfer);
  void add(Ordered& barrier, Barrier kind);

  // Reads, writes and barriers that may start now and have not been returned before, in order of arrival.
  std::vector<Ordered*> take_ready();

  void done(Ordered& transfer);
  void barrier_done(Ordered& barrier);

  bool idle() const { return epochs_.size() == 1 && epochs_.front().unfinished == 0; }

 private:
  struct Epoch {
    std::size_t unfinished = 0;  // transfers
    std::deque<Ordered*> parked{};
    Ordered* barrier = nullptr;
    Barrier kind = Barrier::kSync;
    bool started = false, finished = false;  // the barrier
  };

  Epoch& epoch_of(const Ordered& entry) { return epochs_[static_cast<std::size_t>(entry.epoch - first_)]; }

  std::deque<Epoch> epochs_;  // the last one has no barrier yet
  std::uint64_t first_ = 0;   // number of epochs_.front()
};

}  // namespace tutti::node

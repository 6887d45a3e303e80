// SPDX-License-Identifier: Apache-2.0
// The order of requests on one file: the policy may reorder reads and writes, but no write across a barrier, and no
// read to before an earlier truncate. A barrier does not wait for reads: they could otherwise delay other users for as
// long as a policy or a client that does not read its replies delays them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::node {

// Base of the entries of a FileOrder. The FileOrder does not own them.
struct Ordered {
  std::uint64_t epoch = 0;  // set and used by the FileOrder
};

enum class Barrier {
  kSync,       // waits for all earlier changes; later requests do not wait for it (fsync)
  kExclusive,  // waits for all earlier changes; later requests wait for it (truncate)
};

// A state machine. Every entry becomes ready once; the owner then starts it, and reports when it is done if it is not a
// read. A change is a write or a copy. An epoch is the changes between two barriers; a barrier belongs to the epoch
// that it ends. Not thread-safe.
class FileOrder {
 public:
  FileOrder() : epochs_(1) {}

  // True: the change or read may start now. False: take_ready() will return it.
  bool add(Ordered& change);
  bool add_read(Ordered& read);
  void add(Ordered& barrier, Barrier kind);

  // Entries that may start now and were not returned before, in order of arrival.
  using Ready = boost::container::small_vector<Ordered*, 4>;
  Ready take_ready();

  void done(Ordered& change);
  void barrier_done(Ordered& barrier);

  // Reads that have started do not count.
  bool idle() const { return epochs_.size() == over_ + 1 && epochs_.back().unfinished == 0; }

 private:
  struct Epoch {
    std::size_t unfinished = 0;       // changes
    std::vector<Ordered*> waiting{};  // changes and reads that wait for an earlier exclusive barrier
    Ordered* barrier = nullptr;
    Barrier kind = Barrier::kSync;
    bool started = false, finished = false;  // of the barrier
  };

  void forget_finished();
  void start_barriers(Ready& ready);
  void release_waiting(Ready& ready);
  Epoch& epoch_of(const Ordered& entry) { return epochs_[static_cast<std::size_t>(entry.epoch - first_)]; }

  boost::container::small_vector<Epoch, 1> epochs_;  // each but the last ends with a barrier
  std::uint64_t first_ = 0;                          // number of epochs_.front()
  std::size_t over_ = 0;  // first of them that are finished. They are removed together: each removal moves the rest
  // The first whose barrier may have to be started, and the first whose waiting requests may: all before were looked
  // at.
  std::size_t to_start_ = 0, to_release_ = 0;
  std::size_t exclusive_ = 0;  // barriers of this kind that are not finished
};

}  // namespace tutti::node

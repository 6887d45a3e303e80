// SPDX-License-Identifier: Apache-2.0
// Records the data operations of a run and the changes of its volume, and checks them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/faults/block_history.h"
#include "sim/simulated_files.h"

namespace tutti::sim {

// What the caller of an operation knows when it has ended.
enum class Known {
  kDone,     // it took effect
  kUnknown,  // it may have taken effect, or take effect until the given time
};

// Data is written in whole blocks. Each block of a write holds the number of that write in every word. Not thread-safe.
class History final : public VolumeEvents {
 public:
  // `repeats_after`: a write that takes longer may have been repeated by a stand-in.
  History(const Simulator& simulator, Duration repeats_after)
      : simulator_(simulator), repeats_after_(repeats_after.count()) {}

  // Returns the number of the write, which is its value. `handle`: the open file, for synced().
  std::uint64_t write_begins(std::uint64_t file, std::uint64_t handle, std::vector<std::uint64_t> blocks);
  // A truncate writes zeros from block `size` on.
  std::uint64_t truncate_begins(std::uint64_t file, std::uint64_t size);
  // It takes effect at `latest` or earlier; that is now if it is done.
  void ended(std::uint64_t number, Known known, Nanoseconds latest);
  // A read that began at `begin` and ends now returned this content of a block, as stored by fill().
  void read(std::uint64_t file, std::uint64_t block, std::span<const std::byte> content, Nanoseconds begin);
  // A sync of the handle that began at `begin` has succeeded now.
  void synced(std::uint64_t handle, Nanoseconds begin);
  // It has failed: later syncs say nothing about the writes before it, which must be written again.
  void sync_failed(std::uint64_t handle, Nanoseconds begin);

  // Prepares memory for a read. A block that a read leaves like this is past the end of the file.
  static void clear(std::span<std::byte> block);
  static void fill(std::span<std::byte> block, std::uint64_t value);

  void written(const Inode& inode, std::uint64_t block) override;
  void truncated(const Inode& inode, std::uint64_t size) override;
  void reverted(const Inode& inode, std::uint64_t block) override;

  // All violations, including those that were found during the run.
  std::vector<std::string> check() const;

 private:
  struct Change {
    std::uint64_t file = 0;
    std::uint64_t handle = 0;
    std::vector<std::uint64_t> blocks;  // of a write
    std::uint64_t size = 0;             // of a truncate, in blocks
    bool truncate = false;
    bool over = false;
    BlockHistory::Write effect;
  };
  using BlockKey = std::pair<std::uint64_t, std::uint64_t>;  // file, block

  std::uint64_t begin(Change change);
  void wrong(std::string what) { violations_.push_back(std::move(what)); }
  bool value_of(std::span<const std::byte> content, std::uint64_t& value) const;
  std::uint64_t stored(const Inode& inode, std::uint64_t block);

  const Simulator& simulator_;
  const Nanoseconds repeats_after_;
  std::vector<Change> changes_;                                   // by number - 1
  std::map<std::uint64_t, std::vector<std::uint64_t>> unsynced_;  // by handle: acknowledged writes
  std::map<BlockKey, BlockHistory> observed_;                     // reads and reverts
  std::vector<std::string> violations_;
};

}  // namespace tutti::sim

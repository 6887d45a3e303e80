// SPDX-License-Identifier: Apache-2.0
// A file that is open on a node, and the bounded table of all of them.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <atomic>
#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/world.h"
#include "engine/credentials.h"

namespace tutti {

struct Operation;

// Identifies a file, its open mode and its user. Handles with equal keys share one descriptor.
struct BackingFileKey {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool readable = false;
  bool writable = false;
  std::shared_ptr<const Credentials> owner{};
  std::uint64_t generation = 0;  // as in FileStat; not compared: an open file keeps its inode number

  friend bool operator<(const BackingFileKey& a, const BackingFileKey& b);
};

// True for local file systems: a buffered write does not wait for a server on another machine.
bool is_local(int descriptor);

// The same id for all descriptors of one file; never 0.
FileId file_id(std::uint64_t device, std::uint64_t inode);

// An open file. Closes its descriptors on destruction: on one of `workers`, if that may block. const members, `sync`,
// `changes` and the atomics are thread-safe.
class BackingFile {
 public:
  // `direct` is a second descriptor of the same file opened with O_DIRECT, or -1.
  struct Descriptors {
    int buffered = -1;
    int direct = -1;
  };

  // `workers` outlive the file; nullptr: the destructor may block.
  BackingFile(BackingFileKey key, Descriptors descriptors, Workers* workers = nullptr);
  ~BackingFile();
  BackingFile(const BackingFile&) = delete;
  BackingFile& operator=(const BackingFile&) = delete;

  FileId id() const { return id_; }
  const BackingFileKey& key() const { return key_; }
  bool readable() const { return key_.readable; }
  bool writable() const { return key_.writable; }
  const std::shared_ptr<const Credentials>& owner() const { return key_.owner; }
  int descriptor() const { return descriptors_.buffered; }
  int direct_descriptor() const { return descriptors_.direct; }
  bool local() const { return local_; }

  // Group commit: the operations that wait for the running sync, and those that wait for the next one. Used by the
  // engine only.
  struct SyncGroup {
    Mutex mutex;
    bool running TUTTI_GUARDED_BY(mutex) = false;
    std::vector<Operation*> now TUTTI_GUARDED_BY(mutex);
    std::vector<Operation*> next TUTTI_GUARDED_BY(mutex);
    // errno of a failed sync. The kernel reports lost dirty pages only once, so all later syncs fail with it.
    int failed TUTTI_GUARDED_BY(mutex) = 0;
  };
  SyncGroup sync;

  // Says whether syncs cover all changes of the file's data through this open file. Thread-safe.
  class Changes {
   public:
    void begin() { begun_.fetch_add(1, std::memory_order_relaxed); }
    void end() { ended_.fetch_add(1, std::memory_order_acq_rel); }
    std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
    // A sync has succeeded; before it started, ended() was `covered`.
    void synced(std::uint64_t covered);
    // No change has begun that did not end before a sync that has succeeded.
    bool all_synced() const;
    bool in_progress() const;

   private:
    std::atomic<std::uint64_t> begun_{0}, ended_{0}, synced_{0};
  };
  Changes changes;

  std::atomic<bool> poisoned{false};          // a sync failed: later opens get a descriptor of their own
  std::atomic<bool> writes_may_nowait{true};  // the file system takes RWF_NOWAIT for buffered writes

 private:
  bool close_may_block() const;

  const BackingFileKey key_;
  const FileId id_;
  const Descriptors descriptors_;
  const bool local_;
  Workers* const workers_;
};

// Thread-safe.
class BackingFiles {
 public:
  // `workers` as in BackingFile.
  explicit BackingFiles(std::size_t limit, Workers* workers = nullptr) : limit_(limit), workers_(workers) {}

  // Takes ownership of the descriptors. Returns the file that is already open under this key (and closes the new
  // descriptors) or a new one. kFull above the limit; the descriptors are closed.
  Result<std::shared_ptr<BackingFile>> adopt(const BackingFileKey& key, BackingFile::Descriptors descriptors);

  std::size_t size() const;
  std::size_t limit() const { return limit_; }

 private:
  void sweep() TUTTI_REQUIRES(mutex_);  // removes entries of closed files

  const std::size_t limit_;
  Workers* const workers_;
  mutable Mutex mutex_;
  std::map<BackingFileKey, std::weak_ptr<BackingFile>> files_ TUTTI_GUARDED_BY(mutex_);
  std::size_t sweep_at_ TUTTI_GUARDED_BY(mutex_) = 64;
};

}  // namespace tutti

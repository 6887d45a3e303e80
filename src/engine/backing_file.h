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
#include <mutex>
#include <vector>

#include "engine/credentials.h"

namespace tutti {

struct Operation;

// Which file, opened how and by whom: handles that agree in all of it share one descriptor.
struct BackingFileKey {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool readable = false;
  bool writable = false;
  std::shared_ptr<const Credentials> owner{};

  friend bool operator<(const BackingFileKey& a, const BackingFileKey& b);
};

// The page cache of what a descriptor refers to is this machine's own: no server elsewhere has a say in how long a
// write takes.
bool is_local(int descriptor);

// The same for every way of opening one file; never 0.
FileId file_id(std::uint64_t device, std::uint64_t inode);

// Closes its descriptors when the last holder lets go. The constant part is thread-safe.
class BackingFile {
 public:
  // `direct` is a second descriptor of the same file opened with O_DIRECT, or -1.
  struct Descriptors {
    int buffered = -1;
    int direct = -1;
  };

  BackingFile(BackingFileKey key, Descriptors descriptors);
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

  // Group commit: who waits for the running sync, and who for the one after it. Used by the engine only.
  struct SyncGroup {
    std::mutex mutex;
    bool running = false;
    std::vector<Operation*> now;
    std::vector<Operation*> next;
    // A failed sync may have dropped dirty pages for good and the kernel reports that once: keep saying so.
    int failed = 0;
  };
  SyncGroup sync;

  std::atomic<bool> poisoned{false};          // a sync failed: later opens get a descriptor of their own
  std::atomic<bool> writes_may_nowait{true};  // the file system takes RWF_NOWAIT for buffered writes

 private:
  const BackingFileKey key_;
  const FileId id_;
  const Descriptors descriptors_;
  const bool local_;
};

// Thread-safe.
class BackingFiles {
 public:
  explicit BackingFiles(std::size_t limit) : limit_(limit) {}

  // Takes over the descriptors: as a new file, or closed in favour of one that is open already.
  // kFull past the limit; they are closed then, too.
  Result<std::shared_ptr<BackingFile>> adopt(const BackingFileKey& key, BackingFile::Descriptors descriptors);

  std::size_t size() const;
  std::size_t limit() const { return limit_; }

 private:
  void sweep();  // forgets files nobody holds any more

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::map<BackingFileKey, std::weak_ptr<BackingFile>> files_;
  std::size_t sweep_at_ = 64;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "engine/backing_file.h"

#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/mutex.h"

namespace tutti {
bool is_local(int descriptor) {
  struct statfs status {};
  if (descriptor < 0 || fstatfs(descriptor, &status) != 0) return false;
  const auto type = static_cast<unsigned long>(status.f_type);
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC || type == TMPFS_MAGIC;
}

bool operator<(const BackingFileKey& a, const BackingFileKey& b) {
  const auto front = [](const BackingFileKey& key) {
    return std::tie(key.inode, key.device, key.readable, key.writable);
  };
  if (front(a) != front(b)) return front(a) < front(b);
  return *a.owner < *b.owner;
}

FileId file_id(std::uint64_t device, std::uint64_t inode) {
  // Inodes are unique within a device; the device number separates several mounts below one root.
  const FileId id = inode ^ (device * 0x9e3779b97f4a7c15ULL);
  return id == 0 ? 1 : id;
}

BackingFile::BackingFile(BackingFileKey key, Descriptors descriptors, Workers* workers)
    : key_(std::move(key)),
      id_(file_id(key_.device, key_.inode)),
      descriptors_(descriptors),
      local_(is_local(descriptors.buffered)),
      workers_(workers) {}

BackingFile::~BackingFile() {
  const auto close_all = [descriptors = descriptors_] {
    if (descriptors.buffered >= 0) close(descriptors.buffered);
    if (descriptors.direct >= 0) close(descriptors.direct);
  };
  if (workers_ != nullptr && close_may_block())
    workers_->post(key_.owner->uid, close_all);
  else
    close_all();
}

// Network file systems write data back to their server, and the last close of a file without a name frees its blocks.
bool BackingFile::close_may_block() const {
  struct stat status {};
  return !local_ || fstat(descriptors_.buffered, &status) != 0 || status.st_nlink == 0;
}

void BackingFile::Changes::synced(std::uint64_t covered) {
  std::uint64_t known = synced_.load(std::memory_order_relaxed);
  while (known < covered && !synced_.compare_exchange_weak(known, covered, std::memory_order_acq_rel)) continue;
}

// In this order: a change that began before a change that the sync covers is then seen here.
bool BackingFile::Changes::all_synced() const {
  const std::uint64_t covered = synced_.load(std::memory_order_acquire);
  return covered == begun_.load(std::memory_order_relaxed);
}

bool BackingFile::Changes::in_progress() const {
  const std::uint64_t over = ended();
  return over != begun_.load(std::memory_order_relaxed);
}

Result<std::shared_ptr<BackingFile>> BackingFiles::adopt(const BackingFileKey& key,
                                                         BackingFile::Descriptors descriptors) {
  auto opened = std::make_shared<BackingFile>(key, descriptors, workers_);
  Lock lock(mutex_);
  if (files_.size() >= sweep_at_ || files_.size() >= limit_) sweep();
  auto& slot = files_[key];
  if (auto present = slot.lock(); present && !present->poisoned) return present;
  if (slot.expired() && files_.size() > limit_) {
    files_.erase(key);
    return fail(ErrorCode::kFull, fmt::format("too many open files on this node, the limit is {}", limit_), EMFILE);
  }
  slot = opened;
  return opened;
}

std::size_t BackingFiles::size() const {
  Lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(files_.begin(), files_.end(), [](const auto& entry) { return !entry.second.expired(); }));
}

void BackingFiles::sweep() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  sweep_at_ = std::max<std::size_t>(64, files_.size() * 2);
}

}  // namespace tutti

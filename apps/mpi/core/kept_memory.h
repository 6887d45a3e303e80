// SPDX-License-Identifier: Apache-2.0
// Buffers that are kept from one call to the next.
#pragma once

#include <cstddef>
#include <memory>

namespace tutti::mpi {

// New memory costs a page fault per 4 KiB, which takes about as long as copying the page. Not thread-safe.
class KeptMemory {
 public:
  // At least `size` bytes, with any content; nullptr if `size` is 0. They replace those of the last call. May throw
  // std::bad_alloc.
  std::byte* get(std::size_t size) {
    if (size > size_) {
      release();
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
      size_ = size;
    }
    return size > 0 ? bytes_.get() : nullptr;
  }
  std::size_t size() const { return size_; }
  void release() {
    bytes_.reset();
    size_ = 0;
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

// What the collective calls of a file use one after the other.
struct CallMemory {
  KeptMemory buffer{}, messages{};

  // Releases the memory of an unusually large call.
  void keep_at_most(std::size_t bytes) {
    if (buffer.size() > bytes) buffer.release();
    if (messages.size() > bytes) messages.release();
  }
};

}  // namespace tutti::mpi

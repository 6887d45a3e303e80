// SPDX-License-Identifier: Apache-2.0
// Addresses without memory, for data whose content is never read or written.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <tutti/base.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/units.h"

namespace tutti::sim {

class ReservedMemory {
 public:
  // kFull: there are not that many addresses.
  static Result<ReservedMemory> create(Bytes size) {
    const std::size_t length = std::max<std::size_t>(size.count(), 1);
    void* memory = ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return fail(ErrorCode::kFull, fmt::format("an operation of {} is too large", format(size)), errno);
    return ReservedMemory(static_cast<std::byte*>(memory), length);
  }
  ReservedMemory(ReservedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), length_(other.length_) {}
  ReservedMemory& operator=(ReservedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~ReservedMemory() {
    if (data_) ::munmap(data_, length_);
  }

  std::byte* data() const { return data_; }

 private:
  ReservedMemory(std::byte* data, std::size_t length) : data_(data), length_(length) {}

  std::byte* data_;
  std::size_t length_;
};

}  // namespace tutti::sim

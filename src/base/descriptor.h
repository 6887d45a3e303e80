// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

namespace tutti {

// Owns a file descriptor and closes it. Move-only; not thread-safe.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}  // negative: none
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }  // the caller owns the result

 private:
  int value_ = -1;
};

// Raises this process's limit on open files to its maximum and returns it.
std::size_t raise_descriptor_limit();

// Makes room for `count` descriptors, or as many as the limit allows, in the kernel's table of this process. Call it
// before there are threads: later, each growth of the table waits for all processors (about 15 ms).
void reserve_descriptors(std::size_t count);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

// Starts to load the cache line at `address`. Any address is allowed.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  // Without this, gcc removes calls of functions that only prefetch.
  asm volatile("");
}

inline void prefetch_bytes(const void* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) prefetch_line(static_cast<const char*>(begin) + at);
}

}  // namespace tutti

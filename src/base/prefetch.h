// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

// Starts to load the cache line at `address`. Any address is allowed.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  // Without this, gcc removes calls of functions that only prefetch.
  asm volatile("");
}

}  // namespace tutti

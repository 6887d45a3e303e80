// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

// Starts to bring what lies there into the cache. Any address will do.
inline void prefetch(const void* address) {
  __builtin_prefetch(address);
  // A function that does nothing but prefetch counts as one without effect, and gcc drops calls of it.
  asm volatile("");
}

}  // namespace tutti

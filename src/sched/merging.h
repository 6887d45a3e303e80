// SPDX-License-Identifier: Apache-2.0
// How large merging policies let a batch become.
#pragma once

#include "base/options.h"

namespace tutti {

struct MergeLimits {
  std::size_t requests = 16;
  Bytes bytes{};

  explicit MergeLimits(const OptionValues& options)
      : requests(static_cast<std::size_t>(options.integer("max_requests"))), bytes(options.bytes("max_bytes")) {}

  // Whether `more` may join a batch of that many requests and bytes.
  bool admits(std::size_t count, Bytes size, Bytes more) const { return count < requests && size + more <= bytes; }
};

inline OptionInfo max_requests_option() {
  return {.name = "max_requests",
          .kind = OptionInfo::Kind::kInteger,
          .fallback = "16",
          .help = "Largest batch, in requests",
          .choices = {},
          .low = 1,
          .high = 1024};
}

inline OptionInfo max_bytes_option() {
  return {
      .name = "max_bytes", .kind = OptionInfo::Kind::kBytes, .fallback = "16MiB", .help = "Largest batch, in bytes"};
}

}  // namespace tutti

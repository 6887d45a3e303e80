// SPDX-License-Identifier: Apache-2.0
// What merging policies merge, and how large they let a batch become.
#pragma once

#include <tutti/sched.h>

#include "base/options.h"

namespace tutti {

// Where requests have to adjoin to be merged: in the file, or in the target's object, where stripes that other targets
// separate in the file follow each other.
struct MergePlace {
  bool object = false;

  MergePlace() = default;
  explicit MergePlace(const OptionValues& options) : object(options.text("adjoin") == "object") {}

  std::uint64_t start(const Request& request) const { return object ? request.place() : request.offset; }
  std::uint64_t end(const Request& request) const { return start(request) + request.length.count(); }
};

struct MergeLimits {
  std::size_t requests = 16;
  Bytes bytes{std::uint64_t{16} << 20};

  MergeLimits() = default;
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
          .high = 1'000'000'000};
}

inline OptionInfo adjoin_option() {
  return {.name = "adjoin",
          .kind = OptionInfo::Kind::kChoice,
          .fallback = "file",
          .help = "Merge requests that adjoin in the file, or in the object that the target keeps of it",
          .choices = {"file", "object"}};
}

inline OptionInfo max_bytes_option() {
  return {
      .name = "max_bytes", .kind = OptionInfo::Kind::kBytes, .fallback = "16MiB", .help = "Largest batch, in bytes"};
}

}  // namespace tutti

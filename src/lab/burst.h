// SPDX-License-Identifier: Apache-2.0
// One application's burst of I/O against a live cluster, several operations under way at once.
#pragma once

#include <tutti/client.h>

namespace tutti::lab {

struct Burst {
  Direction direction = Direction::kWrite;
  std::uint64_t offset = 0;
  Bytes total{64 << 20};
  Bytes operation{4 << 20};
  std::size_t depth = 1;  // operations under way at once
};

// Goes through that part of the file from front to back and returns when all of it is done. The first error ends it.
Result<void> run_burst(File& file, const Burst& burst);

}  // namespace tutti::lab

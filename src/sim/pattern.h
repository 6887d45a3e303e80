// SPDX-License-Identifier: Apache-2.0
// Which bytes of the file an operation touches.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "sim/scenario.h"

namespace tutti::sim {

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// An operation's place in its phase.
struct Place {
  unsigned rank = 0;
  unsigned ranks = 1;  // that share the file
  unsigned operation = 0;
  unsigned operations = 1;  // of each rank in this phase
};

// The extents of one operation in ascending order of offset, adjoining ones joined. `chance` is used by kRandom only.
void extents_of(const Application& application, const Place& place, Prng& chance, std::vector<Extent>& extents);

}  // namespace tutti::sim

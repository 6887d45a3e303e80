// SPDX-License-Identifier: Apache-2.0
// The history of one 4 KiB block, and the check that it is a correct one.
//
// A block is a register. Every write has its own value; 0 stands for zeros, which truncates write and which a new file
// contains. The check is sound: what it reports cannot happen if reads and writes take effect at one time between their
// begin and their end. It is complete for histories without zeros and without repeated writes (Gibbons and Korach,
// "Testing shared memories", 1997).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace tutti::sim {

inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

struct BlockHistory {
  struct Write {
    std::uint64_t value = 0;
    Nanoseconds begin = 0;
    Nanoseconds end = kNever;     // it takes effect at this time or earlier
    bool acknowledged = false;    // else it may have no effect
    bool repeated = false;        // it may take effect several times: a stand-in repeats it
    Nanoseconds synced = kNever;  // when a sync that covers it ended
  };
  struct Read {
    std::uint64_t value = 0;
    Nanoseconds begin = 0;
    Nanoseconds end = 0;
  };
  // A power cut replaced the content by this value.
  struct Revert {
    std::uint64_t value = 0;
    Nanoseconds at = 0;
  };

  std::vector<Write> writes{};
  std::vector<Read> reads{};
  std::vector<Revert> reverts{};  // in order of time
};

// Nothing: the history is correct. Else what is wrong with it:
//  - a read returned a value that was not there at any time during the read;
//  - a power cut lost a write that was synced: the block has an earlier value.
std::optional<std::string> check(const BlockHistory& history);

}  // namespace tutti::sim

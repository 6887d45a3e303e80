// SPDX-License-Identifier: Apache-2.0
// Wrong values that a manipulated client writes into its stamps to be served earlier.
#pragma once

#include <tutti/sched.h>

#include <cstdint>

namespace tutti::sim {

enum class Trick : std::uint8_t {
  kNone,        // correct stamps
  kUnderstate,  // states a tenth of the size, and later that every operation is the last one
  kOverstate,   // states ten times the size
  kCut,         // every operation is a phase of its own, whose size is stated correctly
  kIds,         // the same, and every operation has another application id
  kBehind,      // the clock is 10 ms behind
  kHourBehind,  // the clock is an hour behind
  kAhead,       // the clock is 10 ms ahead
  kHourAhead,   // the clock is an hour ahead
};

// Changes a correct stamp.
void apply(Trick trick, Stamp& stamp);

}  // namespace tutti::sim

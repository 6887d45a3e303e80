// SPDX-License-Identifier: Apache-2.0
// Several recordings as one.
#pragma once

#include <vector>

#include "trace/recording.h"

namespace tutti::trace {

enum class Align : std::uint8_t {
  kClock,  // by the wall clock of the recorders: servers of one run
  kFirst,  // the first requests coincide: several runs of a program
};

// Requests of all recordings in order of time; of equal times, in the order of the recordings. Facts that differ are
// joined with commas. Recordings that have no file in common with the others are kept and reported as a problem.
// `recordings` must not be empty.
Recording merge(std::vector<Recording> recordings, Align align);

}  // namespace tutti::trace

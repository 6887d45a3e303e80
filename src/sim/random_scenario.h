// SPDX-License-Identifier: Apache-2.0
// Random scenarios, for judging policies on work that they were not tuned on.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::sim {

// A scenario file (scenario_file.h) that is a function of seed and number. The scenarios differ in servers (1 to 64),
// devices, striping, directions, patterns, ranks, sizes of jobs (equal to heavy-tailed), what is known about phase
// sizes, clock errors, and load: closed loops that compute between phases, and jobs that arrive over time. Jobs and
// ranks do not start at the same time. A run takes about 30,000 requests.
//
// The generator is a yardstick: results of different versions of a policy are comparable only if it stays unchanged.
std::string random_scenario(std::uint64_t seed, std::uint64_t number);

}  // namespace tutti::sim

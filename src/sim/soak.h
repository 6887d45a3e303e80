// SPDX-License-Identifier: Apache-2.0
// A soak: jobs pass through a cluster of production clients, nodes and gate for weeks of virtual time, and the memory
// of the whole process stays bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace tutti::sim {

struct SoakOptions {
  std::uint64_t seed = 1;
  double days = 30;
  std::uint64_t jobs = 20'000;             // about; they arrive at random times
  std::function<std::uint64_t()> heap{};   // bytes of the heap in use
  std::function<void(double)> progress{};  // called once per virtual day; may be empty
};

struct SoakSample {
  double day = 0;
  std::uint64_t jobs = 0;  // that have ended
  std::uint64_t heap = 0;
  std::size_t connections = 0;  // of nodes and gate
  std::size_t usage_rows = 0;   // the most that a node had so far; looked at once per day
};

struct SoakOutcome {
  std::vector<SoakSample> samples;  // 24 per day
  std::uint64_t jobs = 0, killed_jobs = 0, operations = 0, failed_operations = 0, events = 0;
  std::vector<std::string> violations;
};

// The rules of docs/reliability.md:
// - While the tables of nodes and gate fill, a job leaves at most kMostPerJob bytes.
// - After kTablesFull jobs they do not grow: the heap is at most kGrowth times its maximum until then.
// - At the end nothing is left of any job except in those tables.
inline constexpr std::uint64_t kMostPerJob = 32 << 10;
inline constexpr std::uint64_t kTablesFull = 12'000;
inline constexpr double kGrowth = 1.1;
std::vector<std::string> check_heap(const std::vector<SoakSample>& samples);

SoakOutcome run_soak(const SoakOptions& options);

}  // namespace tutti::sim

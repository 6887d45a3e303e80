// SPDX-License-Identifier: Apache-2.0
// What tests share: seeds of random tests, and tests that need more than every machine has.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>

namespace tutti::testing_support {

// The seeds a random test runs with: `fixed` ones, which failed in the past or cover a lot, and one that is drawn and
// printed. TUTTI_SEED=N runs N alone. Add a seed that fails to the fixed ones.
//
//   for (const std::uint64_t seed : seeds({1, 2})) {
//     SCOPED_TRACE(fmt::format("seed {}", seed));
inline std::vector<std::uint64_t> seeds(std::initializer_list<std::uint64_t> fixed) {
  if (const char* given = std::getenv("TUTTI_SEED")) return {std::strtoull(given, nullptr, 0)};
  std::vector<std::uint64_t> all = fixed;
  all.push_back(std::random_device{}());
  fmt::print("fresh seed {} (TUTTI_SEED={} repeats it)\n", all.back(), all.back());
  return all;
}

}  // namespace tutti::testing_support

// Skips a test on a machine that lacks something, and fails it in CI, where TUTTI_CI is set: there all of it is
// installed.
#define TUTTI_NEEDS(condition, what)                                    \
  do {                                                                  \
    if (condition) break;                                               \
    if (std::getenv("TUTTI_CI")) FAIL() << "missing in CI: " << (what); \
    GTEST_SKIP() << "needs " << (what);                                 \
  } while (false)

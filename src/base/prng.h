// SPDX-License-Identifier: Apache-2.0
// Pseudo-random numbers (xoshiro256**): the same seed gives the same sequence on every machine. The distributions are
// here because those of the standard library differ between implementations. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace tutti {

class Prng {
 public:
  using result_type = std::uint64_t;

  explicit Prng(std::uint64_t seed);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~std::uint64_t{0}; }
  result_type operator()();

  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound); bound > 0
  double uniform();                          // uniform in [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double exponential(double mean);
  double pareto(double minimum, double shape);  // heavy-tailed for shape near 1
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace tutti

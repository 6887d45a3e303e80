// SPDX-License-Identifier: Apache-2.0
// std::fmod() for positions and times, which are many periods: fmod() itself takes time for each bit of the quotient.
#pragma once

#include <cmath>
#include <cstdint>

namespace tutti {

// Equal to std::fmod(), bit for bit. `value` is at least 0, `period` is more than 0.
inline double remainder_of(double value, double period) {
  constexpr double kExact = 9007199254740992;  // 2^53: up to it, doubles have all integers
  const double quotient = value / period;
  if (!(quotient < kExact)) return std::fmod(value, period);
  // Division may have rounded up to the next integer. The rest is below 0 then; it has no more digits than the period,
  // so that both steps are exact.
  const double rest = std::fma(-static_cast<double>(static_cast<std::int64_t>(quotient)), period, value);
  return rest < 0 ? rest + period : rest;
}

}  // namespace tutti

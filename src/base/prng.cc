// SPDX-License-Identifier: Apache-2.0
#include "base/prng.h"

#include <bit>
#include <cmath>

namespace tutti {

Prng::Prng(std::uint64_t seed) {
  for (auto& word : state_) {  // splitmix64 spreads close seeds over the whole state
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

Prng::result_type Prng::operator()() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Prng::below(std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
}

double Prng::uniform() {
  return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
}

double Prng::exponential(double mean) {
  return -mean * std::log1p(-uniform());
}

double Prng::pareto(double minimum, double shape) {
  return minimum / std::pow(1.0 - uniform(), 1.0 / shape);
}

}  // namespace tutti

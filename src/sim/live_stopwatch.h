// SPDX-License-Identifier: Apache-2.0
// Measures how long a simulation takes on this machine.
#pragma once

#include <chrono>

namespace tutti::sim {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::sim

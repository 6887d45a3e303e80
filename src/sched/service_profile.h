// SPDX-License-Identifier: Apache-2.0
// Estimates how long the device takes for a request of a given size, from recent completions.
#pragma once

#include <tutti/base.h>

namespace tutti {

// Latency + size/bandwidth, fitted by least squares to recent completions with decreasing weights. Until there are
// enough of them, the figures it was constructed with. Not thread-safe.
class ServiceProfile {
 public:
  struct Figures {
    Duration latency{};
    double bytes_per_second = 1;
  };

  explicit ServiceProfile(Figures first) : figures_(first) {}

  bool learn(Bytes size, Duration took);  // true: the figures changed
  Duration estimate(Bytes size) const;
  const Figures& figures() const { return figures_; }

 private:
  void fit();

  Figures figures_;
  double weight_ = 0, size_ = 0, time_ = 0, size_size_ = 0, size_time_ = 0;  // weighted sums
  int until_fit_ = kFirstFit;

  static constexpr int kFirstFit = 32;
  static constexpr double kFade = 0.995;  // the weight of a completion after each later one
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// How long the device takes for a request of a given size, learned from what it took before.
#pragma once

#include <tutti/base.h>

namespace tutti {

// A straight line, latency + size/bandwidth, fitted by least squares to recent completions; older ones fade.
// Until there are enough of them to fit, the figures it was made with. Not thread-safe.
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
  double weight_ = 0, size_ = 0, time_ = 0, size_size_ = 0, size_time_ = 0;  // fading sums
  int until_fit_ = kFirstFit;

  static constexpr int kFirstFit = 32;
  static constexpr double kFade = 0.995;  // what a completion still counts after one more
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "sched/service_profile.h"

#include <algorithm>
#include <cmath>

namespace tutti {

bool ServiceProfile::learn(Bytes size, Duration took) {
  const auto x = static_cast<double>(size.count());
  const auto y = static_cast<double>(std::max(took, Duration(1)).count());
  weight_ = weight_ * kFade + 1;
  size_ = size_ * kFade + x;
  time_ = time_ * kFade + y;
  size_size_ = size_size_ * kFade + x * x;
  size_time_ = size_time_ * kFade + x * y;
  if (--until_fit_ > 0) return false;
  fit();
  until_fit_ = kFirstFit;
  return true;
}

void ServiceProfile::fit() {
  const double spread = weight_ * size_size_ - size_ * size_;
  const double mean_size = size_ / weight_, mean_time = time_ / weight_;
  // With sizes all alike there is no slope to see: keep the latency's share as it was and scale to the mean time.
  double slope = 1e9 / figures_.bytes_per_second;
  if (spread > 1e-3 * weight_ * size_size_) slope = (weight_ * size_time_ - size_ * time_) / spread;
  slope = std::clamp(slope, 1e-6, mean_time / mean_size);
  figures_.bytes_per_second = 1e9 / slope;
  figures_.latency = Duration(std::llround(std::max(0.0, mean_time - slope * mean_size)));
}

Duration ServiceProfile::estimate(Bytes size) const {
  const double transfer = static_cast<double>(size.count()) / figures_.bytes_per_second * 1e9;
  return figures_.latency + Duration(std::llround(std::min(transfer, 3.6e15)));
}

}  // namespace tutti

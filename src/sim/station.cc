// SPDX-License-Identifier: Apache-2.0
#include "sim/station.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"

namespace tutti::sim {

std::uint32_t Station::begin(const Batch& batch, Nanoseconds now) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(batches_.size()));
    batches_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  batches_[number].requests.assign(batch.requests.begin(), batch.requests.end());
  batches_[number].dispatched = clock(now);
  batches_[number].aside = batches_[number].ahead = false;
  ++in_flight_;
  return number;
}

void Station::set_aside(std::uint32_t ticket) {
  if (!std::exchange(batches_[ticket].aside, true)) --in_flight_;
}

void Station::set_ahead(std::uint32_t ticket, std::size_t most) {
  if (batches_[ticket].aside || ahead_ >= most) return;
  ++ahead_;
  batches_[ticket].ahead = true;
  set_aside(ticket);
}

const Station::BatchInFlight& Station::finish(std::uint32_t number, Nanoseconds now) {
  const BatchInFlight& batch = batches_[number];
  policy_->completed(Batch{batch.requests}, batch.dispatched, clock(now));
  free_.push_back(number);
  if (!batch.aside) --in_flight_;
  if (batch.ahead) --ahead_;
  return batch;
}

void Station::expect() const {
  const auto* begin = reinterpret_cast<const char*>(&write_memory);
  prefetch_bytes(begin, static_cast<std::size_t>(reinterpret_cast<const char*>(this + 1) - begin));
}

void Station::expect_content() const {
  device_.expect();
  prefetch_line(policy_.get());
  prefetch_bytes(batches_.data(), std::min<std::size_t>(batches_.size(), 4) * sizeof(BatchInFlight));
  prefetch_line(free_.data());
}

}  // namespace tutti::sim

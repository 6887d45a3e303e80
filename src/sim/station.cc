// SPDX-License-Identifier: Apache-2.0
#include "sim/station.h"

#include <utility>

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

}  // namespace tutti::sim

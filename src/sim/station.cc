// SPDX-License-Identifier: Apache-2.0
#include "sim/station.h"

namespace tutti::sim {

std::uint32_t Station::begin(const Batch& batch, Nanoseconds now) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(tickets_.size()));
    tickets_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  tickets_[number].requests.assign(batch.requests.begin(), batch.requests.end());
  tickets_[number].dispatched = clock(now);
  ++in_flight_;
  return number;
}

const Station::Ticket& Station::finish(std::uint32_t number, Nanoseconds now) {
  const Ticket& ticket = tickets_[number];
  policy_->completed(Batch{ticket.requests}, ticket.dispatched, clock(now));
  free_.push_back(number);
  --in_flight_;
  return ticket;
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "sched/stamper.h"

#include <algorithm>

namespace tutti {

bool sizes_differ(Bytes a, Bytes b) {
  return std::max(a, b) - std::min(a, b) > std::min(a, b) / 2;
}

void Stamper::begin_phase(const Phase& phase) {
  end_phase();
  ++phase_;
  open_ = true;
  started_ = false;
  kind_ = phase.kind;
  phase_start_ = phase.now;
  announced_ = phase.announced;
  total_ = expected();
}

Bytes Stamper::expected() const {
  const auto past = past_.find(kind_);
  if (past == past_.end()) return announced_;
  if (announced_ > Bytes{}) return past->second.announced_wrongly ? Bytes{} : announced_;
  return past->second.varies ? Bytes{} : past->second.size;
}

void Stamper::end_phase() {
  if (!open_) return;
  open_ = false;
  if (attained_ > Bytes{}) judge();
  attained_ = Bytes{};
  for (const TargetId target : touched_) issued_[target] = Bytes{};
  touched_.clear();
}

void Stamper::judge() {
  Past& past = past_[kind_];
  if (announced_ > Bytes{}) past.announced_wrongly = sizes_differ(announced_, attained_);
  past.varies = past.size > Bytes{} && sizes_differ(past.size, attained_);
  past.size = attained_;
}

Stamp Stamper::stamp(OperationId operation, std::span<const TargetShare> shares, TimePoint now) {
  if (!open_) begin_phase({.now = now});
  if (!started_) phase_start_ = now;
  started_ = true;
  Bytes bottleneck{}, reached{};  // the largest share, and the most that any of these targets has been given by now
  for (const TargetShare& share : shares) {
    if (share.target >= issued_.size()) {
      issued_.resize(share.target + std::size_t{1});
      operation_.resize(share.target + std::size_t{1});
    }
    if (issued_[share.target] == Bytes{}) touched_.push_back(share.target);
    issued_[share.target] += share.bytes;
    operation_[share.target] += share.bytes;
    reached = std::max(reached, issued_[share.target]);
    bottleneck = std::max(bottleneck, operation_[share.target]);
  }
  for (const TargetShare& share : shares) operation_[share.target] = Bytes{};
  attained_ = std::max(attained_, reached);
  return {.application = application_,
          .phase = phase_,
          .issued = now,
          .phase_start = phase_start_,
          .attained = reached - bottleneck,
          .phase_total = total_,
          .operation = operation,
          .bottleneck = bottleneck};
}

Bytes Stamper::learned(PhaseKind kind) const {
  const auto past = past_.find(kind);
  return past == past_.end() ? Bytes{} : past->second.size;
}

}  // namespace tutti

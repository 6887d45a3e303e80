// SPDX-License-Identifier: Apache-2.0
#include "sched/stamper.h"

#include <algorithm>

namespace tutti {

void Stamper::begin_phase(const Phase& phase) {
  end_phase();
  ++phase_;
  open_ = true;
  started_ = false;
  kind_ = phase.kind;
  phase_start_ = phase.now;
  total_ = phase.announced > Bytes{} ? phase.announced : learned(phase.kind);
}

void Stamper::end_phase() {
  if (!open_) return;
  open_ = false;
  if (attained_ > Bytes{}) learned_[kind_] = attained_;
  attained_ = Bytes{};
  for (const TargetId target : touched_) issued_[target] = Bytes{};
  touched_.clear();
}

Stamp Stamper::stamp(OperationId operation, std::span<const TargetShare> shares, TimePoint now) {
  if (!open_) begin_phase({.now = now});
  if (!started_) phase_start_ = now;
  started_ = true;
  Stamp stamp{.application = application_,
              .phase = phase_,
              .issued = now,
              .phase_start = phase_start_,
              .attained = attained_,
              .phase_total = total_,
              .operation = operation,
              .bottleneck = Bytes{}};
  for (const TargetShare& share : shares) {
    if (share.target >= issued_.size()) {
      issued_.resize(share.target + std::size_t{1});
      operation_.resize(share.target + std::size_t{1});
    }
    if (issued_[share.target] == Bytes{}) touched_.push_back(share.target);
    issued_[share.target] += share.bytes;
    operation_[share.target] += share.bytes;
    attained_ = std::max(attained_, issued_[share.target]);
    stamp.bottleneck = std::max(stamp.bottleneck, operation_[share.target]);
  }
  for (const TargetShare& share : shares) operation_[share.target] = Bytes{};
  return stamp;
}

Bytes Stamper::learned(PhaseKind kind) const {
  const auto it = learned_.find(kind);
  return it == learned_.end() ? Bytes{} : it->second;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "job/stamper.h"

#include <algorithm>

#include "sched/announcements.h"

namespace tutti::job {
void Stamper::begin_phase(const PhaseStart& phase) {
  end_phase();
  ++phase_;
  open_ = true;
  started_ = false;
  kind_ = phase.kind;
  announced_ = std::min(phase.announced, kMostBytes);
  expected_ = expected();
  total_ = issued_ = Bytes{};
}

Bytes Stamper::expected() const {
  const auto history = history_.find(kind_);
  if (history == history_.end()) return announced_;
  if (announced_ > Bytes{}) return history->second.announced_wrongly ? Bytes{} : announced_;
  return history->second.varies ? Bytes{} : history->second.size;
}

void Stamper::end_phase() {
  if (open_ && issued_ > Bytes{}) judge();
  open_ = false;
}

void Stamper::judge() {
  if (history_.size() >= kMostKinds && !history_.contains(kind_)) return;
  KindHistory& history = history_[kind_];
  if (announced_ > Bytes{}) history.announced_wrongly = sizes_differ(announced_, issued_);
  history.varies = history.size > Bytes{} && sizes_differ(history.size, issued_);
  history.size = issued_;
}

Stamp Stamper::stamp(const StampedOperation& operation, const Spread& spread, TimePoint now) {
  if (!open_) begin_phase({});
  if (!started_) phase_start_ = now;
  started_ = true;
  if (total_ == Bytes{} && spread.known()) total_ = spread.busiest(expected_);
  const Bytes before = on_busiest(spread);
  issued_ = std::min(kMostBytes, issued_ + std::min(operation.bytes, kMostBytes));
  const Bytes after = on_busiest(spread);
  return {.application = application_,
          .phase = phase_,
          .order = order_,
          .issued = now,
          .phase_start = phase_start_,
          .attained = before,
          .phase_total = total_,
          .operation = operation.id,
          .bottleneck = std::max(after - before, Bytes(1))};
}

Bytes Stamper::on_busiest(const Spread& spread) const {
  if (total_ == Bytes{}) return spread.busiest(issued_);
  const double part = static_cast<double>(issued_.count()) / static_cast<double>(expected_.count());
  const double bytes = part * static_cast<double>(total_.count());
  return bytes < static_cast<double>(kMostBytes.count()) ? Bytes(static_cast<std::uint64_t>(bytes)) : kMostBytes;
}

std::map<PhaseKind, Bytes> Stamper::learned() const {
  std::map<PhaseKind, Bytes> sizes;
  for (const auto& [kind, history] : history_)
    if (history.size > Bytes{}) sizes[kind] = history.size;
  return sizes;
}

Bytes Stamper::learned(PhaseKind kind) const {
  const auto history = history_.find(kind);
  return history == history_.end() ? Bytes{} : history->second.size;
}

void Stamper::remember(PhaseKind kind, Bytes size) {
  if (history_.size() < kMostKinds || history_.contains(kind)) history_[kind].size = std::min(size, kMostBytes);
}

}  // namespace tutti::job

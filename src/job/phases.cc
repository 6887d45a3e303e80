// SPDX-License-Identifier: Apache-2.0
#include "job/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>

namespace tutti::job {
namespace {

// Saturates instead of overflowing.
Bytes times(Bytes bytes, std::uint32_t processes) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(bytes.count(), std::uint64_t{processes}, &product)) product = ~std::uint64_t{0};
  return Bytes(product);
}

Bytes sum(std::span<const TargetShare> shares) {
  Bytes bytes{};
  for (const TargetShare& share : shares) bytes += share.bytes;
  return bytes;
}

}  // namespace

Phases::Phases(const Options& options) : options_(options), stamper_(options.application, options.order) {
  options_.processes = std::max(options_.processes, 1U);
}

void Phases::opened(OpenFileKey file, std::shared_ptr<const Layout> layout) {
  keys_.push_back(file);
  layouts_.push_back(std::move(layout));
  stale_ = true;
}

void Phases::closed(OpenFileKey file) {
  const auto found = std::ranges::find(keys_, file);
  if (found == keys_.end()) return;
  const auto index = found - keys_.begin();
  *found = keys_.back();
  layouts_[static_cast<std::size_t>(index)] = std::move(layouts_.back());
  keys_.pop_back();
  layouts_.pop_back();
  stale_ = true;
}

std::span<const std::shared_ptr<const Layout>> Phases::layouts_of(std::optional<OpenFileKey> file) const {
  const auto found = file ? std::ranges::find(keys_, *file) : keys_.end();
  if (found == keys_.end()) return layouts_;
  return std::span(layouts_).subspan(static_cast<std::size_t>(found - keys_.begin()), 1);
}

std::vector<TargetId> Phases::targets(std::optional<OpenFileKey> file) const {
  std::set<TargetId> targets;
  for (const auto& layout : layouts_of(file)) targets.insert(layout->targets.begin(), layout->targets.end());
  return {targets.begin(), targets.end()};
}

Result<void> Phases::begin(const PhaseAnnouncement& announcement, std::optional<OpenFileKey> file) {
  if (announcement.total > kMostBytes)
    return fail(ErrorCode::kInvalid,
                fmt::format("the phase has {} bytes; at most 2^62 can be announced", announcement.total.count()));
  stamper_.begin_phase({.announced = announcement.total, .kind = announcement.kind});
  stale_ = stale_ || files_ != announcement.files || file_ != file;
  files_ = announcement.files;
  file_ = file;
  announced_ = true;
  return {};
}

void Phases::end() {
  announced_ = false;
  stamper_.end_phase();
}

Stamp Phases::issue(OperationId operation, std::span<const TargetShare> shares, TimePoint now) {
  const Stamp made = stamp(operation, times(sum(shares), options_.processes), now);
  joined(now);
  return made;
}

Stamp Phases::issue_together(OperationId operation, std::span<const TargetShare> shares_of_all, TimePoint now) {
  const Stamp made = stamp(operation, sum(shares_of_all), now);
  last_ = now;
  return made;
}

Stamp Phases::stamp(OperationId operation, Bytes bytes, TimePoint now) {
  if (!announced_ && running_ == 0 && now - last_ >= options_.gap) stamper_.end_phase();
  if (stale_ && (stamper_.at_start() || !spread_.known())) {
    spread_ = Spread::over(layouts_of(file_), {options_.processes, options_.targets, files_});
    stale_ = false;
  }
  return stamper_.stamp({operation, bytes}, spread_, now);
}

void Phases::joined(TimePoint now) {
  ++running_;
  last_ = now;
}

void Phases::completed(TimePoint now) {
  assert(running_ > 0);
  --running_;
  last_ = now;
}

}  // namespace tutti::job

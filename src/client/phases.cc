// SPDX-License-Identifier: Apache-2.0
#include "client/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

namespace tutti {

Phases::Phases(Options options) : options_(std::move(options)), stamper_(options_.application) {
  if (!options_.memory_file.empty()) load();
}

// Lines of "kind bytes"; a damaged line ends it, since it is only a guess that gets lost.
void Phases::load() {
  std::ifstream file(options_.memory_file);
  std::uint64_t kind = 0, bytes = 0;
  while (file >> kind >> bytes) stamper_.remember(kind, Bytes(bytes));
}

Result<void> Phases::save() {
  end();
  if (options_.memory_file.empty() || kinds_.empty()) return {};
  const auto temporary = options_.memory_file + ".new";
  {
    std::ofstream file(temporary);
    for (const auto kind : kinds_) {
      if (stamper_.learned(kind) > Bytes{}) file << kind << ' ' << stamper_.learned(kind).count() << '\n';
    }
  }
  if (std::rename(temporary.c_str(), options_.memory_file.c_str()) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot write {}", options_.memory_file), errno);
  }
  return {};
}

void Phases::begin(const PhaseAnnouncement& announcement, TimePoint now) {
  const auto targets = std::max(options_.targets, 1U);
  const auto busiest = Bytes((announcement.total.count() + targets - 1) / targets);
  stamper_.begin_phase({.now = now, .announced = busiest, .kind = announcement.kind});
  kinds_.insert(announcement.kind);
  announced_ = true;
}

void Phases::end() {
  announced_ = false;
  stamper_.end_phase();
}

Stamp Phases::issue(OperationId operation, std::vector<TargetShare> shares, TimePoint now) {
  if (!announced_ && running_ == 0 && now - last_ >= options_.gap) stamper_.end_phase();
  if (!stamper_.in_phase()) kinds_.insert(0);
  ++running_;
  last_ = now;
  for (TargetShare& share : shares) share.bytes = share.bytes * options_.processes;
  return stamper_.stamp(operation, shares, now);
}

void Phases::completed(TimePoint now) {
  --running_;
  last_ = now;
}

}  // namespace tutti

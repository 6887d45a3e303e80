// SPDX-License-Identifier: Apache-2.0
#include "job/spread.h"

#include <algorithm>
#include <vector>

namespace tutti::job {
namespace {

constexpr std::size_t kMostColumns = 65536;

// Appends the target of each stripe column. Returns the bytes of one column before the next one is used.
Bytes add_columns(const Layout& layout, std::vector<TargetId>& columns) {
  // A full object is followed by objects on other targets, so finally all targets have the same number of bytes.
  const bool rotates = layout.object_size > Bytes{} && layout.targets.size() > layout.stripe_count;
  const std::size_t count = rotates ? layout.targets.size() : layout.stripe_count;
  for (std::size_t i = 0; i < count && columns.size() < kMostColumns; ++i)
    columns.push_back(layout.targets[i % layout.targets.size()]);
  return rotates ? layout.object_size : layout.stripe_size;
}

struct ColumnCounts {
  std::uint64_t most = 0;      // columns on the busiest target
  std::uint64_t distinct = 0;  // targets
};

ColumnCounts count(std::vector<TargetId>& columns) {
  std::ranges::sort(columns);
  ColumnCounts counts;
  for (std::size_t i = 0, begin = 0; i < columns.size(); ++i) {
    if (columns[i] != columns[begin]) begin = i;
    if (i == begin) ++counts.distinct;
    counts.most = std::max<std::uint64_t>(counts.most, i - begin + 1);
  }
  return counts;
}

// bytes * part / whole; part and whole are below 2^32.
Bytes share(Bytes bytes, std::uint64_t part, std::uint64_t whole) {
  return bytes / whole * part + Bytes(bytes.count() % whole * part / whole);
}

}  // namespace

Spread Spread::over(std::span<const std::shared_ptr<const Layout>> layouts, const FileUse& use) {
  Spread spread;
  std::vector<TargetId> all, file;
  for (const auto& layout : layouts) {
    if (all.size() >= kMostColumns || !layout->check()) continue;
    file.clear();
    const Bytes stripe = add_columns(*layout, file);
    all.insert(all.end(), file.begin(), file.end());
    if (file.size() <= spread.file_columns_) continue;
    spread.file_columns_ = file.size();
    const Bytes fits(kMostBytes / file.size());  // a row must fit into 64 bits
    spread.row_ = std::min(stripe, fits) * file.size();
    spread.peak_ = std::min(stripe, fits) * count(file).most;
  }
  if (all.empty()) return {};
  spread.columns_ = all.size();
  const ColumnCounts counts = count(all);
  spread.most_ = counts.most;
  if (use.files == PhaseFiles::kOnePerProcess) {
    spread.parts_ = std::max(use.processes, 1U);
    const double average =
        static_cast<double>(spread.parts_) * static_cast<double>(counts.distinct) / std::max(use.targets, 1U);
    spread.sharing_ = std::clamp(average, 1.0, static_cast<double>(spread.parts_));
  }
  return spread;
}

Bytes Spread::busiest(Bytes total) const {
  if (!known()) return total;
  const Bytes part = std::min(total, kMostBytes) / parts_;
  const Bytes in_file = share(part, file_columns_, columns_);
  const Bytes rest(in_file.count() % row_.count());
  const Bytes of_file = peak_ * (in_file.count() / row_.count()) + std::min(rest, peak_);
  const Bytes busiest = std::max(share(part, most_, columns_), of_file);
  if (sharing_ == 1) return busiest;
  return std::min(total, Bytes(static_cast<std::uint64_t>(static_cast<double>(busiest.count()) * sharing_)));
}

}  // namespace tutti::job

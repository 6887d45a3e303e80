// SPDX-License-Identifier: Apache-2.0
#include "collective/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tutti::collective {
namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;

bool empty(const ExtentRun& run) {
  return run.length == 0 || run.count == 0;
}

std::uint64_t end_of(const ExtentRun& run) {
  return run.at(run.count - 1).end();
}

// The extents of `run` do not overlap, and ascend.
bool ascends(const ExtentRun& run) {
  return run.count == 1 || run.stride >= run.length;
}

// True if end_of() is at most 2^63.
bool fits(const ExtentRun& run) {
  if (run.offset > kEnd || run.length > kEnd - run.offset) return false;
  if (run.count == 1 || run.stride == 0) return true;
  return run.stride <= (kEnd - run.offset - run.length) / (run.count - 1);
}

// Joins extents that follow each other without a gap.
std::vector<Extent> joined(std::span<const Extent> extents) {
  std::vector<Extent> result;
  for (const Extent& extent : extents) {
    if (extent.length == 0) continue;
    if (!result.empty() && result.back().end() == extent.offset)
      result.back().length += extent.length;
    else
      result.push_back(extent);
  }
  return result;
}

}  // namespace

AccessList compress(std::span<const Extent> extents) {
  AccessList list;
  for (const Extent& extent : joined(extents)) {
    ExtentRun* last = list.empty() ? nullptr : &list.back();
    const bool follows = last != nullptr && last->length == extent.length && extent.offset > last->offset;
    if (follows && last->count == 1) {
      last->stride = extent.offset - last->offset;
      last->count = 2;
    } else if (follows && extent.offset == last->at(last->count).offset) {
      ++last->count;
    } else {
      list.push_back({extent.offset, extent.length, 0, 1});
    }
  }
  return list;
}

std::vector<Extent> expand(const AccessList& list) {
  std::vector<Extent> extents;
  for (const ExtentRun& run : list) {
    if (empty(run)) continue;
    for (std::uint64_t i = 0; i < run.count; ++i) extents.push_back(run.at(i));
  }
  return joined(extents);
}

Result<void> check(const AccessList& list) {
  std::uint64_t extents = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ExtentRun& run = list[i];
    if (empty(run)) continue;
    extents += std::min(run.count, kMostExtents + 1);
    if (extents > kMostExtents)
      return fail(ErrorCode::kInvalid, fmt::format("run {}: the list has more than 2^31 extents", i));
    if (!fits(run))
      return fail(ErrorCode::kInvalid,
                  fmt::format("run {} (offset {}, length {}, stride {}, count {}) ends after 2^63, the end of any file",
                              i, run.offset, run.length, run.stride, run.count));
    if (run.count > (kEnd - bytes) / run.length)
      return fail(ErrorCode::kInvalid, fmt::format("run {}: the list has more than 2^63 bytes", i));
    bytes += run.length * run.count;
  }
  return {};
}

bool ascending(const AccessList& list) {
  std::uint64_t end = 0;
  for (const ExtentRun& run : list) {
    if (empty(run)) continue;
    if (run.offset < end || !ascends(run)) return false;
    end = end_of(run);
  }
  return true;
}

AccessList sorted(const AccessList& list) {
  std::vector<Extent> extents = expand(list);
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::vector<Extent> united;
  for (const Extent& extent : extents) {
    if (!united.empty() && extent.offset <= united.back().end())
      united.back().length = std::max(united.back().end(), extent.end()) - united.back().offset;
    else
      united.push_back(extent);
  }
  return compress(united);
}

std::uint64_t bytes_of(const AccessList& list) {
  std::uint64_t bytes = 0;
  for (const ExtentRun& run : list) bytes += run.length * run.count;
  return bytes;
}

PackedMemory::PackedMemory(const AccessList& list) {
  const bool in_order = ascending(list);
  for (const ExtentRun& run : list) {
    if (empty(run)) continue;
    if (in_order) {
      entries_.push_back({run, size_, end_of(run)});
    } else {
      for (std::uint64_t i = 0; i < run.count; ++i)
        entries_.push_back({{run.at(i).offset, run.length, 0, 1}, size_ + i * run.length, run.at(i).end()});
    }
    size_ += run.length * run.count;
  }
  if (in_order) return;
  const auto before = [](const Entry& a, const Entry& b) { return a.run.offset < b.run.offset; };
  std::stable_sort(entries_.begin(), entries_.end(), before);
  for (std::size_t i = 1; i < entries_.size(); ++i)
    entries_[i].reach = std::max(entries_[i].reach, entries_[i - 1].reach);
}

void PackedMemory::find(const Extent& extent, std::vector<Part>& parts) const {
  const auto ends_before = [](const Entry& entry, std::uint64_t offset) { return entry.reach <= offset; };
  auto entry = std::lower_bound(entries_.begin(), entries_.end(), extent.offset, ends_before);
  for (; entry != entries_.end() && entry->run.offset < extent.end(); ++entry) {
    const ExtentRun& run = entry->run;
    const std::uint64_t step = run.count == 1 ? 1 : run.stride;
    std::uint64_t index = extent.offset <= run.offset ? 0 : (extent.offset - run.offset) / step;
    for (index = std::min(index, run.count - 1); index < run.count; ++index) {
      const Extent own = run.at(index);
      if (own.offset >= extent.end()) break;
      const std::uint64_t begin = std::max(own.offset, extent.offset);
      const std::uint64_t end = std::min(own.end(), extent.end());
      if (begin >= end) continue;
      parts.push_back({begin, entry->position + index * run.length + (begin - own.offset), end - begin});
    }
  }
}

}  // namespace tutti::collective

// SPDX-License-Identifier: Apache-2.0
#include "sim/page_cache.h"

#include <algorithm>

namespace tutti::sim {

PageCache::Found PageCache::read(FileId file, ByteRange range, std::uint32_t ticket) {
  std::vector<CachedRange>& ranges = files_[file];
  const std::uint64_t end = range.offset + range.length;
  bool stream = false;
  for (const CachedRange& cached : ranges) {
    if (cached.begin <= range.offset && end <= cached.end)
      return cached.ticket == kPresent ? Found{Location::kMemory, 0, 0} : Found{Location::kUnderWay, cached.ticket, 0};
    stream = stream || (cached.begin < range.offset && range.offset <= cached.end);
  }
  const std::uint64_t length = stream ? std::max(range.length, read_ahead_) : range.length;
  ranges.push_back({range.offset, range.offset + length, ticket});
  return {Location::kDevice, 0, length};
}

void PageCache::arrived(FileId file, std::uint32_t ticket) {
  std::vector<CachedRange>& ranges = files_[file];
  const auto its = std::find_if(ranges.begin(), ranges.end(), [&](const CachedRange& w) { return w.ticket == ticket; });
  if (its == ranges.end()) return;
  its->ticket = kPresent;
  // Merges adjoining ranges, so that a stream has one.
  CachedRange grown = *its;
  ranges.erase(its);
  for (auto other = ranges.begin(); other != ranges.end();) {
    const bool joins = other->ticket == kPresent && other->begin <= grown.end && grown.begin <= other->end;
    if (joins) grown = {std::min(grown.begin, other->begin), std::max(grown.end, other->end), kPresent};
    other = joins ? ranges.erase(other) : other + 1;
  }
  ranges.push_back(grown);
}

}  // namespace tutti::sim

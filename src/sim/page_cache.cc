// SPDX-License-Identifier: Apache-2.0
#include "sim/page_cache.h"

#include <algorithm>

namespace tutti::sim {

PageCache::Found PageCache::read(FileId file, Range range, std::uint32_t ticket) {
  std::vector<Window>& windows = files_[file];
  const std::uint64_t end = range.offset + range.length;
  bool stream = false;
  for (const Window& window : windows) {
    if (window.begin <= range.offset && end <= window.end)
      return window.ticket == kNobody ? Found{Place::kMemory, 0, 0} : Found{Place::kUnderWay, window.ticket, 0};
    stream = stream || (window.begin < range.offset && range.offset <= window.end);
  }
  const std::uint64_t length = stream ? std::max(range.length, read_ahead_) : range.length;
  windows.push_back({range.offset, range.offset + length, ticket});
  return {Place::kDevice, 0, length};
}

void PageCache::arrived(FileId file, std::uint32_t ticket) {
  std::vector<Window>& windows = files_[file];
  const auto its = std::find_if(windows.begin(), windows.end(), [&](const Window& w) { return w.ticket == ticket; });
  if (its == windows.end()) return;
  its->ticket = kNobody;
  // Grows the windows it adjoins, so that a stream has one.
  Window grown = *its;
  windows.erase(its);
  for (auto other = windows.begin(); other != windows.end();) {
    const bool joins = other->ticket == kNobody && other->begin <= grown.end && grown.begin <= other->end;
    if (joins) grown = {std::min(grown.begin, other->begin), std::max(grown.end, other->end), kNobody};
    other = joins ? windows.erase(other) : other + 1;
  }
  windows.push_back(grown);
}

}  // namespace tutti::sim

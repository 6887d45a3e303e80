// SPDX-License-Identifier: Apache-2.0
// What a server's file system keeps in memory of the files it reads, and what it reads ahead.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tutti::sim {

// A read that goes on where an earlier one ended is a stream, and brings in `read_ahead` from the device; any other
// brings in what was asked for. What was brought in stays: scenarios move far less than servers have memory.
// Pure bookkeeping, one per server. Not thread-safe.
class PageCache {
 public:
  struct Range {
    std::uint64_t offset = 0;  // in the server's own file
    std::uint64_t length = 0;
  };
  enum class Place : std::uint8_t { kMemory, kUnderWay, kDevice };
  struct Found {
    Place place = Place::kDevice;
    std::uint32_t ticket = 0;  // kUnderWay: of the read that brings it
    std::uint64_t length = 0;  // kDevice: bytes to read, from the range's beginning on
  };

  explicit PageCache(Bytes read_ahead = Bytes{}) : read_ahead_(read_ahead.count()) {}

  // Where the range is. Where it is on the device, a read under `ticket` is taken to start now.
  Found read(FileId file, Range range, std::uint32_t ticket);
  // The read under `ticket` is done.
  void arrived(FileId file, std::uint32_t ticket);

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  struct Window {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t ticket = kNobody;  // of the read that brings it; kNobody: it is there
  };

  std::uint64_t read_ahead_;
  std::unordered_map<FileId, std::vector<Window>> files_;  // few windows each: one per stream
};

}  // namespace tutti::sim

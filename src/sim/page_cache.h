// SPDX-License-Identifier: Apache-2.0
// A model of a server's page cache and read-ahead.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tutti::sim {

// A read that continues an earlier one is a stream and loads `read_ahead` bytes from the device. Other reads load the
// requested range only. Loaded data stays, because scenarios move much less data than servers have memory.
// One object per server; it only keeps records. Not thread-safe.
class PageCache {
 public:
  struct ByteRange {
    std::uint64_t offset = 0;  // in the server's part of the file
    std::uint64_t length = 0;
  };
  enum class Location : std::uint8_t { kMemory, kUnderWay, kDevice };
  struct Found {
    Location location = Location::kDevice;
    std::uint32_t ticket = 0;  // kUnderWay: of the read that loads it
    std::uint64_t length = 0;  // kDevice: bytes to read, from the beginning of the range
  };

  explicit PageCache(Bytes read_ahead = Bytes{}) : read_ahead_(read_ahead.count()) {}

  // Where the range is. If it is on the device, a read with `ticket` starts now.
  Found read(FileId file, ByteRange range, std::uint32_t ticket);
  // The read with `ticket` has ended.
  void arrived(FileId file, std::uint32_t ticket);

 private:
  static constexpr std::uint32_t kPresent = ~std::uint32_t{0};
  struct CachedRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t ticket = kPresent;  // of the read that loads it; kPresent: it is in memory
  };

  std::uint64_t read_ahead_;
  std::unordered_map<FileId, std::vector<CachedRange>> files_;  // a few ranges per file: one per stream
};

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// The trace file (docs/trace-format.md): a header and blocks, each with its own checksum. A block can be read without
// the others, so a damaged or cut-off block costs only its own requests.
//
// Encoding is pure: it returns bytes and writes nothing to disk. decode.h reads the format.
#pragma once

#include <tutti/sched.h>

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::trace {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kFileHeaderSize = 32, kBlockHeaderSize = 44;
inline constexpr std::size_t kMaxFacts = 4096;        // bytes
inline constexpr std::size_t kMaxBlock = 1 << 20;     // bytes of a block without its header
inline constexpr std::size_t kUsualBlock = 64 << 10;  // a block that has reached this size should be ended
inline constexpr std::size_t kMaxPathLength = 4096;   // longer paths are cut
inline constexpr std::string_view kFileMagic = "TUTTITRC";
inline constexpr std::uint32_t kBlockMagic = 0x4b4c4254;  // "TBLK"

// Facts about a recording: "node", "policy", "device". Names and values have no newline; names have no space.
using Facts = std::map<std::string, std::string>;

// The first bytes of a file.
struct FileHeader {
  TimePoint start{};  // the recording's time zero, on the wall clock; the same in all files of a recording
  Facts facts{};      // beyond kMaxFacts bytes they are left out

  friend bool operator==(const FileHeader&, const FileHeader&) = default;
};
std::vector<std::byte> encode_header(const FileHeader& header);

// What is written for a request that arrives.
struct TracedArrival {
  Duration time{};  // since the start of the recording
  FileId file = 0;
  ApplicationId application = 0;
  std::uint64_t offset = 0;
  Bytes length{};
  TargetId target = 0;
  Direction direction = Direction::kRead;
  std::uint32_t process = 0;  // any number that identifies it among the processes of all applications
};

// Collects arrivals and completions, and makes blocks of them. Requests are numbered in the order of add(), from 0.
// Times of arrivals that go back are raised to the time before. Not thread-safe.
class BlockEncoder {
 public:
  // `path` is used unless knows(arrival.file). Returns the number of the request.
  std::uint64_t add(const TracedArrival& arrival, std::string_view path);
  // The request with this number has ended.
  void complete(std::uint64_t number, Duration time);
  // Counts requests that were not recorded, so that readers know of them. Call it only while empty() is true.
  void skip(std::uint64_t requests) {
    assert(empty());
    next_ += requests;
  }

  // False: the next add() of this file needs its path.
  bool knows(FileId file) { return find(file) != kNoFile; }
  bool empty() const { return requests_ == 0 && completions_ == 0; }
  bool full() const { return end_ >= kUsualBlock && !payload_.empty(); }
  // Ends the block and returns its bytes. Empty if nothing was added.
  std::vector<std::byte> take();

 private:
  static constexpr std::size_t kMostRecord = kMaxPathLength + 128;  // bytes

  static constexpr std::uint32_t kNoFile = ~0U;

  void begin_record();
  // The index of the file in this block, or kNoFile.
  std::uint32_t find(FileId file) {
    const FoundFile& found = found_[file % kFound];
    return found.index != kNoFile && found.file == file ? found.index : find_in_table(file);
  }
  std::uint32_t find_in_table(FileId file);
  std::byte* put_path(std::byte* out, std::string_view path);
  std::byte* put_process(std::byte* out, std::uint32_t process);

  std::vector<std::byte> payload_{};  // the block, and free memory after it; empty: no block was begun
  std::size_t end_ = 0;               // of the block
  boost::unordered_flat_map<FileId, std::uint32_t> files_;                   // indexes in this block
  std::vector<std::uint64_t> ends_;                                          // of each file's last request, by index
  boost::unordered_flat_map<std::uint32_t, std::uint32_t> process_indexes_;  // of this block
  std::string last_path_;
  TracedArrival last_{};               // values that the next record leaves out if they are equal
  std::uint32_t last_file_ = kNoFile;  // index
  // What find() has found, and the process last put, by the low bits of their numbers: faster than hash tables.
  static constexpr std::size_t kFound = 64;
  struct FoundFile {
    FileId file = 0;
    std::uint32_t index = kNoFile;
  };
  struct FoundProcess {
    std::uint32_t process = 0;
    std::uint32_t index = kNoFile;
  };
  std::array<FoundFile, kFound> found_{};
  std::array<FoundProcess, kFound> found_processes_{};
  std::uint64_t next_completed_ = 0;  // number after that of the last completion
  std::uint32_t requests_ = 0, completions_ = 0;
  std::uint64_t first_ = 0;  // number of the block's first request
  std::uint64_t next_ = 0;   // number of the next request
  Duration base_{};          // of the block: time of the last arrival before it, or of its first record
  Duration time_{};          // of the last arrival, over all blocks
  Duration last_end_{};      // of the last completion in the block
};

// Bits of a record's first byte.
enum RecordBits : std::uint8_t {
  kWriteBit = 1,
  kFileBit = 2,         // a file index follows
  kApplicationBit = 4,  // and so on; a value without its bit is that of the record before
  kTargetBit = 8,
  kProcessBit = 16,  // a process index
  kLengthBit = 32,
  kOffsetBit = 64,  // distance from the end of the file's last request; without it: no distance
  kCompletionBit = 128,
  kNextNumberBit = 1,  // of a completion: the request after the one that completed last
};

// The checksum of headers and blocks.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace tutti::trace

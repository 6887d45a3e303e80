// SPDX-License-Identifier: Apache-2.0
// Reads trace files. Pure: the caller reads the bytes. Memory grows with the bytes that were given, never with a number
// in them.
#pragma once

#include <string>
#include <unordered_map>

#include "trace/bytes.h"
#include "trace/recording.h"

namespace tutti::trace {

enum class Names : std::uint8_t {
  kPatterns,  // Trace::files has name_pattern() of each path: files of several runs become the same file
  kPaths,     // Trace::files has the paths themselves
};

// kInvalid: the message names source and byte. Nothing of the file can be used.
Result<FileHeader> decode_header(std::span<const std::byte> bytes, const std::string& source);

// Decodes the files of one recording, in the order in which they were written. Not thread-safe.
class Decoder {
 public:
  Decoder(const FileHeader& header, Names names) : names_(names) {
    recording_.start = header.start;
    recording_.facts = header.facts;
  }

  // `bytes` is a whole file that begins with the decoder's header. Blocks that are damaged or cut off are left out,
  // with a text in Recording::problems.
  void add(std::span<const std::byte> bytes, const std::string& source);

  // The recording; its times begin with the first request. Call once.
  Recording take();

 private:
  struct BlockHeader {
    std::uint32_t size = 0, requests = 0, completions = 0;
    std::uint64_t first = 0;
    Duration base{};
    std::uint64_t payload_checksum = 0;
  };
  // Requests with consecutive numbers that lie one after another in the trace.
  struct RequestRange {
    std::uint64_t first = 0;  // number
    std::size_t index = 0;    // in the trace
    std::size_t count = 0;
  };
  struct BlockFile {
    std::uint32_t index = 0;  // in the trace
    std::uint64_t end = 0;
  };
  // What the records of a block refer to.
  struct BlockState {
    std::vector<BlockFile> files{};
    std::vector<std::uint32_t> processes{};
    std::string path{};
    TraceRequest last{};
    Duration end{};  // of the last completion
    std::uint32_t file = ~0U;
    std::uint64_t next_completed = 0;
    std::uint64_t number = 0;
    std::uint32_t requests = 0, completions = 0;
  };

  static bool read_block_header(std::span<const std::byte> bytes, BlockHeader& block);
  void add_block(const BlockHeader& block, std::span<const std::byte> payload, const std::string& where);
  const char* add_record(ByteReader& reader, BlockState& state);
  const char* add_request(ByteReader& reader, BlockState& state, std::uint8_t bits);
  const char* add_completion(ByteReader& reader, BlockState& state, std::uint8_t bits);
  const char* read_process(ByteReader& reader, BlockState& state);
  const char* add_file(ByteReader& reader, BlockState& state);
  std::uint32_t file_index(const std::string& path);
  TraceRequest* find(std::uint64_t number);

  const Names names_;
  Recording recording_;
  std::unordered_map<std::string, std::uint32_t> files_;
  std::vector<RequestRange> ranges_;  // ascending
  std::uint64_t next_ = 0;            // number after the last request
  Duration time_{};                   // of the last arrival
  bool in_order_ = true;              // numbers of this block may be used
};

}  // namespace tutti::trace

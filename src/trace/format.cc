// SPDX-License-Identifier: Apache-2.0
#include "trace/format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cassert>

#include "trace/bytes.h"

namespace tutti::trace {
namespace {

void put_bytes(std::vector<std::byte>& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::string facts_text(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    const bool fits = text.size() + name.size() + value.size() + 2 <= kMaxFacts;
    const bool well_formed = !name.empty() && name.find_first_of(" \n") == std::string::npos;
    if (fits && well_formed && value.find('\n') == std::string::npos) text += name + " " + value + "\n";
  }
  return text;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::byte> encode_header(const FileHeader& header) {
  const std::string facts = facts_text(header.facts);
  std::vector<std::byte> out;
  put_bytes(out, kFileMagic);
  out.resize(kFileHeaderSize);
  store_integer(std::span(out), 8, kVersion);
  store_integer(std::span(out), 12, static_cast<std::uint32_t>(facts.size()));
  store_integer(std::span(out), 16, static_cast<std::int64_t>(header.start.time_since_epoch().count()));
  put_bytes(out, facts);
  store_integer(std::span(out), 24, checksum(out));  // computed while its own bytes are zero
  return out;
}

void BlockEncoder::begin_record() {
  if (payload_.empty()) {
    end_ = kBlockHeaderSize;
    payload_.resize(kBlockHeaderSize + kUsualBlock + kMostRecord);
    base_ = last_.time = last_end_ = time_;
    first_ = next_;
  }
  if (payload_.size() - end_ < kMostRecord) payload_.resize(2 * payload_.size());
}

std::byte* BlockEncoder::put_path(std::byte* out, std::string_view path) {
  path = path.substr(0, kMaxPathLength);
  const auto differs = std::mismatch(path.begin(), path.end(), last_path_.begin(), last_path_.end()).first;
  const auto shared = static_cast<std::size_t>(differs - path.begin());
  out = put_varint(out, shared);
  out = put_varint(out, path.size() - shared);
  last_path_ = path;
  return std::ranges::copy(std::as_bytes(std::span(path.substr(shared))), out).out;
}

std::byte* BlockEncoder::put_process(std::byte* out, std::uint32_t process) {
  FoundProcess& found = found_processes_[process % kFound];
  if (found.index != kNoFile && found.process == process) return put_varint(out, found.index);
  const auto next = static_cast<std::uint32_t>(process_indexes_.size());
  const auto [known, is_new] = process_indexes_.try_emplace(process, next);
  found = {process, known->second};
  out = put_varint(out, known->second);
  return is_new ? put_varint(out, process) : out;
}

std::uint32_t BlockEncoder::find_in_table(FileId file) {
  const auto known = files_.find(file);
  if (known == files_.end()) return kNoFile;
  found_[file % kFound] = {file, known->second};
  return known->second;
}

std::uint64_t BlockEncoder::add(const TracedArrival& arrival, std::string_view path) {
  time_ = std::max(time_, arrival.time);
  begin_record();
  std::uint32_t file = find(arrival.file);
  const bool is_new = file == kNoFile;
  if (is_new) {
    file = static_cast<std::uint32_t>(ends_.size());
    files_.emplace(arrival.file, file);
    ends_.push_back(0);
  }
  std::uint64_t& expected = ends_[file];
  std::uint8_t bits = arrival.direction == Direction::kWrite ? kWriteBit : 0;
  if (file != last_file_) bits |= kFileBit;
  if (arrival.application != last_.application) bits |= kApplicationBit;
  if (arrival.target != last_.target) bits |= kTargetBit;
  if (arrival.process != last_.process) bits |= kProcessBit;
  if (arrival.length != last_.length) bits |= kLengthBit;
  if (arrival.offset != expected) bits |= kOffsetBit;
  std::byte* out = payload_.data() + end_;
  *out++ = static_cast<std::byte>(bits);
  out = put_varint(out, static_cast<std::uint64_t>((time_ - last_.time).count()));
  if (bits & kFileBit) out = put_varint(out, file);
  if (is_new) out = put_path(out, path);
  if (bits & kApplicationBit) out = put_varint(out, arrival.application);
  if (bits & kTargetBit) out = put_varint(out, arrival.target);
  if (bits & kProcessBit) out = put_process(out, arrival.process);
  if (bits & kLengthBit) out = put_varint(out, arrival.length.count());
  if (bits & kOffsetBit) out = put_varint(out, fold(static_cast<std::int64_t>(arrival.offset - expected)));
  end_ = static_cast<std::size_t>(out - payload_.data());
  last_ = arrival;
  last_.time = time_;
  last_file_ = file;
  expected = arrival.offset + arrival.length.count();
  ++requests_;
  return next_++;
}

void BlockEncoder::complete(std::uint64_t number, Duration time) {
  assert(number < next_);
  begin_record();
  const bool in_order = number == next_completed_ && completions_ > 0;
  std::byte* out = payload_.data() + end_;
  *out++ = static_cast<std::byte>(kCompletionBit | (in_order ? kNextNumberBit : 0));
  out = put_varint(out, fold((time - last_end_).count()));
  if (!in_order) out = put_varint(out, next_ - number);
  end_ = static_cast<std::size_t>(out - payload_.data());
  last_end_ = time;
  next_completed_ = number + 1;
  ++completions_;
}

std::vector<std::byte> BlockEncoder::take() {
  if (payload_.empty()) return {};
  payload_.resize(end_);
  const std::span<std::byte> all(payload_);
  store_integer(all, 0, kBlockMagic);
  store_integer(all, 4, static_cast<std::uint32_t>(payload_.size() - kBlockHeaderSize));
  store_integer(all, 8, requests_);
  store_integer(all, 12, completions_);
  store_integer(all, 16, first_);
  store_integer(all, 24, static_cast<std::int64_t>(base_.count()));
  store_integer(all, 32, checksum(all.subspan(kBlockHeaderSize)));
  store_integer(all, 40, static_cast<std::uint32_t>(checksum(all.first(40))));
  files_.clear();
  ends_.clear();
  process_indexes_.clear();
  last_path_.clear();
  last_ = {};
  last_file_ = kNoFile;
  found_ = {};
  found_processes_ = {};
  requests_ = completions_ = 0;
  return std::exchange(payload_, {});
}

}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include "trace/decode.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::trace {
namespace {

constexpr std::uint64_t kEndOfFiles = std::uint64_t{1} << 63;
constexpr Duration kLongestTime = Duration::max() / 4;  // sums of two times cannot overflow

Failure wrong(const std::string& source, std::size_t byte, std::string_view what) {
  return fail(ErrorCode::kInvalid, fmt::format("{}: byte {}: {}", source, byte, what));
}

Facts parse_facts(std::string_view text) {
  Facts facts;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) facts.emplace(line.substr(0, space), line.substr(space + 1));
  }
  return facts;
}

}  // namespace

Result<FileHeader> decode_header(std::span<const std::byte> bytes, const std::string& source) {
  if (bytes.empty()) return wrong(source, 0, "the file is empty; nothing was recorded before the writer ended");
  if (bytes.size() < kFileHeaderSize)
    return wrong(source, bytes.size(), fmt::format("the file ends inside its header of {} bytes", kFileHeaderSize));
  if (std::memcmp(bytes.data(), kFileMagic.data(), kFileMagic.size()) != 0)
    return wrong(source, 0, fmt::format("not a trace: it does not begin with {}", kFileMagic));
  const auto version = load_integer<std::uint32_t>(bytes, 8);
  if (version != kVersion)
    return wrong(source, 8, fmt::format("version {} of the format; this program reads version {}", version, kVersion));
  const auto size = load_integer<std::uint32_t>(bytes, 12);
  if (size > kMaxFacts || size > bytes.size() - kFileHeaderSize)
    return wrong(source, 12, "the header is longer than the file, or over its limit");
  std::vector<std::byte> checked(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(kFileHeaderSize + size));
  store_integer(std::span(checked), 24, std::uint64_t{0});
  if (checksum(checked) != load_integer<std::uint64_t>(bytes, 24))
    return wrong(source, 24, "the checksum of the header is wrong");
  const auto start = load_integer<std::int64_t>(bytes, 16);
  if (start < 0 || start > Duration::max().count() / 2) return wrong(source, 16, "an impossible start time");
  const auto facts = bytes.subspan(kFileHeaderSize, size);
  return FileHeader{.start = TimePoint(Duration(start)),
                    .facts = parse_facts({reinterpret_cast<const char*>(facts.data()), facts.size()})};
}

bool Decoder::read_block_header(std::span<const std::byte> bytes, BlockHeader& block) {
  if (bytes.size() < kBlockHeaderSize || load_integer<std::uint32_t>(bytes, 0) != kBlockMagic) return false;
  if (static_cast<std::uint32_t>(checksum(bytes.first(40))) != load_integer<std::uint32_t>(bytes, 40)) return false;
  block.size = load_integer<std::uint32_t>(bytes, 4);
  block.requests = load_integer<std::uint32_t>(bytes, 8);
  block.completions = load_integer<std::uint32_t>(bytes, 12);
  block.first = load_integer<std::uint64_t>(bytes, 16);
  block.base = Duration(load_integer<std::int64_t>(bytes, 24));
  block.payload_checksum = load_integer<std::uint64_t>(bytes, 32);
  return true;
}

void Decoder::add(std::span<const std::byte> bytes, const std::string& source) {
  Problems& problems = recording_.problems;
  const auto at = [&](std::size_t byte, std::string_view what) {
    problems.add(fmt::format("{}: byte {}: {}", source, byte, what));
  };
  std::size_t position = kFileHeaderSize + load_integer<std::uint32_t>(bytes, 12);
  bool searching = false;  // for the next block, after bytes that are none
  while (position < bytes.size()) {
    const auto rest = bytes.subspan(position);
    BlockHeader block;
    if (!read_block_header(rest, block)) {
      if (!searching) at(position, rest.size() < kBlockHeaderSize ? "the file ends inside a block" : "a damaged block");
      searching = true;
      ++position;
      continue;
    }
    searching = false;
    const std::size_t end = position + kBlockHeaderSize + block.size;
    if (block.size > rest.size() - kBlockHeaderSize)
      return at(position, "the file ends inside a block: its writer was stopped, or the disk was full");
    const auto payload = rest.subspan(kBlockHeaderSize, block.size);
    if (block.size > kMaxBlock || checksum(payload) != block.payload_checksum)
      at(position, "the checksum of a block is wrong");
    else
      add_block(block, payload, fmt::format("{}: byte {}: ", source, position));
    position = end;
  }
}

void Decoder::add_block(const BlockHeader& block, std::span<const std::byte> payload, const std::string& where) {
  Problems& problems = recording_.problems;
  if (block.base < Duration::zero() || block.base > kLongestTime) return problems.add(where + "an impossible time");
  if (block.base < time_) problems.add(where + "the clock went back; the times of this block were raised");
  in_order_ = block.first >= next_ && block.first < kEndOfFiles;
  if (!in_order_) problems.add(where + "a block out of order; its completions are not used");
  if (in_order_ && !ranges_.empty()) recording_.missing += block.first - next_;
  std::vector<TraceRequest>& requests = recording_.trace.requests;
  const RequestRange range{.first = in_order_ ? block.first : next_, .index = requests.size()};
  BlockState state;
  state.last.time = state.end = block.base;
  state.number = range.first;
  ByteReader reader(payload);
  while (!reader.finished()) {
    const char* mistake = add_record(reader, state);
    if (!mistake && reader.good()) continue;
    problems.add(where + (mistake && reader.good() ? mistake : "a record is cut off"));
    break;
  }
  if (reader.good() && reader.finished() &&
      (state.requests != block.requests || state.completions != block.completions))
    problems.add(where + "the block has another number of records than its header states");
  next_ = state.number;
  if (requests.size() > range.index) {
    ranges_.push_back(range);
    ranges_.back().count = requests.size() - range.index;
  }
}

const char* Decoder::add_record(ByteReader& reader, BlockState& state) {
  const std::uint8_t bits = reader.byte();
  if ((bits & kCompletionBit) != 0) return add_completion(reader, state, bits);
  const std::uint64_t passed = reader.varint();
  if (!reader.good()) return nullptr;
  if (passed > static_cast<std::uint64_t>((kLongestTime - state.last.time).count())) return "an impossible time";
  state.last.time += Duration(static_cast<std::int64_t>(passed));
  time_ = std::max(time_, state.last.time);
  return add_request(reader, state, bits);
}

const char* Decoder::add_file(ByteReader& reader, BlockState& state) {
  const std::uint64_t shared = reader.varint(), added = reader.varint();
  if (shared > state.path.size() || added > kMaxPathLength - shared) return "an impossible file name";
  const auto text = reader.take(added);
  if (!reader.good()) return nullptr;
  state.path.resize(shared);
  state.path.append(reinterpret_cast<const char*>(text.data()), text.size());
  state.files.push_back({.index = file_index(state.path)});
  return nullptr;
}

std::uint32_t Decoder::file_index(const std::string& path) {
  std::vector<std::string>& files = recording_.trace.files;
  std::string name = names_ == Names::kPatterns ? name_pattern(path) : path;
  const auto [known, is_new] = files_.try_emplace(name, static_cast<std::uint32_t>(files.size()));
  if (is_new) files.push_back(std::move(name));
  return known->second;
}

const char* Decoder::read_process(ByteReader& reader, BlockState& state) {
  const std::uint64_t index = reader.varint();
  if (index > state.processes.size()) return "an unknown process";
  if (index == state.processes.size()) {
    const std::uint64_t process = reader.varint();
    if (process > ~std::uint32_t{0}) return "a number is over its limit";
    state.processes.push_back(static_cast<std::uint32_t>(process));
  }
  state.last.process = state.processes[index];
  return nullptr;
}

const char* Decoder::add_request(ByteReader& reader, BlockState& state, std::uint8_t bits) {
  if (bits & kFileBit) {
    const std::uint64_t file = reader.varint();
    if (file > state.files.size()) return "an unknown file";
    if (file == state.files.size())
      if (const char* mistake = add_file(reader, state)) return mistake;
    state.file = static_cast<std::uint32_t>(file);
  }
  if (!reader.good()) return nullptr;
  if (state.file >= state.files.size()) return "a request without a file";
  TraceRequest& request = state.last;
  BlockFile& file = state.files[state.file];
  const auto number = [&](RecordBits bit, std::uint32_t& value) {
    if ((bits & bit) == 0) return true;
    const std::uint64_t given = reader.varint();
    value = static_cast<std::uint32_t>(given);
    return given <= ~std::uint32_t{0};
  };
  if (!number(kApplicationBit, request.application) || !number(kTargetBit, request.target))
    return "a number is over its limit";
  if (bits & kProcessBit)
    if (const char* mistake = read_process(reader, state)) return mistake;
  if (bits & kLengthBit) request.length = Bytes(reader.varint());
  request.offset = file.end;
  if (bits & kOffsetBit) request.offset += static_cast<std::uint64_t>(unfold(reader.varint()));
  if (!reader.good()) return nullptr;
  const std::uint64_t length = request.length.count();
  if (length == 0 || request.offset > kEndOfFiles || length > kEndOfFiles - request.offset)
    return "a request of length 0, or past 2^63";
  file.end = request.offset + length;
  request.file = file.index;
  request.direction = (bits & kWriteBit) != 0 ? Direction::kWrite : Direction::kRead;
  recording_.trace.requests.push_back(request);
  recording_.trace.requests.back().time = time_;
  ++state.requests;
  ++state.number;
  return nullptr;
}

const char* Decoder::add_completion(ByteReader& reader, BlockState& state, std::uint8_t bits) {
  const std::int64_t passed = unfold(reader.varint());
  std::uint64_t number = state.next_completed;
  if ((bits & kNextNumberBit) == 0) number = state.number - reader.varint();
  if (!reader.good()) return nullptr;
  if (passed > kLongestTime.count() || passed < -kLongestTime.count()) return "an impossible time";
  state.end = std::clamp(state.end + Duration(passed), -kLongestTime, kLongestTime);
  if (number >= state.number) return "a completion of a request that had not arrived";
  state.next_completed = number + 1;
  ++state.completions;
  if (!in_order_) return nullptr;
  const std::uint64_t in_block = state.number - state.requests;  // first number of this block
  std::vector<TraceRequest>& requests = recording_.trace.requests;
  TraceRequest* request = number >= in_block ? &requests[requests.size() - (state.number - number)] : find(number);
  if (request) request->completed = std::max(state.end, request->time);
  return nullptr;
}

TraceRequest* Decoder::find(std::uint64_t number) {
  const auto after = std::ranges::upper_bound(ranges_, number, {}, &RequestRange::first);
  if (after == ranges_.begin()) return nullptr;
  const RequestRange& range = *std::prev(after);
  if (number - range.first >= range.count) return nullptr;
  return &recording_.trace.requests[range.index + (number - range.first)];
}

Recording Decoder::take() {
  std::vector<TraceRequest>& requests = recording_.trace.requests;
  if (!requests.empty()) {
    const Duration first = requests.front().time;
    for (TraceRequest& request : requests) {
      request.time -= first;
      if (request.has_completed()) request.completed -= first;
    }
    recording_.start += first;
  }
  return std::move(recording_);
}

}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/prng.h"
#include "trace/decode.h"

namespace tutti::trace {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using File = std::vector<std::byte>;

const FileHeader kHeader{.start = TimePoint(1000s), .facts = {{"node", "node0"}, {"policy", "concert"}}};

void append(File& file, const File& block) {
  file.insert(file.end(), block.begin(), block.end());
}

Result<Recording> decode(const File& file, Names names = Names::kPatterns) {
  const auto header = decode_header(file, "x.trace");
  if (!header) return Failure(header.error());
  Decoder decoder(*header, names);
  decoder.add(file, "x.trace");
  return decoder.take();
}

std::string path_of(FileId file) {
  return fmt::format("/scratch/run/checkpoint.{:04}", file);
}

// Requests of four applications as they arrive at one of four servers: mostly in order within a file, at random times.
std::vector<TracedArrival> arrivals(std::size_t count) {
  Prng chance(7);
  std::vector<TracedArrival> list;
  std::vector<std::uint64_t> ends(64);
  Duration time{};
  for (std::size_t i = 0; i < count; ++i) {
    time += Duration(static_cast<std::int64_t>(chance.below(200'000)));
    const auto application = static_cast<ApplicationId>(chance.below(4));
    const FileId file = application * 16 + chance.below(16);
    const std::uint64_t offset = chance.below(10) == 0 ? chance.below(std::uint64_t{1} << 40) : ends[file];
    const Bytes length(application == 0 ? 65536 : 4096);
    ends[file] = offset + length.count() + 3 * 65536;  // the other servers' stripes
    list.push_back({.time = time,
                    .file = file,
                    .application = 100 + application,
                    .offset = offset,
                    .length = length,
                    .target = 3,
                    .direction = application % 2 ? Direction::kWrite : Direction::kRead});
  }
  return list;
}

struct Encoded {
  File file;
  std::vector<std::size_t> blocks;  // where each begins
};

// Every request completes 20 requests later.
Encoded encode(const std::vector<TracedArrival>& list) {
  BlockEncoder encoder;
  Encoded result{encode_header(kHeader), {}};
  const auto end_block = [&] {
    result.blocks.push_back(result.file.size());
    append(result.file, encoder.take());
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(encoder.add(list[i], path_of(list[i].file)), i);
    if (i >= 20) encoder.complete(i - 20, list[i].time);
    if (encoder.full()) end_block();
  }
  if (!encoder.empty()) end_block();
  return result;
}

TEST(TraceFormat, ReturnsEveryRequestWithItsCompletion) {
  const auto list = arrivals(30'000);
  const Encoded encoded = encode(list);
  ASSERT_GT(encoded.blocks.size(), 3u);  // completions refer to earlier blocks
  const auto recording = decode(encoded.file, Names::kPaths);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_THAT(recording->problems.texts(), IsEmpty());
  EXPECT_EQ(recording->facts, kHeader.facts);
  EXPECT_EQ(recording->start, kHeader.start + list.front().time);
  EXPECT_EQ(recording->missing, 0u);
  const Trace& trace = recording->trace;
  ASSERT_EQ(trace.requests.size(), list.size());
  EXPECT_EQ(trace.files.size(), 64u);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TraceRequest& got = trace.requests[i];
    ASSERT_EQ(got.time, list[i].time - list[0].time);
    ASSERT_EQ(trace.files[got.file], path_of(list[i].file));
    ASSERT_EQ(got.offset, list[i].offset);
    ASSERT_EQ(got.length, list[i].length);
    ASSERT_EQ(got.application, list[i].application);
    ASSERT_EQ(got.target, list[i].target);
    ASSERT_EQ(got.direction, list[i].direction);
    ASSERT_EQ(got.has_completed(), i + 20 < list.size());
    if (got.has_completed()) {
      ASSERT_EQ(got.completed, list[i + 20].time - list[0].time);
    }
  }
}

TEST(TraceFormat, NeedsAtMostSixteenBytesPerRequest) {
  const auto list = arrivals(30'000);
  EXPECT_LT(static_cast<double>(encode(list).file.size()) / static_cast<double>(list.size()), 16.0);
}

TEST(TraceFormat, NumbersInNamesAreOneFile) {
  const auto recording = decode(encode(arrivals(1000)).file);
  ASSERT_TRUE(recording);
  EXPECT_THAT(recording->trace.files, ElementsAre("/scratch/run/checkpoint.#"));
}

TEST(TraceFormat, TakesWhatIsThereOfACutOffFile) {
  const auto list = arrivals(30'000);
  const Encoded encoded = encode(list);
  for (std::size_t size : {encoded.blocks[1], encoded.blocks[1] + 10, encoded.blocks[2] - 1, encoded.file.size() - 1}) {
    const File cut(encoded.file.begin(), encoded.file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto recording = decode(cut);
    ASSERT_TRUE(recording);
    EXPECT_GT(recording->trace.requests.size(), 0u);
    EXPECT_LT(recording->trace.requests.size(), list.size());
    if (size == encoded.blocks[1]) {
      EXPECT_THAT(recording->problems.texts(), IsEmpty());
    } else {
      ASSERT_EQ(recording->problems.count(), 1u);
      EXPECT_THAT(recording->problems.texts()[0], HasSubstr("x.trace: byte "));
      EXPECT_THAT(recording->problems.texts()[0], HasSubstr("ends inside a block"));
    }
  }
}

TEST(TraceFormat, LeavesOutADamagedBlockAndGoesOn) {
  const auto list = arrivals(30'000);
  const Encoded encoded = encode(list);
  for (std::size_t byte : {encoded.blocks[1] + 2, encoded.blocks[1] + 20, encoded.blocks[1] + 500}) {
    File damaged = encoded.file;
    damaged[byte] ^= std::byte{64};
    const auto recording = decode(damaged);
    ASSERT_TRUE(recording);
    EXPECT_THAT(recording->problems.texts(), ElementsAre(HasSubstr(fmt::format("byte {}", encoded.blocks[1]))));
    EXPECT_EQ(recording->trace.requests.size() + recording->missing, list.size());
    EXPECT_GT(recording->missing, 0u);
    EXPECT_EQ(recording->trace.requests.back().offset, list.back().offset);
  }
}

TEST(TraceFormat, RefusesFilesThatAreNoTrace) {
  const File good = encode(arrivals(10)).file;
  const auto message = [](const File& file) {
    const auto result = decode(file);
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_THAT(message({}), HasSubstr("x.trace: byte 0: the file is empty"));
  EXPECT_THAT(message(File(10)), HasSubstr("byte 10: the file ends inside its header"));
  EXPECT_THAT(message(File(100)), HasSubstr("byte 0: not a trace"));
  File future = good;
  future[8] = std::byte{9};
  EXPECT_THAT(message(future), HasSubstr("byte 8: version 9 of the format; this program reads version 1"));
  File damaged = good;
  damaged[20] ^= std::byte{1};
  EXPECT_THAT(message(damaged), HasSubstr("byte 24: the checksum of the header is wrong"));
}

TEST(TraceFormat, TimesNeverDecrease) {
  BlockEncoder encoder;
  File file = encode_header(kHeader);
  encoder.add({.time = 5s, .file = 1, .length = Bytes(1)}, "a");
  encoder.add({.time = 2s, .file = 1, .length = Bytes(1)}, "a");
  append(file, encoder.take());
  encoder.add({.time = 1s, .file = 1, .length = Bytes(1)}, "a");
  append(file, encoder.take());
  // Another writer, whose clock was behind: its blocks carry earlier times.
  BlockEncoder behind;
  behind.skip(3);
  behind.add({.time = 4s, .file = 1, .length = Bytes(1)}, "a");
  const std::size_t last = file.size();
  append(file, behind.take());
  const auto recording = decode(file);
  ASSERT_TRUE(recording);
  for (const TraceRequest& request : recording->trace.requests) EXPECT_EQ(request.time, 0s);
  EXPECT_EQ(recording->trace.requests.size(), 4u);
  EXPECT_THAT(recording->problems.texts(),
              ElementsAre(HasSubstr(fmt::format("x.trace: byte {}: the clock went back", last))));
}

TEST(TraceFormat, CountsRequestsThatWereNotRecorded) {
  BlockEncoder encoder;
  File file = encode_header(kHeader);
  encoder.add({.file = 1, .length = Bytes(1)}, "a");
  append(file, encoder.take());
  encoder.skip(5);
  encoder.add({.file = 1, .length = Bytes(1)}, "a");
  encoder.complete(6, 1s);
  append(file, encoder.take());
  const auto recording = decode(file);
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->missing, 5u);
  EXPECT_FALSE(recording->trace.requests[0].has_completed());
  EXPECT_EQ(recording->trace.requests[1].completed, 1s);
}

TEST(TraceFormat, KeepsExtremeValues) {
  BlockEncoder encoder;
  File file = encode_header(kHeader);
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;
  encoder.add(
      {.file = ~0ULL, .application = ~0U, .offset = kEnd - 1, .length = Bytes(1), .target = ~0U, .process = ~0U},
      std::string(10'000, 'x'));
  encoder.add({.file = ~0ULL, .offset = 0, .length = Bytes(kEnd)}, "");
  append(file, encoder.take());
  const auto recording = decode(file);
  ASSERT_TRUE(recording);
  EXPECT_THAT(recording->problems.texts(), IsEmpty());
  EXPECT_THAT(recording->trace.files, ElementsAre(std::string(kMaxPathLength, 'x')));
  ASSERT_EQ(recording->trace.requests.size(), 2u);
  EXPECT_EQ(recording->trace.requests[0].offset, kEnd - 1);
  EXPECT_EQ(recording->trace.requests[0].process, ~0U);
  EXPECT_EQ(recording->trace.requests[1].length, Bytes(kEnd));
}

}  // namespace
}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "base/prng.h"
#include "wire/archive.h"
#include "wire/codec.h"

namespace tutti::wire {
namespace {

using ::testing::HasSubstr;

// An archive that fills a message with random legal values.
class RandomFiller : public Archive<RandomFiller> {
 public:
  static constexpr bool kReads = true;
  explicit RandomFiller(Prng& random) : random_(random) {}

  template <typename Integer>
  void integer(Integer& value, const char* field) {
    const std::string_view name(field);
    if (name == "length") return set(value, 1 + random_.below(1000));
    if (name == "offset" || name == "size") return set(value, random_.below(std::uint64_t{1} << 62));
    if (name == "method") return set(value, 1 + random_.below(3));
    if (name == "all") return set(value, 0);  // some targets are named
    if (name == "arrived") return set(value, random_.below(std::uint64_t{1} << 63));
    if (name == "lease" || name == "burst") return set(value, 1 + random_.below(1000));
    if (name == "status") return set(value, random_.chance(0.8) ? 0 : random_.below(5000));
    if (name == "requests" || name == "bytes") return set(value, 1 + random_.below(1000));
    set(value, sizeof(Integer) == 1 ? random_.below(2) : random_());
  }
  void text(std::string& value, const char*, std::size_t most) {
    value.assign(1 + random_.below(std::min<std::size_t>(most, 40)), 'x');
    for (auto& c : value) c = static_cast<char>('a' + random_.below(26));
    if (most == kMaxPath && value.size() > 3) value[value.size() / 2] = '/';
    value += std::to_string(serial_++);  // options must ascend
    value.insert(0, fmt::format("{:04}", serial_));
  }
  void raw(void* data, std::size_t size, const char*) {
    for (std::size_t i = 0; i < size; ++i) static_cast<std::byte*>(data)[i] = static_cast<std::byte>(random_());
  }
  std::size_t count(std::size_t, const char*, std::size_t, std::size_t) { return 1 + random_.below(5); }
  void require(bool holds, const char* field, const char* problem) { EXPECT_TRUE(holds) << field << " " << problem; }
  void mistake(const char* field, std::string_view problem) { ADD_FAILURE() << field << " " << problem; }
  bool good() const { return true; }

 private:
  template <typename Integer>
  void set(Integer& value, std::uint64_t to) {
    value = static_cast<Integer>(to);
  }
  Prng& random_;
  int serial_ = 0;
};

template <typename Message>
Message random_message(Prng& random) {
  Message message;
  RandomFiller filler(random);
  if constexpr (requires { message.head; }) message.head.fields(filler);
  message.fields(filler);
  if constexpr (std::is_same_v<Message, ReadReply>) {
    for (auto& length : message.lengths) length %= 1000;
  }
  return message;
}

template <typename Message>
std::uint64_t payload_of(const Message& message) {
  if constexpr (std::is_same_v<Message, WriteRequest>) return message.on_request ? 0 : total(message.extents).count();
  if constexpr (std::is_same_v<Message, Payload>) return 4711;
  if constexpr (std::is_same_v<Message, ReadReply>) {
    if (message.head.status != kOk) return 0;
    return std::accumulate(message.lengths.begin(), message.lengths.end(), std::uint64_t{0});
  }
  return 0;
}

std::span<const std::byte> body_of(const std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kHeaderSize);
}

Header header_of(const std::vector<std::byte>& frame) {
  auto header = decode_header(std::span(frame).first<kHeaderSize>());
  EXPECT_TRUE(header.has_value()) << header.error().message;
  return *header;
}

// If the body decodes, it must encode to the same bytes. Returns whether it decoded.
template <typename Message>
bool round_trips_or_fails(const Header& header, std::span<const std::byte> body) {
  auto message = decode<Message>(header, body);
  if (!message) {
    EXPECT_EQ(message.error().code, ErrorCode::kProtocol);
    EXPECT_FALSE(message.error().message.empty());
    return false;
  }
  const std::vector<std::byte> payload(header.payload_length);
  const auto again = encode(*message, {.tag = header.tag, .payload = payload});
  EXPECT_TRUE(std::ranges::equal(body_of(again), body)) << name(header.type);
  return true;
}

template <typename Message>
void exercise(Prng& random) {
  for (int round = 0; round < 30; ++round) {
    const auto message = random_message<Message>(random);
    const std::vector<std::byte> payload(payload_of(message));
    const auto frame = encode(message, {.tag = random(), .payload = payload, .checksum = true});
    const auto header = header_of(frame);
    const auto body = body_of(frame);
    ASSERT_TRUE(check_body(header, body) && check_payload(header, payload));
    EXPECT_TRUE(round_trips_or_fails<Message>(header, body)) << name(Message::kType);
    // Truncated, or with an additional byte: refused.
    const auto cut = body.first(random.below(body.size() + 1));
    if (cut.size() < body.size()) {
      EXPECT_FALSE(decode<Message>(header, cut).has_value());
    }
    std::vector<std::byte> longer(body.begin(), body.end());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode<Message>(header, longer).has_value());
    // With random changes: refused, or decoded to a legal message.
    for (int mutation = 0; mutation < 40 && !body.empty(); ++mutation) {
      std::vector<std::byte> changed(body.begin(), body.end());
      for (auto changes = 1 + random.below(3); changes > 0; --changes) {
        changed[random.below(changed.size())] = static_cast<std::byte>(random.chance(0.5) ? 0xff : random());
      }
      round_trips_or_fails<Message>(header, changed);
      if (!std::ranges::equal(changed, body)) {
        EXPECT_FALSE(check_body(header, changed).has_value());
      }
    }
  }
}

TEST(Wire, EveryMessageRoundTripsAndDamagedOnesAreRefused) {
  Prng random(1);
  for_each_message([&]<typename Message>() { exercise<Message>(random); });
}

template <typename Message>
void refuse_garbage(std::span<const std::byte> body) {
  constexpr bool kReply = requires(Message m) {
    m.head;
  };
  round_trips_or_fails<Message>(Header{.type = Message::kType, .reply = kReply}, body);
}

TEST(Wire, RandomBytesAreRefusedByEveryDecoder) {
  Prng random(2);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> body(random.below(300));
    for (auto& byte : body) byte = static_cast<std::byte>(random.chance(0.5) ? 0 : random());
    for_each_message([&]<typename Message>() { refuse_garbage<Message>(body); });
  }
}

TEST(Wire, EverySingleBitErrorInAHeaderIsDetected) {
  const auto frame = encode(LookupRequest{.path = "a/b"}, {.tag = 77});
  for (std::size_t bit = 0; bit < kHeaderSize * 8; ++bit) {
    auto changed = frame;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(decode_header(std::span(changed).first<kHeaderSize>()).has_value()) << bit;
  }
}

TEST(Wire, HeaderErrorsNameTheWrongField) {
  auto with = [](Header header) {
    auto decoded = decode_header(encode_header(header));
    return decoded ? std::string("fine") : decoded.error().message;
  };
  EXPECT_EQ(with({.type = Type::kRead}), "fine");
  EXPECT_THAT(with({.type = static_cast<Type>(999)}), HasSubstr("type 999"));
  EXPECT_THAT(with({.type = Type::kRead, .body_length = kMaxBody + 1}), HasSubstr("over the limit"));
  EXPECT_THAT(with({.type = Type::kRead, .payload_length = kMaxPayload + 1}), HasSubstr("over the limit"));
  EXPECT_THAT(with({.type = Type::kRead, .payload_checksum = 3}), HasSubstr("without its flag"));
  EXPECT_EQ(with({.type = Type::kWrite, .payload_length = kPage, .lead = kPage - 1}), "fine");
  EXPECT_THAT(with({.type = Type::kWrite, .payload_length = 2 * kPage, .lead = kPage}), HasSubstr("before the pages"));
  EXPECT_THAT(with({.type = Type::kWrite, .payload_length = 5, .lead = 6}), HasSubstr("before the pages"));
  auto bytes = encode_header({.type = Type::kRead});
  bytes[4] = std::byte{9};
  EXPECT_THAT(decode_header(bytes).error().message, HasSubstr("version 9"));
  bytes[0] = std::byte{'X'};
  EXPECT_THAT(decode_header(bytes).error().message, HasSubstr("not a Tutti message"));
}

TEST(Wire, PathsThatLeaveTheRootAreRefused) {
  for (const std::string good : {"", "a", "a/b.c/d", "...", "\xff\xfe"}) EXPECT_TRUE(check_path(good)) << good;
  for (const std::string bad : {"/", "/a", "a/", "a//b", ".", "..", "a/..", "a/../b", "./a"}) {
    EXPECT_FALSE(check_path(bad)) << bad;
    const auto frame = encode(UnlinkRequest{.path = bad}, {});
    EXPECT_FALSE(decode<UnlinkRequest>(header_of(frame), body_of(frame))) << bad;
  }
  EXPECT_FALSE(check_path(std::string("a\0b", 3)));
  EXPECT_FALSE(check_path(std::string(256, 'n')));
  EXPECT_FALSE(check_name("a/b"));
}

TEST(Wire, ExtentsPast2To63AreRefused) {
  auto decodes = [](Extent extent) {
    const auto frame = encode(ReadRequest{.extents = {extent}}, {});
    return decode<ReadRequest>(header_of(frame), body_of(frame)).has_value();
  };
  EXPECT_TRUE(decodes({kMaxOffset - 1, 1}));
  EXPECT_FALSE(decodes({kMaxOffset, 1}));
  EXPECT_FALSE(decodes({~std::uint64_t{0}, 2}));
  EXPECT_FALSE(decodes({0, 0}));
  EXPECT_FALSE(decodes({0, kMaxPayload + 1}));
}

TEST(Wire, OptionsWithoutAValueAreEmpty) {
  const PolicySetRequest request{.policy = "fair", .options = {{"limits", "7=1MB"}, {"weights", ""}}};
  const auto frame = encode(request, {});
  const auto decoded = decode<PolicySetRequest>(header_of(frame), body_of(frame));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->options, request.options);
}

TEST(Wire, AWriteWithAPayloadOfAnotherSizeIsRefused) {
  const std::vector<std::byte> payload(10);
  const auto frame = encode(WriteRequest{.extents = {{0, 5}, {9, 6}}}, {.payload = payload});
  auto decoded = decode<WriteRequest>(header_of(frame), body_of(frame));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("10 bytes where 11 were expected"));
}

TEST(Wire, InvalidGateMessagesAreRefused) {
  auto decodes = [](const auto& message) {
    const auto frame = encode(message, {});
    return decode<std::decay_t<decltype(message)>>(header_of(frame), body_of(frame)).has_value();
  };
  EXPECT_TRUE(decodes(GateAskRequest{.all = true}));
  EXPECT_TRUE(decodes(GateAskRequest{.targets = {{3, 5}}}));
  EXPECT_FALSE(decodes(GateAskRequest{.all = true, .targets = {{3, 5}}}));
  EXPECT_FALSE(decodes(GateAskRequest{.all = true, .arrived = TimePoint(Duration(-1))}));
  EXPECT_FALSE(decodes(GateAskRequest{.all = true, .claim = static_cast<GateAskRequest::Claim>(3)}));
  EXPECT_FALSE(decodes(GateAskRequest::Reply{.state = static_cast<GateState>(3)}));
  EXPECT_FALSE(decodes(GateOpenReply{.lease = {}}));
}

TEST(Wire, AChecksumDetectsADamagedPayload) {
  std::vector<std::byte> payload(4096);
  const WriteRequest write{.extents = {{0, 4096}}};
  const auto with = header_of(encode(write, {.payload = payload, .checksum = true}));
  const auto without = header_of(encode(write, {.payload = payload}));
  payload[100] = std::byte{1};
  EXPECT_FALSE(check_payload(with, payload));
  EXPECT_TRUE(check_payload(without, payload));
}

TEST(Wire, AFailureDecodesAsAnyReplyType) {
  const auto frame = encode_failure(Type::kRead, 5, {.status = ENOENT, .message = "gone"});
  auto reply = decode<ReadReply>(header_of(frame), body_of(frame));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->head.status, ENOENT);
  EXPECT_EQ(decode_head(body_of(frame))->message, "gone");
  EXPECT_EQ(to_error(reply->head).code, ErrorCode::kNotFound);
  EXPECT_EQ(to_error(reply->head).system, ENOENT);
}

TEST(Wire, AReplyOverALimitBecomesAFailureThatNamesTheField) {
  const auto failure = [](const auto& reply) {
    const auto frame = encode(reply, {.tag = 9});
    EXPECT_EQ(header_of(frame).tag, 9U);
    const auto decoded = decode<std::decay_t<decltype(reply)>>(header_of(frame), body_of(frame)).value();
    EXPECT_EQ(decoded.head.status, EMSGSIZE);
    return decoded.head.message;
  };
  EXPECT_THAT(failure(HealthReply{.node = std::string(256, 'n')}), HasSubstr("health is too long"));
  EXPECT_THAT(failure(StatisticsReply{.usage = std::vector<Usage>(kMaxUsage + 1)}), HasSubstr("usage has too many"));
  EXPECT_THAT(failure(ReadDirectoryReply{.entries = std::vector<DirectoryEntry>(kMaxEntries + 1)}),
              HasSubstr("entries has too many"));
  EXPECT_THAT(failure(PolicyReply{.options = {{"a", std::string(kMaxOption + 1, 'x')}}}), HasSubstr("option value"));
  PolicyReply large;
  for (const std::string name : {"a", "b", "c", "d", "e"}) large.options[name] = std::string(kMaxOption, 'x');
  EXPECT_THAT(failure(large), HasSubstr("body is over 256 KiB"));
}

TEST(Wire, FullRepliesFitIntoABody) {
  const auto decodes = [](const auto& reply) {
    const auto frame = encode(reply, {});
    const auto decoded = decode<std::decay_t<decltype(reply)>>(header_of(frame), body_of(frame));
    return decoded && decoded->head.status == kOk;
  };
  const std::string name(kMaxName, 'n');
  EXPECT_TRUE(decodes(ReadDirectoryReply{.entries = std::vector(kMaxEntries, DirectoryEntry{.name = name})}));
  EXPECT_TRUE(
      decodes(StatisticsReply{.node = name, .policy = name, .usage = std::vector(kMaxUsage, Usage{.job = name})}));
}

TEST(Wire, LongErrorTextsAreTruncated) {
  const auto frame = encode_failure(Type::kRead, 5, {.status = ENOENT, .message = std::string(70000, 'm')});
  EXPECT_EQ(decode_head(body_of(frame))->message.size(), kMaxMessage);
}

TEST(Wire, RequestsCanBeCheckedAgainstTheLimits) {
  EXPECT_TRUE(check_limits(SymlinkRequest{.path = "a", .target = std::string(kMaxPath, 't')}));
  const auto refused = check_limits(SymlinkRequest{.path = "a", .target = std::string(kMaxPath + 1, 't')});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("target is too long"));
}

TEST(Wire, ErrorCodesSurviveARoundTrip) {
  for (auto code :
       {ErrorCode::kInvalid, ErrorCode::kNotFound, ErrorCode::kDuplicate, ErrorCode::kFull, ErrorCode::kStopped,
        ErrorCode::kDenied, ErrorCode::kUnreachable, ErrorCode::kTimeout, ErrorCode::kProtocol, ErrorCode::kIo}) {
    EXPECT_EQ(to_error(to_head({code, "x", 0})).code, code);
  }
  EXPECT_EQ(to_error(to_head({ErrorCode::kIo, "full", ENOSPC})).system, ENOSPC);
}

TEST(Wire, ReplyPayloadIsTheSumOfTheExtents) {
  for (const char* path : {"", "a", "directory/file"}) {
    const auto frame = encode(ReadRequest{.data = {.file = {.path = path}}, .extents = {{0, 100}, {500, 23}}}, {});
    EXPECT_EQ(reply_payload(header_of(frame), body_of(frame)).count(), 123u);
    for (std::size_t size = 0; size < body_of(frame).size(); ++size)
      EXPECT_LE(reply_payload(header_of(frame), body_of(frame).first(size)).count(), kMaxPayload) << "cut off";
  }
  auto wrong = encode(ReadRequest{.extents = {{0, 100}}}, {});
  std::memset(wrong.data() + kHeaderSize, 0xff, wrong.size() - kHeaderSize);
  EXPECT_LE(reply_payload(header_of(wrong), body_of(wrong)).count(), kMaxPayload);
  const auto other = encode(StatFsRequest{}, {});
  EXPECT_EQ(reply_payload(header_of(other), body_of(other)).count(), 0u);
}

}  // namespace
}  // namespace tutti::wire

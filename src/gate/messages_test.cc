// SPDX-License-Identifier: Apache-2.0
#include "gate/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace tutti::gate {
namespace {

using namespace literals;

std::vector<Message> examples() {
  const RequestMessage request{.ticket = 7, .bytes = 5_GiB, .targets = *TargetList::parse("0,4-7")};
  return {Hello{.session = ~std::uint64_t{0}, .process = 42, .job = "climate"},
          request,
          RequestMessage{.ticket = 1, .bytes = {}, .targets = TargetList::everything()},
          ReassertMessage{.request = request, .holding = true, .arrived = TimePoint(Duration(12345)), .group = 3},
          ReleaseMessage{9},
          RenewMessage{10},
          StatusQuery{},
          Welcome{.incarnation = 5, .lease = std::chrono::seconds(10), .targets = 64},
          AnswerMessage{.ticket = 7,
                        .kind = Answer::Kind::kRefused,
                        .arrived = TimePoint(Duration(1)),
                        .group = 2,
                        .refusal = Refusal::kExpired,
                        .text = "too late"},
          StatusPiece{.last = true, .text = "{\n}"}};
}

std::vector<std::byte> encoded(const Message& message) {
  std::vector<std::byte> out;
  encode(message, out);
  return out;
}

TEST(GateMessages, EveryMessageRoundTripsAlsoInAStream) {
  std::vector<std::byte> stream;
  for (const Message& message : examples()) encode(message, stream);
  std::span<const std::byte> rest = stream;
  for (const Message& message : examples()) {
    const auto decoded = decode(rest);
    ASSERT_TRUE(decoded && *decoded);
    EXPECT_EQ((*decoded)->message, message);
    rest = rest.subspan((*decoded)->consumed);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(GateMessages, HalfAMessageIsWaitedFor) {
  for (const Message& message : examples()) {
    const auto frame = encoded(message);
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const auto decoded = decode(std::span(frame).first(size));
      ASSERT_TRUE(decoded) << size;
      EXPECT_FALSE(*decoded) << size;
    }
  }
}

TEST(GateMessages, WrongHeadersAreRefusedAsSoonAsTheyShow) {
  auto frame = encoded(StatusQuery{});
  const auto refused = [&](std::size_t index, int value, std::size_t size) {
    auto changed = frame;
    changed[index] = static_cast<std::byte>(value);
    const auto decoded = decode(std::span(changed).first(size));
    return decoded ? std::string() : decoded.error().message;
  };
  EXPECT_THAT(refused(0, 'X', 1), testing::HasSubstr("not a message"));
  EXPECT_THAT(refused(1, 'X', 2), testing::HasSubstr("not a message"));
  EXPECT_THAT(refused(2, 2, 3), testing::HasSubstr("version 2"));
  EXPECT_THAT(refused(3, 0, 4), testing::HasSubstr("type 0"));
  EXPECT_THAT(refused(3, 10, 4), testing::HasSubstr("type 10"));
  EXPECT_THAT(refused(6, 1, 8), testing::HasSubstr("65536 bytes"));
}

TEST(GateMessages, WrongPayloadsAreRefused) {
  for (const Message& message : examples()) {
    if (std::holds_alternative<StatusPiece>(message)) continue;  // any bytes may follow its flag
    auto longer = encoded(message);
    longer.push_back(std::byte{0});
    longer[4] = static_cast<std::byte>(longer.size() - kHeaderSize);
    EXPECT_FALSE(decode(longer));
    if (longer.size() == kHeaderSize + 1) continue;
    longer.pop_back();
    longer.pop_back();
    longer[4] = static_cast<std::byte>(longer.size() - kHeaderSize);
    EXPECT_FALSE(decode(longer));
  }
  auto reassert = encoded(examples()[3]);
  reassert[reassert.size() - 13] = std::byte{2};  // the boolean
  EXPECT_FALSE(decode(reassert));
  auto hello = encoded(examples()[0]);
  hello.back() = std::byte{'\n'};
  EXPECT_FALSE(decode(hello));
}

TEST(GateMessages, TextsAreCutAndCleaned) {
  const auto frame = encoded(Hello{.session = 1, .process = 1, .job = std::string(300, 'a') + "b"});
  EXPECT_EQ(std::get<Hello>((*decode(frame))->message).job, std::string(255, 'a'));
  const auto odd = encoded(Hello{.session = 1, .process = 1, .job = "a\nb\x7f"});
  EXPECT_EQ(std::get<Hello>((*decode(odd))->message).job, "a?b?");
}

// The fuzz harness's check over a fixed sequence of damaged and random inputs.
TEST(GateMessages, RandomInputIsRefusedOrCanonical) {
  Prng prng(5);
  std::vector<std::vector<std::byte>> seeds;
  for (const Message& message : examples()) seeds.push_back(encoded(message));
  int accepted = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::vector<std::byte> input = seeds[prng.below(seeds.size())];
    for (std::uint64_t changes = prng.below(4); changes > 0; --changes)
      input[prng.below(input.size())] = static_cast<std::byte>(prng());
    if (prng.chance(0.2)) input.resize(prng.below(40), static_cast<std::byte>(prng()));
    const auto decoded = decode(input);
    if (!decoded || !*decoded) continue;
    ++accepted;
    const auto again = encoded((*decoded)->message);
    ASSERT_TRUE(std::equal(again.begin(), again.end(), input.begin()));
    ASSERT_EQ(again.size(), (*decoded)->consumed);
  }
  EXPECT_GT(accepted, 10'000);
}

}  // namespace
}  // namespace tutti::gate

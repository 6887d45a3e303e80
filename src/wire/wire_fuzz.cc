// SPDX-License-Identifier: Apache-2.0
// libFuzzer: decodes any bytes. A decoder must refuse them, or encoding the result must give the same bytes.
#include <algorithm>
#include <cstdlib>

#include "wire/codec.h"

namespace tutti::wire {
namespace {

template <typename Message>
void check(const Header& header, std::span<const std::byte> body) {
  auto message = decode<Message>(header, body);
  if (!message) return;
  static const std::vector<std::byte> payload(kMaxPayload);
  const auto again = encode(*message, {.tag = header.tag, .payload = std::span(payload).first(header.payload_length)});
  if (!std::ranges::equal(std::span(again).subspan(kHeaderSize), body)) std::abort();
}

}  // namespace
}  // namespace tutti::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::wire;
  if (size < 4) return 0;
  // The first bytes choose type and payload length, because a fuzzer cannot guess the checksum of a header.
  const auto bytes = std::as_bytes(std::span(data, size));
  Header header{.type = static_cast<Type>(data[0] & 127), .reply = (data[0] & 128) != 0};
  header.payload_length = data[1] | data[2] << 8;
  const auto body = bytes.subspan(3);
  for_each_message([&]<typename Message>() { check<Message>(header, body); });
  if (size >= kHeaderSize) (void)decode_header(bytes.first<kHeaderSize>());
  return 0;
}

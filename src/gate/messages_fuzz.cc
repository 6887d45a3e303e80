// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as what arrives on a connection. They are refused, or encode() gives the same bytes back.
#include <algorithm>
#include <cstdlib>

#include "gate/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::gate;
  auto bytes = std::as_bytes(std::span(data, size));
  while (true) {
    const auto decoded = decode(bytes);
    if (!decoded || !*decoded) return 0;
    std::vector<std::byte> again;
    encode((*decoded)->message, again);
    if (!std::ranges::equal(again, bytes.first((*decoded)->consumed))) std::abort();
    bytes = bytes.subspan((*decoded)->consumed);
  }
}

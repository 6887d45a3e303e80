// SPDX-License-Identifier: Apache-2.0
// Puts frames together from a stream of bytes. No sockets, no threads.
//
//   while (!bytes.empty()) {
//     auto used = reader.consume(bytes);             // stops where a decision is due
//     if (!used) ...;                                // the stream cannot be trusted any more
//     bytes = bytes.subspan(*used);
//     if (reader.state() == kAdmission) reader.admit(memory for the payload);
//     if (reader.state() == kComplete) handle(reader.take());
//   }
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "net/transport.h"

namespace tutti::net {

class FrameReader {
 public:
  enum class State {
    kHeader,     // wants bytes of a header
    kBody,       // wants bytes of a body
    kAdmission,  // header and body are there and correct: admit() says where the payload goes
    kPayload,    // wants bytes of a payload: through consume(), or straight into room()
    kComplete,   // take() the frame
  };

  // Bodies longer than this are a protocol error.
  void limit_body(std::uint32_t most) { most_body_ = most; }

  State state() const { return state_; }
  const wire::Header& header() const { return message_.header; }
  std::span<const std::byte> body() const { return message_.body; }

  // Takes bytes until there are none, or the state is kAdmission or kComplete; returns how many. kProtocol.
  Result<std::size_t> consume(std::span<const std::byte> bytes);

  // In kAdmission. The payload goes into `buffer` or over `parts`, header().payload_length bytes together.
  Result<void> admit(Buffer buffer, std::vector<std::span<std::byte>> parts);
  // Or as much of it as there is room for into pages, the rest into `buffer`, which has room for all of it.
  void admit(Buffer buffer, PagePipe pages);

  // In kPayload: where the payload's next bytes belong, and that `count` of them have been put there.
  std::size_t room(std::span<iovec> into) const;
  Result<void> filled(std::size_t count);
  // In kPayload: pages for its next bytes, and that `count` of them are there, or that there is no more room. Nullptr:
  // they go elsewhere, as the header's lead does.
  PagePipe* pages() { return pages_open_ && have_ >= message_.header.lead ? &message_.pages : nullptr; }
  Result<void> taken(std::size_t count);
  void pages_full() { pages_open_ = false; }
  // In kPayload: bytes still to come.
  std::size_t missing() const { return message_.header.payload_length - have_; }
  // Bytes that can be asked for without touching pages of this frame's payload.
  std::size_t up_to_pages() const;

  // In kComplete; back to kHeader.
  Incoming take();

 private:
  Result<std::size_t> consume_header(std::span<const std::byte> bytes);
  Result<std::size_t> consume_body(std::span<const std::byte> bytes);
  Result<std::size_t> consume_payload(std::span<const std::byte> bytes);
  Result<void> finish_payload();

  State state_ = State::kHeader;
  std::uint32_t most_body_ = wire::kMaxBody;
  wire::HeaderBytes header_bytes_{};
  std::size_t have_ = 0;  // bytes of the current section
  bool pages_open_ = false;
  Incoming message_;
  std::vector<std::span<std::byte>> parts_;  // of the payload, what is still to be filled
  std::vector<std::span<std::byte>> whole_;  // all of it, for the checksum
  std::size_t first_part_ = 0;
};

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
// Assembles frames from a stream of bytes. No sockets, no threads.
//
//   while (!bytes.empty()) {
//     auto used = reader.consume(bytes);             // stops before the payload and after each frame
//     if (!used) ...;                                // protocol error: close the connection
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

// Not thread-safe.
class FrameReader {
 public:
  enum class State {
    kHeader,     // expects bytes of a header
    kBody,       // expects bytes of a body
    kAdmission,  // header and body are complete and correct: call admit() with memory for the payload
    kPayload,    // expects bytes of a payload: through consume(), or received directly into room()
    kComplete,   // the frame is complete: call take()
  };

  // Bodies longer than this are a protocol error.
  void limit_body(std::uint32_t most) { most_body_ = most; }

  State state() const { return state_; }
  const wire::Header& header() const { return message_.header; }
  std::span<const std::byte> body() const { return message_.body; }

  // Consumes bytes until all are used or the state is kAdmission or kComplete. Returns the number used, or kProtocol.
  Result<std::size_t> consume(std::span<const std::byte> bytes);

  // In kAdmission. The payload is stored in `buffer`, or in `parts` if that is empty; header().payload_length bytes.
  Result<void> admit(Buffer buffer, ReceiveMemory parts);
  // In kAdmission. The payload is stored in `pages` as far as they have room, the rest in `buffer`. The buffer has room
  // for all of it.
  void admit(Buffer buffer, PagePipe pages);

  // In kPayload: room() returns memory for the next bytes; call filled() after `count` of them were stored there.
  std::size_t room(std::span<iovec> into) const;
  Result<void> filled(std::size_t count);
  // In kPayload: memory of the caller cannot be written. The rest of the payload is received and dropped.
  void drop_payload();
  // In kPayload: the pipe for the next bytes, or nullptr if they must be stored in room(), as the header's lead is.
  // Call taken() after `count` bytes were added to the pipe, or pages_full() if it has no more room.
  PagePipe* pages() { return pages_open_ && have_ >= message_.header.lead ? &message_.pages : nullptr; }
  Result<void> taken(std::size_t count);
  void pages_full() { pages_open_ = false; }
  // In kPayload: bytes of the payload that were not received yet.
  std::size_t missing() const { return message_.header.payload_length - have_; }
  // How many bytes can be received before the first byte that belongs into pages.
  std::size_t up_to_pages() const;

  // In kComplete: the frame. The state is kHeader afterwards.
  Incoming take();

 private:
  Result<std::size_t> consume_header(std::span<const std::byte> bytes);
  Result<std::size_t> consume_body(std::span<const std::byte> bytes);
  Result<std::size_t> consume_payload(std::span<const std::byte> bytes);
  Result<void> finish_payload();

  State state_ = State::kHeader;
  std::uint32_t most_body_ = wire::kMaxBody;
  wire::HeaderBytes header_bytes_{};
  std::size_t have_ = 0;  // bytes of the header or payload received so far
  bool pages_open_ = false;
  Incoming message_;
  ReceiveMemory parts_;  // memory of the payload that is not filled yet
  ReceiveMemory whole_;  // all memory of the payload, for the checksum
  bool lent_ = false;    // parts_ is memory of the caller
  std::vector<std::byte> dropped_;
  std::size_t first_part_ = 0;
};

}  // namespace tutti::net

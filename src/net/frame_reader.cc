// SPDX-License-Identifier: Apache-2.0
#include "net/frame_reader.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::net {

namespace {

constexpr std::size_t kFirstBody = 4096;

// False: the memory cannot be written. Asks the kernel to copy, because memcpy would end the process then.
bool copy_to_caller(std::byte* memory, std::span<const std::byte> bytes) {
  const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()}, to{memory, bytes.size()};
  const auto copied = ::process_vm_writev(::getpid(), &from, 1, &to, 1, 0);
  if (copied == static_cast<ssize_t>(bytes.size())) return true;
  if (copied >= 0 || errno == EFAULT) return false;
  std::memcpy(memory, bytes.data(), bytes.size());  // the call is not allowed here
  return true;
}

}  // namespace

Result<std::size_t> FrameReader::consume(std::span<const std::byte> bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && state_ != State::kAdmission && state_ != State::kComplete) {
    const auto rest = bytes.subspan(used);
    auto taken = state_ == State::kHeader ? consume_header(rest)
                 : state_ == State::kBody ? consume_body(rest)
                                          : consume_payload(rest);
    if (!taken) return taken;
    used += *taken;
  }
  return used;
}

Result<std::size_t> FrameReader::consume_header(std::span<const std::byte> bytes) {
  const auto count = std::min(bytes.size(), wire::kHeaderSize - have_);
  std::memcpy(header_bytes_.data() + have_, bytes.data(), count);
  have_ += count;
  if (have_ < wire::kHeaderSize) return count;
  auto header = wire::decode_header(header_bytes_);
  if (!header) return Failure(header.error());
  if (header->body_length > most_body_) {
    return fail(ErrorCode::kProtocol, fmt::format("a body of {} bytes is over the limit of {} for this connection",
                                                  header->body_length, most_body_));
  }
  message_.header = *header;
  message_.body.clear();
  message_.body.reserve(std::min<std::size_t>(header->body_length, kFirstBody));  // the peer may never send it
  have_ = 0;
  state_ = State::kBody;
  if (header->body_length == 0) {
    if (auto fine = consume_body({}); !fine) return fine;
  }
  return count;
}

Result<std::size_t> FrameReader::consume_body(std::span<const std::byte> bytes) {
  const auto count = std::min<std::size_t>(bytes.size(), message_.header.body_length - message_.body.size());
  message_.body.insert(message_.body.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  if (message_.body.size() < message_.header.body_length) return count;
  if (auto fine = wire::check_body(message_.header, message_.body); !fine) return Failure(fine.error());
  state_ = State::kAdmission;
  return count;
}

Result<std::size_t> FrameReader::consume_payload(std::span<const std::byte> bytes) {
  std::size_t used = 0;
  for (std::size_t i = first_part_; i < parts_.size() && used < bytes.size(); ++i) {
    const auto count = std::min(bytes.size() - used, parts_[i].size());
    if (lent_ && !copy_to_caller(parts_[i].data(), bytes.subspan(used, count))) {
      drop_payload();
      return consume_payload(bytes);
    }
    if (!lent_) std::memcpy(parts_[i].data(), bytes.data() + used, count);
    used += count;
  }
  if (auto fine = filled(used); !fine) return Failure(fine.error());
  return used;
}

Result<void> FrameReader::admit(Buffer buffer, ReceiveMemory parts) {
  assert(state_ == State::kAdmission);
  if (message_.header.payload_length == 0) return finish_payload();
  message_.payload = std::move(buffer);
  parts_ = std::move(parts);
  lent_ = message_.payload.empty();
  if (!lent_) parts_ = {message_.payload.span()};
  whole_ = message_.header.has_payload_checksum ? parts_ : ReceiveMemory{};
  first_part_ = 0;
  have_ = 0;
  state_ = State::kPayload;
  return {};
}

void FrameReader::admit(Buffer buffer, PagePipe pages) {
  assert(!message_.header.has_payload_checksum && message_.header.payload_length > 0);
  (void)admit(std::move(buffer), ReceiveMemory{});
  message_.pages = std::move(pages);
  pages_open_ = true;
}

void FrameReader::drop_payload() {
  message_.unwritable = true;
  lent_ = false;
  whole_.clear();
  dropped_.resize(missing());
  parts_ = {std::span(dropped_)};
  first_part_ = 0;
}

Result<void> FrameReader::taken(std::size_t count) {
  if (message_.pages.size() == count) message_.pages_at = have_;  // the first bytes in the pipe
  return filled(count);
}

std::size_t FrameReader::up_to_pages() const {
  const wire::Header& header = message_.header;
  if (state_ == State::kHeader) return wire::kHeaderSize - have_;
  if (state_ == State::kBody) return header.body_length - message_.body.size() + header.lead;
  return pages_open_ && have_ < header.lead ? header.lead - have_ : missing();
}

std::size_t FrameReader::room(std::span<iovec> into) const {
  std::size_t count = 0, left = up_to_pages();
  for (std::size_t i = first_part_; i < parts_.size() && count < into.size() && left > 0; ++i) {
    into[count] = {parts_[i].data(), std::min(parts_[i].size(), left)};
    left -= into[count++].iov_len;
  }
  return count;
}

Result<void> FrameReader::filled(std::size_t count) {
  have_ += count;
  while (count > 0) {
    auto& part = parts_[first_part_];
    const auto step = std::min(count, part.size());
    part = part.subspan(step);
    count -= step;
    if (part.empty()) ++first_part_;
  }
  return have_ == message_.header.payload_length ? finish_payload() : Result<void>{};
}

Result<void> FrameReader::finish_payload() {
  state_ = State::kComplete;
  if (!message_.header.has_payload_checksum || message_.unwritable) return {};
  const std::vector<std::span<const std::byte>> parts(whole_.begin(), whole_.end());
  return wire::check_payload(message_.header, parts);
}

Incoming FrameReader::take() {
  assert(state_ == State::kComplete);
  state_ = State::kHeader;
  have_ = 0;
  pages_open_ = false;
  parts_.clear();
  whole_.clear();
  Incoming whole = std::move(message_);
  message_.pages_at = 0;
  message_.unwritable = false;
  dropped_ = {};
  return whole;
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
// Part of StreamConnection: whether the next message may be received now, and memory for it.
#include <fmt/format.h>

#include "base/mutex.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

constexpr Duration kSlowestByte = std::chrono::nanoseconds(1000);  // 1 MB/s, in addition to receive_timeout

}  // namespace

// False: paused because a limit is reached, or closed.
bool StreamConnection::admit() {
  const auto& header = reader_.header();
  const bool request = node_side() && !handshake_;
  if (const auto fine = check_kind(header, request); !fine) {
    close_for_violation(fine.error());
    return false;
  }
  if (request && !user_memory_) user_memory_ = listener_->memory_of(user_);
  const bool pulled = request && header.type == wire::Type::kPayload;  // belongs to a request that is in flight
  if (request && !pulled && header.payload_length > Budget::kSmall && exceeds_credit(header)) return false;
  Buffer buffer;
  ReplyMemory into;
  if (header.payload_length > 0 && !find_memory(header, buffer, into)) return false;
  if (request && !pulled && !admit_request(header)) return false;
  if (header.payload_length > 0) expect_rest(header.payload_length);
  PagePipe pages;  // stays closed if the payload is received into memory
  const bool by_reference = request ? listener_->options.pages : into.by_reference && into.memory.empty();
  if (by_reference && header.payload_length >= PagePipe::kLeast && !header.has_payload_checksum) (void)pages.open();
  if (pages.is_open())
    reader_.admit(std::move(buffer), std::move(pages));
  else if (auto fine = reader_.admit(std::move(buffer), std::move(into.memory)); !fine) {
    close_for_violation(fine.error());
    return false;
  }
  return true;
}

// The rest of a request occupies memory from now on, so it must arrive in time.
void StreamConnection::expect_rest(std::size_t bytes) {
  if (!node_side() || handshake_) return;
  rest_by_ = steady_now() + listener_->options.receive_timeout + kSlowestByte * bytes;
  loop_->wake_at(rest_by_);
}

// True, and the connection is closed: the client has no such credit, and there may never be memory for the payload.
bool StreamConnection::exceeds_credit(const wire::Header& header) {
  {
    Lock lock(mutex_);
    if (!admission_.too_large(header.payload_length)) return false;
  }
  close_for_violation(
      {ErrorCode::kProtocol, fmt::format("a payload of {} bytes exceeds the credit", header.payload_length)});
  return true;
}

// Memory for the payload. False: there is none now, or the connection is closed.
bool StreamConnection::find_memory(const wire::Header& header, Buffer& buffer, ReplyMemory& into) {
  if (node_side() && header.type == wire::Type::kPayload) {
    auto memory = handler_.payload_memory(shared_from_this(), header);
    if (!memory) {
      close_for_violation(memory.error());
      return false;
    }
    buffer = std::move(*memory);
    return !buffer.empty() || wait_for_memory({MemoryWait::Kind::kPulledPayloads}, Waits::kAlways);
  }
  if (node_side() && header.payload_length <= Budget::kSmall) return find_small_memory(header.payload_length, buffer);
  if (!node_side()) into = handler_.reply_memory(header, reader_.body());
  if (!into.memory.empty()) return true;
  buffer = established_.pool->try_allocate(header.payload_length);
  return !buffer.empty() || wait_for_memory({MemoryWait::Kind::kPayloads}, Waits::kAlways);
}

bool StreamConnection::find_small_memory(std::size_t size, Buffer& buffer) {
  const auto allocate = [&](BufferPool& pool, const std::shared_ptr<BufferAccount>& account) {
    if (pool.within_share(*account, size)) buffer = pool.try_allocate(size);
    if (!buffer.empty()) buffer.charge(account);
    return !buffer.empty();
  };
  if (allocate(*established_.pool, user_memory_->small_payloads)) return true;
  if (!wait_for_memory({MemoryWait::Kind::kPayloads, user_}, Waits::kUnlessItOwes)) return false;
  return allocate(*listener_->small_before_owed, user_memory_->small_before_owed) ||
         wait_for_memory({MemoryWait::Kind::kPayloadsBeforeOwed, user_}, Waits::kAlways);
}

// False: there is no memory for the request now.
bool StreamConnection::find_request_memory(Charge& charge) {
  const auto fits = [&] {
    const std::int64_t room = kMaxRequestMemory - listener_->request_memory.of(charge) - charge.memory;
    const std::int64_t own = user_memory_->requests.of(charge);
    return room >= 0 && (own == 0 || own <= room);
  };
  if (fits()) return true;
  listener_->waiting_for_memory = true;  // before the second check: a release after this wakes us
  if (fits()) return true;
  if (!wait_for_memory({MemoryWait::Kind::kRequests, user_}, Waits::kUnlessItOwes)) return false;
  charge.before_owed = true;
  return fits() || wait_for_memory({MemoryWait::Kind::kRequestsBeforeOwed, user_}, Waits::kAlways);
}

Result<void> StreamConnection::check_kind(const wire::Header& header, bool request) const {
  if (handshake_ && header.payload_length > 0)
    return fail(ErrorCode::kProtocol, "a payload from a peer that is not authenticated yet");
  if (!request) return {};
  if (header.reply || header.type < wire::Type::kRead)
    return fail(ErrorCode::kProtocol, fmt::format("a {} message is not a request", wire::name(header.type)));
  if (header.payload_length > listener_->options.max_payload)
    return fail(ErrorCode::kProtocol, fmt::format("a payload of {} bytes is over the limit of {} for this connection",
                                                  header.payload_length, listener_->options.max_payload));
  return {};
}

bool StreamConnection::admit_request(const wire::Header& header) {
  if (wire::is_one_way(header.type)) {  // must not wait: other peers may wait for what follows it
    if (header.payload_length == 0) return true;
    close_for_violation({ErrorCode::kProtocol, fmt::format("a {} message with a payload", wire::name(header.type))});
    return false;
  }
  Charge charge = charge_of(header, reader_.body());
  if (!find_request_memory(charge)) return false;
  {
    Lock lock(mutex_);
    const auto verdict = admission_.check(listener_->options.limits, header.tag, charge);
    if (verdict == Admission::Verdict::kOver) {
      pause_ = Pause::kForReplies;  // under the lock: a thread that sends a reply now must see it
      return false;
    }
    if (verdict == Admission::Verdict::kFits) {
      listener_->request_memory.of(charge) += charge.memory;
      user_memory_->requests.of(charge) += charge.memory;
      admission_.add(header.tag, charge);
      return true;
    }
  }
  close_for_violation({ErrorCode::kProtocol, fmt::format("a request with tag {} is in flight already", header.tag)});
  return false;
}

// True: it need not wait, because a payload that was asked for follows on this connection. False: it is paused.
bool StreamConnection::wait_for_memory(const MemoryWait& wait, Waits waits) {
  Lock lock(mutex_);
  if (owed_payloads_ > 0 && waits == Waits::kUnlessItOwes) return true;
  pause_ = Pause::kForMemory;  // under the lock: a thread that asks for a payload now must see it
  if (loop_->on_loop())
    loop_->retry_later(wait, shared_from_this());
  else
    loop_->post([wait, self = shared_from_this()] {
      self->loop_->retry_later(wait, self);
      self->loop_->retry_all();  // memory may have been released in between
    });
  return false;
}

}  // namespace tutti::net

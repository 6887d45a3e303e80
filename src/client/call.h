// SPDX-License-Identifier: Apache-2.0
// One request to a node, with all attempts to send it until it is answered. Internal to the client.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/transport.h"

namespace tutti {

// Whether a request may be repeated if its node was lost before it answered.
enum class Retry {
  kAnytime,     // at once: it changes nothing, or a late repetition is harmless
  kAfterFence,  // only when the lost node can no longer apply it
  kNever,       // not idempotent: the caller gets an error and must decide
};

// What a node does before it answers. While it reports that it is at work, the client waits longer.
enum class Work {
  kQueued,  // waits in the node's queue: until `give_up`
  kName,    // waits in the node's queue for names, or in the socket behind what waits: until `give_up`
  kSync,    // until `sync_limit`
};

// Owned by shared pointers. Fields are used by one thread at a time, except the atomic ones.
struct Call {
  virtual ~Call() = default;

  // What differs between the attempts to send it.
  struct Attempt {
    std::uint64_t tag = 0;
    bool with_path = false;
    TimePoint deadline{};     // on the node's clock
    bool on_request = false;  // without the payload: the node will ask for it
  };
  virtual net::Outgoing encode(const Attempt& attempt) = 0;
  // A wire::Payload for an attempt that was sent without it.
  virtual net::Outgoing encode_payload(const Attempt&) { return {}; }
  // Decodes and keeps the reply.
  virtual void decode(const wire::Header& header, std::span<const std::byte> body) = 0;
  // Head of the decoded reply; nullptr if it is malformed (done() reports the error).
  virtual const wire::ReplyHead* head() const = 0;
  // Where to receive the payload of the decoded reply. Nowhere of the call's own if the reply does not match the
  // request.
  virtual net::ReplyMemory reply_memory() { return {}; }
  // The payload of the decoded reply, if it was not received into the call's own memory.
  virtual void keep_payload(net::Incoming /*message*/) {}
  // Called once: a reply was decoded, or the error. On a thread of the transport or the world, or in
  // Router::await_reply().
  virtual void done(const Result<void>& answered) = 0;

  Retry retry = Retry::kNever;
  Work work = Work::kName;
  std::size_t preferred = 0;               // node to try first
  std::uint64_t file_key = 0;              // 0: none
  std::uint64_t source_key = 0;            // of the file that a copy reads, which is sent with its path; 0: none
  std::uint64_t bytes = 0;                 // of the payloads of request and reply
  std::uint64_t payload = 0;               // bytes of the request
  TimePoint submitted = TimePoint::max();  // on Clock::steady(); max(): no operation of the caller waits for it
  TimePoint give_up{};                     // on Clock::steady(): fails if not answered by then
  TimePoint sync_limit = TimePoint::max();
  // If set, only nodes of this boot get it: those that have its page cache.
  std::optional<wire::Instance::Boot> only_boot{};

  // The latest attempt:
  std::atomic<std::size_t> node{0};
  std::atomic<std::uint64_t> tag{0};  // 0: not sent yet
  wire::Instance instance{};          // of that node
  Duration fence_time{};              // of that node
  TimePoint deadline{};               // on Clock::steady(): the node does not apply it later
  std::uint64_t counted = 0;          // bytes that count against wire::Limits
  std::uint64_t credit = 0;           // used of wire::Limits::credit
  std::uint64_t small = 0;            // bytes of a payload that needs no credit and was sent with the request
  bool awaits_pull = false;           // the node does not have the payload and has not asked for it
  bool pulled = false;                // the node asked for the payload
  bool unreadable = false;            // the memory of the payload cannot be read: repeating it would not help
  bool force_path = false;
  int node_offset = 0;     // nodes to skip after `preferred`, because they are stopping or stuck
  TimePoint overdue_at{};  // on Clock::steady(): when it was last overdue at a node; {}: never
};

using CallPointer = std::shared_ptr<Call>;

// Receives the result of an asynchronous call. Called once, on a thread of the transport or of the world, or before the
// call has returned.
template <typename T>
using Done = std::function<void(Result<T>)>;

template <typename Reply>
struct ReplyCall : Call {
  Result<Reply> reply{};

  void decode(const wire::Header& header, std::span<const std::byte> body) final {
    reply = wire::decode<Reply>(header, body);
  }
  const wire::ReplyHead* head() const final { return reply ? &reply->head : nullptr; }
  void done(const Result<void>& answered) final {
    if (!answered)
      reply = Failure(answered.error());
    else if (reply && reply->head.status != wire::kOk)
      reply = Failure(wire::to_error(reply->head));
    finish();
  }
  // Called once; `reply` is the node's reply or an error.
  virtual void finish() = 0;
};

template <typename Reply>
struct FunctionCall final : ReplyCall<Reply> {
  std::function<net::Outgoing(const Call::Attempt&)> make;
  Done<Reply> report;

  net::Outgoing encode(const Call::Attempt& attempt) override { return make(attempt); }
  void finish() override { report(std::move(this->reply)); }
};

}  // namespace tutti

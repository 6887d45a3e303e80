// SPDX-License-Identifier: Apache-2.0
// One request on its way, from the first attempt to the answer that counts. Internal to the client.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "net/transport.h"

namespace tutti {

// What may be done about a request whose node was lost before it answered.
enum class Retry {
  kAnytime,     // it changes nothing, or nothing that a second time would not: ask another node at once
  kAfterFence,  // it changes something: ask another node once the old one can no longer apply it late
  kNever,       // twice is not the same as once: the caller must decide
};

struct Call {
  // How it looks on the wire depends on the attempt.
  struct Attempt {
    std::uint64_t tag = 0;
    bool with_path = false;
    TimePoint deadline{};  // by the node's clock
  };
  std::function<net::Outgoing(const Attempt&)> encode;
  // Called once, on a thread of the transport, of the router, or in Router::attend().
  std::function<void(Result<net::Incoming>)> done;

  Retry retry = Retry::kNever;
  std::size_t preferred = 0;                   // node to ask first
  std::uint64_t file_key = 0;                  // 0: none
  std::uint64_t bytes = 0;                     // of payload, there and back
  std::vector<std::span<std::byte>> places{};  // one per extent of a read
  TimePoint give_up{};                         // by net::steady_now()

  // The latest attempt:
  std::atomic<std::size_t> node{0};
  std::atomic<std::uint64_t> tag{0};  // 0: not sent yet
  std::uint64_t generation = 0;       // of the connection to that node
  TimePoint deadline{};               // by net::steady_now(): the node does not begin it later
  bool force_path = false;
  int detours = 0;
};

using CallPointer = std::shared_ptr<Call>;

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Who may talk to a node: the first messages of a connection, as two state machines without sockets.
//
//   client                              node
//   Hello(claim, nonce, methods)   ->
//                                  <-   Welcome                          Unix socket: the kernel has said who it is
//                                  <-   Challenge(method, nonce)         TCP
//   Proof(HMAC or credential)      ->
//                                  <-   Welcome(HMAC: the node proves to hold the key, too)
//
// Both digests cover the whole Hello and Challenge, so neither a claim nor a nonce can be exchanged on the way, and a
// recorded Proof is worth nothing against the next nonce.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "net/transport.h"

namespace tutti::net {

// Before a peer is trusted, no body is larger than this.
inline constexpr std::uint32_t kMaxHandshakeBody = 24 << 10;

class NodeHandshake {
 public:
  struct Step {
    std::vector<std::byte> answer{};  // to send in any case
    enum class State { kGoesOn, kAccepted, kRefused } state = State::kGoesOn;
    Error why{};  // when refused
  };

  // `known` is who the kernel says the peer is, where it can say. `options` outlive this.
  NodeHandshake(const ListenOptions& options, std::optional<wire::Identity> known);

  Step receive(const wire::Header& header, std::span<const std::byte> body);

  // Once accepted.
  const Peer& peer() const { return peer_; }

 private:
  Step hello(const wire::Header& header, std::span<const std::byte> body);
  Step proof(const wire::Header& header, std::span<const std::byte> body);
  Step accept(const wire::Digest& digest);
  Step refuse(Error why);

  const ListenOptions& options_;
  std::optional<wire::Identity> known_;
  Peer peer_;
  wire::Identity claim_;
  std::vector<std::byte> hello_, challenge_;  // bodies as they went over the wire
};

class ClientHandshake {
 public:
  explicit ClientHandshake(const ConnectOptions& options);

  std::vector<std::byte> hello();
  // The frame to answer with; an empty one: welcome() holds. kDenied, kProtocol.
  Result<std::vector<std::byte>> receive(const wire::Header& header, std::span<const std::byte> body);
  const wire::Welcome& welcome() const { return welcome_; }

 private:
  Result<std::vector<std::byte>> answer(const wire::Challenge& challenge);
  Result<std::vector<std::byte>> finish(wire::Welcome welcome);

  const ConnectOptions& options_;
  std::vector<std::byte> hello_, challenge_;
  bool keyed_ = false;
  wire::Welcome welcome_;
};

}  // namespace tutti::net

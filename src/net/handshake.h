// SPDX-License-Identifier: Apache-2.0
// Authentication: the first messages of a connection, as two state machines without sockets.
//
//   client                                 node
//   Hello(node, claim, nonce, methods)   ->
//                                        <-   Welcome                         Unix socket: the kernel reports both
//                                        users
//                                        <-   Challenge(method, nonce)        TCP
//   Proof(HMAC or credential)            ->
//                                        <-   Welcome(HMAC or credential)
//
// Each side authenticates the other. Every proof covers the whole Hello and Challenge, which contain a new nonce of
// each side: changed messages and recorded proofs are detected. The proofs of client and node contain different
// constants, so a proof cannot be reflected to its sender. The Hello contains the name of the node, so a process that
// took the port of one node cannot forward the handshake to another node.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "net/transport.h"

namespace tutti::net {

// Limit for bodies until the peer is authenticated, in bytes.
inline constexpr std::uint32_t kMaxHandshakeBody = 24 << 10;

// Not thread-safe.
class NodeHandshake {
 public:
  struct Step {
    std::vector<std::byte> answer{};  // frame to send, also if the client is refused
    enum class State { kContinues, kAccepted, kRefused } state = State::kContinues;
    Error why{};  // if refused
  };

  // `known`: the client's user as the kernel reports it, if it does. `local_job`: of JobCheck. `options` must outlive
  // this object.
  NodeHandshake(const ListenOptions& options, std::optional<wire::Identity> known,
                LocalJob local_job = std::optional<ApplicationId>{});

  Step receive(const wire::Header& header, std::span<const std::byte> body);
  // True: receive() of this message may block for long, for example if munged, a directory service or the batch system
  // does not answer.
  bool blocks(const wire::Header& header) const;

  // Valid once accepted.
  const Peer& peer() const { return peer_; }

 private:
  Step hello(const wire::Header& header, std::span<const std::byte> body);
  Step proof(const wire::Header& header, std::span<const std::byte> body);
  Step accept(wire::Welcome welcome);
  Step refuse(Error why);

  const ListenOptions& options_;
  std::optional<wire::Identity> known_;
  const LocalJob local_job_;
  JobClaim claimed_job_;
  Peer peer_;
  wire::Identity claim_;
  std::vector<std::byte> hello_, challenge_;  // bodies as sent and received
};

// Not thread-safe.
class ClientHandshake {
 public:
  // `known`: the node's user as the kernel reports it, if it does. `options` must outlive this object.
  ClientHandshake(const ConnectOptions& options, std::optional<wire::Identity> known);

  // The first frame to send. kDenied: no method to authenticate the node is configured.
  Result<std::vector<std::byte>> hello();
  // The next frame to send; empty: the handshake is complete and welcome() is valid. kDenied, kProtocol.
  Result<std::vector<std::byte>> receive(const wire::Header& header, std::span<const std::byte> body);
  const wire::Welcome& welcome() const { return welcome_; }

 private:
  Result<std::vector<std::byte>> answer(const wire::Challenge& challenge);
  Result<std::vector<std::byte>> finish(wire::Welcome welcome);
  Result<void> check_proof(const wire::Welcome& welcome) const;
  Result<void> check_user(std::uint32_t uid) const;
  CredentialService& service() const;

  const ConnectOptions& options_;
  const std::optional<wire::Identity> known_;
  std::vector<std::byte> hello_, challenge_;
  wire::Method method_ = wire::Method::kPeer;  // replaced by the method of the challenge
  wire::Welcome welcome_;
};

}  // namespace tutti::net

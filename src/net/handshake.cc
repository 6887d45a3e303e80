// SPDX-License-Identifier: Apache-2.0
#include "net/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "net/crypto.h"
#include "net/munge.h"

namespace tutti::net {
namespace {

constexpr std::string_view kClientPurpose = "tutti 1 client";
constexpr std::string_view kNodePurpose = "tutti 1 node";
constexpr std::string_view kMungePurpose = "tutti 1 munge";

std::uint8_t bit(wire::Method method) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(method));
}

std::vector<std::byte> body_of(const std::vector<std::byte>& frame) {
  return {frame.begin() + wire::kHeaderSize, frame.end()};
}

// What a MUNGE credential vouches for: this very conversation. No secret: MUNGE itself is the proof.
wire::Digest conversation(std::span<const std::byte> hello, std::span<const std::byte> challenge) {
  return authenticate(ClusterKey(32), kMungePurpose, {hello, challenge});
}

wire::Identity own_identity() {
  wire::Identity identity{.uid = ::geteuid(), .gid = ::getegid()};
  std::vector<gid_t> groups(1024);
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  identity.groups.assign(groups.begin(), groups.end());
  return identity;
}

}  // namespace

NodeHandshake::NodeHandshake(const ListenOptions& options, std::optional<wire::Identity> known)
    : options_(options), known_(std::move(known)) {}

NodeHandshake::Step NodeHandshake::receive(const wire::Header& header, std::span<const std::byte> body) {
  if (header.type == wire::Type::kHello && hello_.empty()) return hello(header, body);
  if (header.type == wire::Type::kProof && !challenge_.empty()) return proof(header, body);
  return refuse({ErrorCode::kDenied,
                 fmt::format("a {} message from a peer that is not authenticated yet", wire::name(header.type))});
}

NodeHandshake::Step NodeHandshake::hello(const wire::Header& header, std::span<const std::byte> body) {
  auto hello = wire::decode<wire::Hello>(header, body);
  if (!hello) return refuse(hello.error());
  hello_.assign(body.begin(), body.end());
  peer_.job = std::move(hello->job);
  claim_ = std::move(hello->claim);
  if (known_ && (hello->methods & bit(wire::Method::kPeer)) != 0) {
    peer_.method = wire::Method::kPeer;
    peer_.identity = *known_;
    return accept({});
  }
  if (options_.munge && (hello->methods & bit(wire::Method::kMunge)) != 0) {
    peer_.method = wire::Method::kMunge;
  } else if (options_.key && (hello->methods & bit(wire::Method::kKey)) != 0) {
    peer_.method = wire::Method::kKey;
  } else {
    return refuse({ErrorCode::kDenied, "no way to authenticate that both sides have: configure a cluster key"});
  }
  auto challenge = wire::encode(wire::Challenge{peer_.method, random_nonce()}, {});
  challenge_ = body_of(challenge);
  return {.answer = std::move(challenge)};
}

NodeHandshake::Step NodeHandshake::proof(const wire::Header& header, std::span<const std::byte> body) {
  auto proof = wire::decode<wire::Proof>(header, body);
  if (!proof) return refuse(proof.error());
  if (peer_.method == wire::Method::kMunge) {
    auto identity = verify_credential(proof->credential, conversation(hello_, challenge_));
    if (!identity) return refuse(identity.error());
    peer_.identity = *identity;
    return accept({});
  }
  if (!same_digest(proof->digest, authenticate(*options_.key, kClientPurpose, {hello_, challenge_}))) {
    return refuse({ErrorCode::kDenied, "the client does not hold the cluster's key"});
  }
  peer_.identity = claim_;
  return accept(authenticate(*options_.key, kNodePurpose, {hello_, challenge_}));
}

NodeHandshake::Step NodeHandshake::accept(const wire::Digest& digest) {
  challenge_.clear();
  const wire::Welcome welcome{.digest = digest,
                              .node = options_.node,
                              .now = options_.now(),
                              .limits = options_.limits,
                              .lend = options_.lend,
                              .targets = options_.targets};
  return {.answer = wire::encode(welcome, {}), .state = Step::State::kAccepted};
}

NodeHandshake::Step NodeHandshake::refuse(Error why) {
  challenge_.clear();
  return {.answer = wire::encode_failure(wire::Type::kWelcome, 0, wire::to_head(why)),
          .state = Step::State::kRefused,
          .why = std::move(why)};
}

ClientHandshake::ClientHandshake(const ConnectOptions& options) : options_(options) {}

std::vector<std::byte> ClientHandshake::hello() {
  wire::Hello hello{.software = "tutti", .job = options_.job.substr(0, wire::kMaxName), .nonce = random_nonce()};
  hello.methods = bit(wire::Method::kPeer);
  if (options_.key) hello.methods = static_cast<std::uint8_t>(hello.methods | bit(wire::Method::kKey));
  if (options_.munge) hello.methods = static_cast<std::uint8_t>(hello.methods | bit(wire::Method::kMunge));
  hello.claim = options_.claim ? *options_.claim : own_identity();
  auto frame = wire::encode(hello, {});
  hello_ = body_of(frame);
  return frame;
}

Result<std::vector<std::byte>> ClientHandshake::receive(const wire::Header& header, std::span<const std::byte> body) {
  if (header.type == wire::Type::kChallenge && challenge_.empty()) {
    auto challenge = wire::decode<wire::Challenge>(header, body);
    if (!challenge) return Failure(challenge.error());
    challenge_.assign(body.begin(), body.end());
    return answer(*challenge);
  }
  auto welcome = wire::decode<wire::Welcome>(header, body);
  if (!welcome) return Failure(welcome.error());
  return finish(std::move(*welcome));
}

Result<std::vector<std::byte>> ClientHandshake::answer(const wire::Challenge& challenge) {
  if (challenge.method == wire::Method::kMunge && options_.munge) {
    auto credential = make_credential(conversation(hello_, challenge_));
    if (!credential) return Failure(credential.error());
    return wire::encode(wire::Proof{.credential = std::move(*credential)}, {});
  }
  if (challenge.method != wire::Method::kKey || !options_.key) {
    return fail(ErrorCode::kProtocol, "the node wants a proof that was not offered");
  }
  keyed_ = true;
  return wire::encode(wire::Proof{.digest = authenticate(*options_.key, kClientPurpose, {hello_, challenge_})}, {});
}

Result<std::vector<std::byte>> ClientHandshake::finish(wire::Welcome welcome) {
  if (welcome.head.status != wire::kOk) {
    auto error = wire::to_error(welcome.head);
    error.message = "the node refused the connection: " + error.message;
    return Failure(std::move(error));
  }
  if (keyed_ && !same_digest(welcome.digest, authenticate(*options_.key, kNodePurpose, {hello_, challenge_}))) {
    return fail(ErrorCode::kDenied, "the node does not hold the cluster's key");
  }
  welcome_ = std::move(welcome);
  return std::vector<std::byte>{};
}

}  // namespace tutti::net

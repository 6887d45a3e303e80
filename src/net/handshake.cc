// SPDX-License-Identifier: Apache-2.0
#include "net/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/table.h"
#include "net/crypto.h"
#include "net/munge.h"

namespace tutti::net {
namespace {

constexpr std::string_view kClientPurpose = "tutti 3 client";
constexpr std::string_view kNodePurpose = "tutti 3 node";

std::uint8_t bit(wire::Method method) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(method));
}

std::vector<std::byte> body_of(const std::vector<std::byte>& frame) {
  return {frame.begin() + wire::kHeaderSize, frame.end()};
}

// A MUNGE credential contains a digest of this handshake. The digest needs no secret: MUNGE authenticates it. Never
// destroyed: a thread may check credentials at the end of the process.
const ClusterKey& no_key() {
  static const auto* const key = new ClusterKey(32);
  return *key;
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

NodeHandshake::NodeHandshake(const ListenOptions& options, std::optional<wire::Identity> known, LocalJob local_job)
    : options_(options), known_(std::move(known)), local_job_(std::move(local_job)) {}

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
  if (!hello->node.empty() && hello->node != options_.node) {
    return refuse({ErrorCode::kDenied, fmt::format("this is node {}, not {}: compare the endpoints in cluster.toml",
                                                   options_.node, printable(hello->node))});
  }
  peer_.job = std::move(hello->job);
  claim_ = std::move(hello->claim);
  claimed_job_ = {hello->application, hello->numbered};
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
    return refuse({ErrorCode::kDenied, "cannot authenticate: no method in common; configure a cluster key"});
  }
  auto challenge = wire::encode(wire::Challenge{peer_.method, random_nonce()}, {});
  challenge_ = body_of(challenge);
  return {.answer = std::move(challenge)};
}

NodeHandshake::Step NodeHandshake::proof(const wire::Header& header, std::span<const std::byte> body) {
  auto proof = wire::decode<wire::Proof>(header, body);
  if (!proof) return refuse(proof.error());
  if (peer_.method == wire::Method::kMunge) {
    CredentialService& service = options_.credentials ? *options_.credentials : *munge_service();
    auto identity = service.verify(proof->credential, authenticate(no_key(), kClientPurpose, {hello_, challenge_}));
    if (!identity) return refuse(identity.error());
    auto own = service.make(authenticate(no_key(), kNodePurpose, {hello_, challenge_}));
    if (!own) return refuse(own.error());
    peer_.identity = *identity;
    return accept({.credential = std::move(*own)});
  }
  if (!same_digest(proof->digest, authenticate(*options_.key, kClientPurpose, {hello_, challenge_}))) {
    return refuse({ErrorCode::kDenied, "the client does not hold the cluster's key"});
  }
  peer_.identity = claim_;
  return accept({.digest = authenticate(*options_.key, kNodePurpose, {hello_, challenge_})});
}

// `welcome` has the node's proof already.
NodeHandshake::Step NodeHandshake::accept(wire::Welcome welcome) {
  challenge_.clear();
  if (options_.jobs) {
    auto bound = options_.jobs->bind(peer_, claimed_job_, local_job_);
    if (!bound) return refuse(bound.error());
    peer_.application = *bound;
  }
  welcome.node = options_.node;
  welcome.now = options_.now();
  welcome.limits = options_.limits;
  welcome.by_reference = options_.by_reference;
  welcome.instance = options_.instance ? *options_.instance : own_instance();
  welcome.fence_time = options_.fence_time;
  return {.answer = wire::encode(welcome, {}), .state = Step::State::kAccepted};
}

NodeHandshake::Step NodeHandshake::refuse(Error why) {
  challenge_.clear();
  auto answer = wire::encode_failure(wire::Type::kWelcome, 0, wire::to_head(why));
  return {.answer = std::move(answer), .state = Step::State::kRefused, .why = std::move(why)};
}

bool NodeHandshake::blocks(const wire::Header& header) const {
  if (header.type == wire::Type::kHello)
    return known_ && options_.jobs && options_.jobs->may_ask(known_->uid, local_job_);
  return header.type == wire::Type::kProof && !challenge_.empty() && peer_.method == wire::Method::kMunge;
}

CredentialService& ClientHandshake::service() const {
  return options_.credentials ? *options_.credentials : *munge_service();
}

ClientHandshake::ClientHandshake(const ConnectOptions& options, std::optional<wire::Identity> known)
    : options_(options), known_(std::move(known)) {}

Result<std::vector<std::byte>> ClientHandshake::hello() {
  if (!known_ && !options_.key && !options_.munge) {
    return fail(ErrorCode::kDenied, "connections over TCP need authentication: set key_file or munge in cluster.toml");
  }
  wire::Hello hello{.software = "tutti",
                    .job = options_.job.substr(0, wire::kMaxName),
                    .node = options_.node.substr(0, wire::kMaxName),
                    .nonce = random_nonce(),
                    .application = options_.claimed_job.application,
                    .numbered = options_.claimed_job.numbered};
  if (known_) hello.methods = bit(wire::Method::kPeer);
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
  method_ = challenge.method;
  if (challenge.method == wire::Method::kMunge && options_.munge) {
    auto credential = service().make(authenticate(no_key(), kClientPurpose, {hello_, challenge_}));
    if (!credential) return Failure(credential.error());
    return wire::encode(wire::Proof{.credential = std::move(*credential)}, {});
  }
  if (challenge.method != wire::Method::kKey || !options_.key) {
    return fail(ErrorCode::kProtocol, "the node chose an authentication method that the client did not offer");
  }
  return wire::encode(wire::Proof{.digest = authenticate(*options_.key, kClientPurpose, {hello_, challenge_})}, {});
}

Result<std::vector<std::byte>> ClientHandshake::finish(wire::Welcome welcome) {
  if (welcome.head.status != wire::kOk) {
    auto error = wire::to_error(welcome.head);
    error.message = "the node refused the connection: " + error.message;
    return Failure(std::move(error));
  }
  if (auto proven = check_proof(welcome); !proven) return Failure(proven.error());
  welcome_ = std::move(welcome);
  return std::vector<std::byte>{};
}

Result<void> ClientHandshake::check_proof(const wire::Welcome& welcome) const {
  if (method_ == wire::Method::kKey) {
    if (same_digest(welcome.digest, authenticate(*options_.key, kNodePurpose, {hello_, challenge_}))) return {};
    return fail(ErrorCode::kDenied, "the node does not hold the cluster's key");
  }
  if (method_ == wire::Method::kMunge) {
    auto identity = service().verify(welcome.credential, authenticate(no_key(), kNodePurpose, {hello_, challenge_}));
    if (!identity) return Failure(identity.error());
    return check_user(identity->uid);
  }
  if (known_) return check_user(known_->uid);
  return fail(ErrorCode::kDenied, "the node did not authenticate itself");
}

Result<void> ClientHandshake::check_user(std::uint32_t uid) const {
  if (uid == 0 || uid == ::geteuid() || uid == options_.node_user) return {};
  return fail(
      ErrorCode::kDenied,
      fmt::format("the node runs as user {}, which is not root, not the user of this process and not the owner of "
                  "cluster.toml or of the gate's directory. If it is the right user, set node_user in cluster.toml.",
                  uid));
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
// Messages of the handshake, in this order (net/handshake.h).
#pragma once

#include <array>

#include "wire/message.h"

namespace tutti::wire {

enum class Method : std::uint8_t {
  kPeer = 1,   // Unix socket: the kernel reports the peer's user
  kKey = 2,    // HMAC-SHA256 with the cluster key, in both directions
  kMunge = 3,  // a MUNGE credential
};

// A user and its groups. The node accesses files with exactly these rights.
struct Identity {
  std::uint32_t uid = 65534;
  std::uint32_t gid = 65534;
  std::vector<std::uint32_t> groups{};

  void fields(auto& a) {
    a(uid, "uid");
    a(gid, "gid");
    a.integers(groups, "groups", 1024);
  }
};

using Nonce = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;

struct Hello {
  static constexpr Type kType = Type::kHello;
  std::string software{};    // "tutti 0.1.0"
  std::string job{};         // name for display: "slurm 4711", "ior"
  std::string node{};        // name of the node; another node refuses. Empty: any node
  std::uint8_t methods = 0;  // bit (1 << Method) for each method that the client supports
  Identity claim{};          // used only if the client proves that it has the cluster key
  Nonce nonce{};
  ApplicationId application = 0;  // of the stamps that the client will send
  bool numbered = false;          // it is a job's number, which the node may check; else the client made one

  void fields(auto& a) {
    a.text(software, "software", kMaxName);
    a.text(job, "job", kMaxName);
    a.text(node, "node", kMaxName);
    a(methods, "methods");
    claim.fields(a);
    a.raw(nonce.data(), nonce.size(), "nonce");
    a(application, "application");
    a(numbered, "numbered");
  }
};

struct Challenge {
  static constexpr Type kType = Type::kChallenge;
  Method method{};
  Nonce nonce{};

  void fields(auto& a) {
    a(method, "method");
    a.require(method >= Method::kPeer && method <= Method::kMunge, "method", "is unknown");
    a.raw(nonce.data(), nonce.size(), "nonce");
  }
};

struct Proof {
  static constexpr Type kType = Type::kProof;
  Digest digest{};
  std::string credential{};  // MUNGE only

  void fields(auto& a) {
    a.raw(digest.data(), digest.size(), "digest");
    a.text(credential, "credential", kMaxCredential);
  }
};

// What a client may have in flight on one connection.
struct Limits {
  std::uint32_t requests = 256;
  std::uint64_t bytes = 32 << 20;  // payloads that are sent with writes, and of expected read replies
  // Memory for payloads of more than `small` bytes that are sent with writes (Budget::capacity); beyond it, writes are
  // sent without payload (WriteRequest::on_request). wire::Credit changes it.
  std::uint64_t credit = ~std::uint64_t{0};
  std::uint64_t small = 64 << 10;
};

// Identifies a process for as long as it runs.
struct Instance {
  using Boot = std::array<std::byte, 16>;
  Boot boot{};  // of the kernel: another one after each boot, the same in all its containers
  // Another one for each process. A node with a new one proves that the processes before it have ended. 0: proves
  // nothing
  std::uint64_t process = 0;

  friend bool operator==(const Instance&, const Instance&) = default;
  void fields(auto& a) {
    a.raw(boot.data(), boot.size(), "boot");
    a(process, "process");
  }
};

struct Welcome {
  static constexpr Type kType = Type::kWelcome;
  ReplyHead head{};
  Digest digest{};           // the node's proof that it has the key; zeros for other methods
  std::string credential{};  // MUNGE only: the node's credential
  std::string node{};        // its name
  TimePoint now{};           // the node's steady clock, which deadlines refer to; any origin
  Limits limits{};
  bool by_reference = false;  // the client should send large payloads by reference (vmsplice)
  Instance instance{};        // the node's process
  Duration fence_time{};      // the node never runs again after it was stopped for this time; zero: not known

  void fields(auto& a) {
    a.raw(digest.data(), digest.size(), "digest");
    a.text(credential, "credential", kMaxCredential);
    a.text(node, "node", kMaxName);
    a(now, "now");
    a(limits.requests, "requests");
    a(limits.bytes, "bytes");
    a(limits.credit, "credit");
    a(limits.small, "small");
    a.require(limits.requests > 0 && limits.bytes > 0, "limits", "are zero");
    a(by_reference, "by reference");
    instance.fields(a);
    a(fence_time, "fence time");
  }
};

}  // namespace tutti::wire

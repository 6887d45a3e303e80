// SPDX-License-Identifier: Apache-2.0
// The connection to one node: what was sent and waits for an answer, what waits for its turn, and which files the node
// knows by key. Internal to the client.
#pragma once

#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "client/call.h"

namespace tutti {

// What a link tells its owner. Called without locks of the link.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void answered(CallPointer call, net::Incoming message) = 0;
  // The connection is gone. `sent` may have reached the node, `unsent` did not.
  virtual void lost(std::vector<CallPointer> sent, std::vector<CallPointer> unsent, const Error& why) = 0;
};

// Thread-safe.
class NodeLink final : public net::Handler {
 public:
  struct Options {
    std::size_t index = 0;
    net::Endpoint endpoint{};
    net::ConnectOptions connect{};
    Duration request_timeout{};
  };

  NodeLink(net::Transport& transport, Options options, LinkEvents& events);

  // Waits for the handshake; nothing to do if it is up.
  Result<void> connect();
  // When it returns, nothing of this link touches anybody's memory any more.
  void disconnect(const Error& why);
  bool up() const;
  // Counts connections.
  std::uint64_t generation() const;
  // The node runs on this machine: what it wrote outlives it in the page cache.
  bool local() const { return options_.endpoint.kind != net::Endpoint::Kind::kTcp; }

  // Sends it as soon as the node's limits allow. False: it is down.
  bool send(CallPointer call);
  // Waits for its answer on this thread, if it was sent on this link and nobody else waits here.
  void attend(const CallPointer& call);
  // The file is closed.
  void forget(std::uint64_t file_key);
  // A call that waits for an answer is past its deadline.
  bool overdue(TimePoint now) const;

  std::vector<std::span<std::byte>> place(const wire::Header& header, std::span<const std::byte> body) override;
  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

 private:
  bool fits(const Call& call) const;
  void pump(std::unique_lock<std::mutex>& lock);

  net::Transport& transport_;
  const Options options_;
  LinkEvents& events_;

  mutable std::mutex mutex_;
  net::ConnectionPointer connection_;
  net::ConnectionPointer closed_early_;  // before connect() had it
  std::uint64_t generation_ = 0;
  std::uint64_t last_tag_ = 0;
  std::unordered_map<std::uint64_t, CallPointer> sent_;  // by tag
  std::deque<CallPointer> waiting_;                      // for the node's limits
  std::uint64_t sent_bytes_ = 0;
  std::unordered_set<std::uint64_t> known_files_;
};

}  // namespace tutti

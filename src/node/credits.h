// SPDX-License-Identifier: Apache-2.0
// How much of a node's memory each connection may use for payloads that are sent with their writes (wire::Limits).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "net/admission.h"

namespace tutti::net {
class Connection;
}

namespace tutti::node {

// All credits together are never more than the memory, because a credit counts until its client has given it up. Only
// connections with large writes have one: those of others are withdrawn after a while and granted again at the next
// large write. A state machine; not thread-safe.
class Credits {
 public:
  // The credit of one connection.
  struct Holder {
    net::Connection* connection = nullptr;
    std::uint32_t user = 0;
    std::uint64_t granted = 0;     // the value last sent to the client
    std::uint64_t number = 0;      // of the message that it was sent in
    std::uint64_t reserved = 0;    // credit that the client may still use: at least `granted`
    bool shares = false;           // among those that share the memory
    unsigned unused = 0;           // calls of look() since its last large write
    std::atomic<bool> used{true};  // set it at each large write, on any thread
  };
  // Send `granted` and `number` to the client. Its connection may use `reserved`.
  using Changes = std::vector<Holder*>;

  // `most`: credit of one connection.
  Credits(net::WriteMemory memory, Bytes most) : memory_(memory), most_(most.count()) {}

  // A new connection, or one that has no credit at the moment.
  Changes join(Holder& holder);
  void remove(Holder& holder);  // the connection is closed
  // The client has accepted the credit with this number.
  Changes accepted(Holder& holder, std::uint64_t number);
  // Call about once per second: takes credits that are not used, and distributes what is free.
  Changes look();

 private:
  static constexpr unsigned kUnusedLooks = 5;

  std::uint64_t share_of(const Holder& holder) const;
  void leave(Holder& holder);
  void lower(Changes& changes);
  void raise(Changes& changes);

  const net::WriteMemory memory_;
  const std::uint64_t most_;
  std::uint64_t reserved_ = 0;                  // of all holders
  std::vector<Holder*> holders_;                // of all connections, in the order in which they joined
  std::map<std::uint32_t, std::size_t> users_;  // number of connections that share, by user
};

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// Which connections wait for requests about names, and whether these get on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "base/mutex.h"

namespace tutti::net {
class Connection;
}

namespace tutti::node {

// Two calls of a user run at a time (Workers), so a request can wait for longer than the request timeout. Thread-safe.
class NamesAtWork {
 public:
  enum class Kind : std::uint8_t { kName, kDirectorySync };

  // From the arrival of a request until its reply. Connections are compared only.
  void began(const net::Connection* connection, std::uint32_t user, Kind kind);
  void ended(const net::Connection* connection, std::uint32_t user, Kind kind);

  struct Progress {
    bool any = false;                            // requests wait or run
    std::set<const net::Connection*> naming{};   // have requests; one of the same user has ended, or a sync runs
    std::set<const net::Connection*> syncing{};  // have syncs of directories
  };
  // Since the last look.
  Progress look();

 private:
  struct OfConnection {
    std::uint32_t user = 0;
    std::size_t requests = 0, syncs = 0;
  };
  Mutex mutex_;
  std::map<const net::Connection*, OfConnection> connections_ TUTTI_GUARDED_BY(mutex_);
  std::set<std::uint32_t> moved_ TUTTI_GUARDED_BY(mutex_);  // users
};

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
#include "node/names_at_work.h"

#include <cassert>

namespace tutti::node {

void NamesAtWork::began(const net::Connection* connection, std::uint32_t user, Kind kind) {
  Lock lock(mutex_);
  OfConnection& own = connections_[connection];
  own.user = user;
  ++own.requests;
  if (kind == Kind::kDirectorySync) ++own.syncs;
}

void NamesAtWork::ended(const net::Connection* connection, std::uint32_t user, Kind kind) {
  Lock lock(mutex_);
  const auto own = connections_.find(connection);
  assert(own != connections_.end());
  if (kind == Kind::kDirectorySync) --own->second.syncs;
  if (--own->second.requests == 0) connections_.erase(own);
  moved_.insert(user);
}

NamesAtWork::Progress NamesAtWork::look() {
  Lock lock(mutex_);
  Progress progress{.any = !connections_.empty()};
  for (const auto& [connection, own] : connections_) {
    if (own.syncs > 0) progress.syncing.insert(connection);
    if (own.syncs > 0 || moved_.contains(own.user)) progress.naming.insert(connection);
  }
  moved_.clear();
  return progress;
}

}  // namespace tutti::node

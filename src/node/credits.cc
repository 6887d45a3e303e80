// SPDX-License-Identifier: Apache-2.0
#include "node/credits.h"

#include <algorithm>
#include <utility>

namespace tutti::node {

Credits::Changes Credits::join(Holder& holder) {
  Changes changes;
  if (holder.shares) return changes;
  if (std::ranges::find(holders_, &holder) == holders_.end()) holders_.push_back(&holder);
  holder.shares = true;
  holder.unused = 0;
  ++users_[holder.user];
  lower(changes);
  raise(changes);
  return changes;
}

void Credits::remove(Holder& holder) {
  leave(holder);
  std::erase(holders_, &holder);
  reserved_ -= std::exchange(holder.reserved, 0);
}

void Credits::leave(Holder& holder) {
  if (!std::exchange(holder.shares, false)) return;
  const auto user = users_.find(holder.user);
  if (--user->second == 0) users_.erase(user);
}

Credits::Changes Credits::accepted(Holder& holder, std::uint64_t number) {
  if (number != holder.number || holder.granted == holder.reserved) return {};
  reserved_ -= holder.reserved - holder.granted;
  holder.reserved = holder.granted;
  Changes changes;
  raise(changes);
  return changes;
}

Credits::Changes Credits::look() {
  for (Holder* holder : holders_) {
    holder->unused = holder->used.exchange(false) ? 0 : holder->unused + 1;
    if (holder->unused >= kUnusedLooks) leave(*holder);
  }
  Changes changes;
  lower(changes);
  raise(changes);
  return changes;
}

std::uint64_t Credits::share_of(const Holder& holder) const {
  return holder.shares ? std::min(most_, memory_.share({users_.size(), users_.at(holder.user)})) : 0;
}

void Credits::lower(Changes& changes) {
  for (Holder* holder : holders_) {
    const std::uint64_t share = share_of(*holder);
    if (holder->granted <= share) continue;
    holder->granted = share;
    ++holder->number;
    changes.push_back(holder);
  }
}

void Credits::raise(Changes& changes) {
  for (Holder* holder : holders_) {
    const std::uint64_t free = memory_.with_writes.count() - reserved_;
    const std::uint64_t now = std::min(share_of(*holder), holder->reserved + free);
    if (now <= holder->granted) continue;
    holder->granted = now;
    ++holder->number;
    reserved_ += std::max(now, holder->reserved) - holder->reserved;
    holder->reserved = std::max(now, holder->reserved);
    changes.push_back(holder);
  }
}

}  // namespace tutti::node

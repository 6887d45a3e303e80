// SPDX-License-Identifier: Apache-2.0
#include "node/usage.h"

#include <algorithm>

namespace tutti::node {
namespace {

// Saturates: with thousands of waiting requests the sum reaches the largest value within days.
void add(Duration& sum, Duration more) {
  sum = more > Duration::max() - sum ? Duration::max() : sum + more;
}

}  // namespace

void UsageTable::arrived(const Transfer& transfer, const std::string& job) {
  if (entries_.size() >= limit_ && !entries_.contains(key(transfer))) make_room();
  Entry& entry = entries_[key(transfer)];
  entry.touched = ++clock_;
  wire::Usage& usage = entry.usage;
  usage.application = transfer.application;
  usage.user = transfer.user;
  usage.target = transfer.target;
  if (usage.job != job && !job.empty()) usage.job = job;
  usage.announced = transfer.announced;
  ++usage.requests;
  ++usage.waiting;
  usage.waiting_bytes += transfer.bytes;
}

void UsageTable::finished(const Transfer& transfer, std::uint64_t moved, const wire::Timing& timing) {
  const auto found = entries_.find(key(transfer));
  if (found == entries_.end()) return;
  wire::Usage& usage = found->second.usage;
  --usage.waiting;
  usage.waiting_bytes -= transfer.bytes;
  (transfer.direction == Direction::kRead ? usage.read_bytes : usage.written_bytes) += moved;
  add(usage.queued, timing.queued + timing.waiting);
  add(usage.engine, timing.engine);
}

UsageTable::Page UsageTable::page(const wire::UsageKey& first) const {
  std::vector<wire::UsageKey> keys;
  for (const auto& [key, entry] : entries_)
    if (key >= first) keys.push_back(key);
  const std::size_t count = std::min(keys.size(), wire::kMaxUsage);
  std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end());
  Page page{.rows = {}, .more = count < keys.size()};
  for (std::size_t i = 0; i < count; ++i) page.rows.push_back(entries_.at(keys[i]).usage);
  return page;
}

void UsageTable::make_room() {
  std::vector<std::uint64_t> touched;
  for (const auto& [key, entry] : entries_) touched.push_back(entry.touched);
  const auto middle = touched.begin() + static_cast<std::ptrdiff_t>(touched.size() / 2);
  std::nth_element(touched.begin(), middle, touched.end());
  boost::unordered::erase_if(entries_, [limit = *middle](const auto& item) {
    return item.second.touched <= limit && item.second.usage.waiting == 0;
  });
}

}  // namespace tutti::node

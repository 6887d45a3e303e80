// SPDX-License-Identifier: Apache-2.0
#include "node/usage.h"

#include <algorithm>

namespace tutti::node {

void UsageTable::arrived(const Transfer& transfer, const std::string& job) {
  if (entries_.size() >= limit_ && !entries_.contains(key(transfer))) make_room();
  Entry& entry = entries_[key(transfer)];
  entry.touched = ++clock_;
  wire::Usage& usage = entry.usage;
  usage.application = transfer.application;
  usage.target = transfer.target;
  if (usage.job != job && !job.empty()) usage.job = job;
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
  usage.queued += timing.queued + timing.waiting;
  usage.engine += timing.engine;
}

std::vector<wire::Usage> UsageTable::report(std::size_t body) const {
  std::vector<const Entry*> recent;
  for (const auto& [key, entry] : entries_) recent.push_back(&entry);
  std::sort(recent.begin(), recent.end(), [](const Entry* a, const Entry* b) { return a->touched > b->touched; });
  std::vector<wire::Usage> list;
  std::size_t size = 0;
  for (const Entry* entry : recent) {
    size += sizeof(wire::Usage) + entry->usage.job.size();  // no less than what it takes on the wire
    if (size > body) break;
    list.push_back(entry->usage);
  }
  return list;
}

void UsageTable::make_room() {
  std::vector<std::uint64_t> touched;
  for (const auto& [key, entry] : entries_) touched.push_back(entry.touched);
  const auto middle = touched.begin() + static_cast<std::ptrdiff_t>(touched.size() / 2);
  std::nth_element(touched.begin(), middle, touched.end());
  std::erase_if(entries_, [limit = *middle](const auto& item) {
    return item.second.touched <= limit && item.second.usage.waiting == 0;
  });
}

}  // namespace tutti::node

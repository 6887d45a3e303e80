// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti::sim {
namespace {

constexpr std::uint64_t kUnread = 0xeeeeeeeeeeeeeeee;

}  // namespace

void History::fill(std::span<std::byte> block, std::uint64_t value) {
  for (std::size_t at = 0; at + sizeof value <= block.size(); at += sizeof value)
    std::memcpy(block.data() + at, &value, sizeof value);
}

void History::clear(std::span<std::byte> block) {
  fill(block, kUnread);
}

std::uint64_t History::begin(Change change) {
  change.effect.begin = simulator_.now();
  changes_.push_back(std::move(change));
  if (!changes_.back().truncate) changes_.back().effect.value = changes_.size();
  return changes_.size();
}

std::uint64_t History::write_begins(std::uint64_t file, std::uint64_t handle, std::vector<std::uint64_t> blocks) {
  return begin({.file = file, .handle = handle, .blocks = std::move(blocks), .effect = {}});
}

std::uint64_t History::truncate_begins(std::uint64_t file, std::uint64_t size) {
  return begin({.file = file, .blocks = {}, .size = size, .truncate = true, .effect = {}});
}

void History::ended(std::uint64_t number, Known known, Nanoseconds latest) {
  Change& change = changes_[number - 1];
  change.over = true;
  change.effect.end = latest;
  change.effect.acknowledged = known == Known::kDone;
  change.effect.repeated = known == Known::kUnknown || latest - change.effect.begin >= repeats_after_;
  if (known == Known::kDone && !change.truncate) unsynced_[change.handle].push_back(number);
}

// False: not all words are equal.
bool History::value_of(std::span<const std::byte> content, std::uint64_t& value) const {
  std::memcpy(&value, content.data(), sizeof value);
  return std::memcmp(content.data(), content.data() + sizeof value, content.size() - sizeof value) == 0;
}

void History::read(std::uint64_t file, std::uint64_t block, std::span<const std::byte> content, Nanoseconds begin) {
  std::uint64_t value = 0;
  if (!value_of(content, value))
    return wrong(fmt::format("a read of block {} of file {} that ended at {:.6f} returned parts of several writes",
                             block, file, seconds(simulator_.now())));
  if (value == kUnread) value = 0;
  observed_[{file, block}].reads.push_back({value, begin, simulator_.now()});
}

void History::synced(std::uint64_t handle, Nanoseconds begin) {
  auto& writes = unsynced_[handle];
  std::erase_if(writes, [&](std::uint64_t number) {
    BlockHistory::Write& effect = changes_[number - 1].effect;
    if (effect.end > begin) return false;
    effect.synced = simulator_.now();
    return true;
  });
}

void History::sync_failed(std::uint64_t handle, Nanoseconds begin) {
  std::erase_if(unsynced_[handle], [&](std::uint64_t number) { return changes_[number - 1].effect.end <= begin; });
}

std::uint64_t History::stored(const Inode& inode, std::uint64_t block) {
  const auto found = inode.data.find(block);
  std::uint64_t value = 0;
  if (found != inode.data.end() && !value_of(found->second, value))
    wrong(fmt::format("block {} of file {} has parts of several writes at {:.6f}", block, inode.generation,
                      seconds(simulator_.now())));
  return value;
}

void History::written(const Inode& inode, std::uint64_t block) {
  const std::uint64_t value = stored(inode, block);
  const auto at = [&] {
    return fmt::format("block {} of file {} at {:.6f}", block, inode.generation, seconds(simulator_.now()));
  };
  if (value == 0 || value > changes_.size()) return wrong("unknown data was written to " + at());
  const Change& change = changes_[value - 1];
  if (change.file != inode.generation || std::ranges::find(change.blocks, block) == change.blocks.end())
    return wrong(fmt::format("write {} was applied to {}, which it does not name", value, at()));
  if (change.over && simulator_.now() > change.effect.end)
    wrong(fmt::format("write {} [{:.6f}, {:.6f}] was applied too late: {}", value, seconds(change.effect.begin),
                      seconds(change.effect.end), at()));
}

// Truncates have no numbers in the file, so one that can be this one is searched.
void History::truncated(const Inode& inode, std::uint64_t size) {
  const bool known = std::ranges::any_of(changes_, [&](const Change& change) {
    return change.truncate && change.file == inode.generation && change.size * Inode::kBlock == size &&
           !(change.over && simulator_.now() > change.effect.end);
  });
  if (!known)
    wrong(fmt::format("a truncate of file {} to {} was applied too late, at {:.6f}", inode.generation, size,
                      seconds(simulator_.now())));
}

void History::reverted(const Inode& inode, std::uint64_t block) {
  observed_[{inode.generation, block}].reverts.push_back({stored(inode, block), simulator_.now()});
}

std::vector<std::string> History::check() const {
  std::vector<std::string> all = violations_;
  std::map<BlockKey, BlockHistory> blocks = observed_;
  for (const Change& change : changes_)
    for (const std::uint64_t block : change.blocks) blocks[{change.file, block}].writes.push_back(change.effect);
  for (const Change& change : changes_) {
    if (!change.truncate) continue;
    for (auto next = blocks.lower_bound({change.file, change.size});
         next != blocks.end() && next->first.first == change.file; ++next)
      next->second.writes.push_back(change.effect);
  }
  for (const auto& [key, block] : blocks)
    if (auto found = tutti::sim::check(block))
      all.push_back(fmt::format("block {} of file {}: {}", key.second, key.first, *found));
  return all;
}

}  // namespace tutti::sim

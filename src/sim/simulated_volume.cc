// SPDX-License-Identifier: Apache-2.0
// The data of a simulated volume: inodes, blocks, and the engine that reads and writes them.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <utility>

#include "sim/simulated_files.h"

namespace tutti::sim {

class VolumeEngine final : public Engine {
 public:
  VolumeEngine(Volume& volume, Process& process, DiskRule rule)
      : volume_(volume), process_(process), rule_(std::move(rule)) {}

  std::string name() const override { return "simulated"; }

  void submit(std::span<Operation* const> operations) override {
    boost::container::small_vector<Operation*, 16> done;
    for (Operation* operation : operations) {
      const DiskFault fault = (rule_ ? rule_(*operation) : std::nullopt).value_or(DiskFault{});
      const bool later = fault.delay > Duration{}, sync = operation->kind == Operation::Kind::kSync;
      if (!sync || !later) serve(*operation, fault);
      if (!later) done.push_back(operation);
      if (later)
        process_.at(process_.simulator().now() + fault.delay.count(), [this, operation, fault, sync] {
          if (sync) serve(*operation, fault);
          deliver({&operation, 1});
        });
    }
    deliver(done);
  }

 private:
  void serve(Operation& operation, const DiskFault& fault) {
    operation.error = fault.error;
    operation.transferred = 0;
    const bool sync = operation.kind == Operation::Kind::kSync;
    if (fault.error != 0 && (sync || fault.at_most == UINT64_MAX)) return;
    Inode& inode = inode_of(*operation.file);
    if (sync) return volume_.sync(inode, process_);
    if (operation.kind == Operation::Kind::kCopy) return copy(operation, inode, fault.at_most);
    std::uint64_t left = std::min(operation.length(), fault.at_most);
    if (operation.kind == Operation::Kind::kRead)
      left = std::min(left, inode.size - std::min(inode.size, operation.offset));
    for (const iovec& part : operation.memory) {
      const std::uint64_t size = std::min<std::uint64_t>(left, part.iov_len);
      if (size == 0) break;
      const std::span<std::byte> memory(static_cast<std::byte*>(part.iov_base), size);
      const std::uint64_t offset = operation.offset + operation.transferred;
      if (operation.kind == Operation::Kind::kRead)
        volume_.read(inode, offset, memory);
      else
        volume_.write(inode, offset, memory, process_);
      operation.transferred += size;
      left -= size;
    }
  }

  void copy(Operation& operation, Inode& to, std::uint64_t at_most) {
    const Inode& from = inode_of(*operation.source);
    const std::uint64_t there = from.size - std::min(from.size, operation.source_offset);
    std::vector<std::byte> memory(std::min({operation.length(), at_most, there}));
    if (memory.empty()) return;
    volume_.read(from, operation.source_offset, memory);
    volume_.write(to, operation.offset, memory, process_);
    operation.transferred = memory.size();
  }

  Volume& volume_;
  Process& process_;
  const DiskRule rule_;
};

Volume::Volume(Simulator& simulator, const Options& options) : simulator_(simulator), options_(options) {
  names_[""] = new_inode(S_IFDIR | 0777);
}

std::unique_ptr<Engine> Volume::make_engine(Process& process, DiskRule rule) {
  return std::make_unique<VolumeEngine>(*this, process, std::move(rule));
}

InodePointer Volume::new_inode(mode_t mode) {
  auto inode = std::make_shared<Inode>();
  inode->generation = ++last_generation_;
  inode->number = inodes_.empty() ? 2 : inodes_.rbegin()->first + 1;
  auto candidate = inodes_.lower_bound(next_candidate_);
  if (candidate == inodes_.end()) candidate = inodes_.begin();
  if (candidate != inodes_.end()) {
    if (candidate->second.expired()) inode->number = candidate->first;
    next_candidate_ = candidate->first + 1;
  }
  inode->mode = mode;
  inode->accessed = inode->modified = inode->changed = now();
  inodes_[inode->number] = inode;
  return inode;
}

std::vector<std::weak_ptr<const Inode>> Volume::inodes() const {
  std::vector<std::weak_ptr<const Inode>> all;
  for (const auto& [number, inode] : inodes_) all.emplace_back(inode);
  return all;
}

InodePointer Volume::make_file(const std::string& path, std::uint64_t size, mode_t mode) {
  for (std::string parent = parent_of(path); !parent.empty(); parent = parent_of(parent))
    if (!names_.contains(parent)) names_[parent] = new_inode(S_IFDIR | 0777);
  InodePointer& file = names_[path];
  file = new_inode(S_IFREG | mode);
  file->size = size;
  return file;
}

InodePointer Volume::find(const std::string& path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

void Volume::write(Inode& inode, std::uint64_t offset, std::span<const std::byte> from, const Process& by) {
  inode.size = std::max(inode.size, offset + from.size());
  inode.modified = now();
  if (!options_.content) return;
  while (!from.empty()) {
    const std::uint64_t block = offset / Inode::kBlock, at = offset % Inode::kBlock;
    const std::size_t size = std::min<std::uint64_t>(from.size(), Inode::kBlock - at);
    auto& data = inode.data[block];
    data.resize(Inode::kBlock);
    const Process*& cached_at = inode.dirty[block];
    if (cached_at && cached_at != &by) inode.stable[block] = data;  // the file system's lock moves to this machine
    cached_at = &by;
    std::memcpy(data.data() + at, from.data(), size);
    if (events_) events_->written(inode, block);
    offset += size;
    from = from.subspan(size);
  }
}

void Volume::read(const Inode& inode, std::uint64_t offset, std::span<std::byte> into) const {
  if (!options_.content) return;
  while (!into.empty()) {
    const std::uint64_t at = offset % Inode::kBlock;
    const std::size_t size = std::min<std::uint64_t>(into.size(), Inode::kBlock - at);
    const auto found = inode.data.find(offset / Inode::kBlock);
    if (found == inode.data.end())
      std::memset(into.data(), 0, size);
    else
      std::memcpy(into.data(), found->second.data() + at, size);
    offset += size;
    into = into.subspan(size);
  }
}

void Volume::truncate(Inode& inode, std::uint64_t size) {
  const std::uint64_t whole = size / Inode::kBlock, rest = size % Inode::kBlock;
  for (auto* blocks : {&inode.data, &inode.stable}) {
    blocks->erase(blocks->lower_bound(rest == 0 ? whole : whole + 1), blocks->end());
    if (const auto last = blocks->find(whole); rest != 0 && last != blocks->end())
      std::fill(last->second.begin() + static_cast<std::ptrdiff_t>(rest), last->second.end(), std::byte{0});
  }
  inode.dirty.erase(inode.dirty.lower_bound(rest == 0 ? whole : whole + 1), inode.dirty.end());
  inode.size = size;
  inode.modified = inode.changed = now();
  if (events_) events_->truncated(inode, size);
}

void Volume::sync(Inode& inode, const Process& by) {
  std::erase_if(inode.dirty, [&](const auto& dirty) {
    if (dirty.second == &by) inode.stable[dirty.first] = inode.data[dirty.first];
    return dirty.second == &by;
  });
}

std::uint64_t Volume::power_cuts(const Process& machine) const {
  const auto found = power_cuts_.find(&machine);
  return found == power_cuts_.end() ? 0 : found->second;
}

void Volume::cut_power(const Process& machine) {
  ++power_cuts_[&machine];
  for (auto& [number, weak] : inodes_) {
    const auto inode = weak.lock();
    if (!inode) continue;
    for (auto next = inode->dirty.begin(); next != inode->dirty.end();) {
      if (next->second != &machine) {
        ++next;
        continue;
      }
      const auto old = inode->stable.find(next->first);
      if (old == inode->stable.end())
        inode->data.erase(next->first);
      else
        inode->data[next->first] = old->second;
      if (events_) events_->reverted(*inode, next->first);
      next = inode->dirty.erase(next);
    }
  }
}

}  // namespace tutti::sim

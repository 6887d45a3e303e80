// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/memory.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tutti::mpi {

Memory::Memory(void* buffer, Flat type, std::int64_t count)
    : base_(reinterpret_cast<std::uintptr_t>(buffer)),
      type_(std::move(type)),
      size_(static_cast<std::uint64_t>(type_.size) * static_cast<std::uint64_t>(count)) {
  const bool one = count == 1 && type_.blocks.size() == 1;
  if (size_ > 0 && (one || type_.dense()))
    contiguous_ = reinterpret_cast<std::byte*>(base_ + static_cast<std::uintptr_t>(type_.blocks[0].offset));
  before_.reserve(type_.blocks.size());
  std::uint64_t sum = 0;
  for (const Block& block : type_.blocks) {
    before_.push_back(sum);
    sum += static_cast<std::uint64_t>(block.length);
  }
}

template <typename Action>
void Memory::walk(std::uint64_t position, std::uint64_t length, Action action) const {
  assert(position + length <= size_);
  if (length == 0) return;
  const auto type_size = static_cast<std::uint64_t>(type_.size);
  std::uint64_t element = position / type_size;
  std::uint64_t inside = position % type_size;
  auto block = static_cast<std::size_t>(std::upper_bound(before_.begin(), before_.end(), inside) - before_.begin()) - 1;
  inside -= before_[block];
  while (length > 0) {
    const Block& current = type_.blocks[block];
    const std::uint64_t part = std::min(static_cast<std::uint64_t>(current.length) - inside, length);
    const auto offset = static_cast<std::uintptr_t>(static_cast<std::int64_t>(element) * type_.extent + current.offset);
    action(reinterpret_cast<std::byte*>(base_ + offset + inside), part);
    length -= part;
    inside = 0;
    if (++block == type_.blocks.size()) {
      block = 0;
      ++element;
    }
  }
}

void Memory::gather(std::uint64_t position, std::span<std::byte> into) const {
  if (contiguous_) {
    if (!into.empty()) std::memcpy(into.data(), contiguous_ + position, into.size());
    return;
  }
  std::byte* out = into.data();
  walk(position, into.size(), [&out](const std::byte* memory, std::size_t length) {
    std::memcpy(out, memory, length);
    out += length;
  });
}

void Memory::scatter(std::uint64_t position, std::span<const std::byte> from) const {
  if (contiguous_) {
    if (!from.empty()) std::memcpy(contiguous_ + position, from.data(), from.size());
    return;
  }
  const std::byte* in = from.data();
  walk(position, from.size(), [&in](std::byte* memory, std::size_t length) {
    std::memcpy(memory, in, length);
    in += length;
  });
}

}  // namespace tutti::mpi

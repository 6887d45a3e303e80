// SPDX-License-Identifier: Apache-2.0
#include "net/buffer.h"

#include <array>
#include <bit>
#include <cassert>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "wire/frame.h"

namespace tutti::net {
namespace {

constexpr std::size_t kSmallest = kBufferAlignment;
constexpr std::size_t kClasses = std::bit_width(wire::kMaxPayload / kSmallest);

std::size_t class_of(std::size_t capacity) {
  return static_cast<std::size_t>(std::bit_width(capacity / kSmallest)) - 1;
}

}  // namespace

struct BufferPool::State {
  mutable std::mutex mutex;
  std::condition_variable released;
  std::size_t budget = 0;
  std::size_t in_use = 0;
  std::size_t kept = 0;  // free, for reuse
  std::size_t waiters = 0;
  bool refused = false;  // since the last notification
  std::array<std::vector<std::byte*>, kClasses> free;
  std::function<void()> notify;

  // Memory for a buffer of that class, or nullptr if the budget forbids it. Drops kept buffers of other classes for it.
  std::byte* take(std::size_t capacity) {
    if (in_use + capacity > budget) return nullptr;
    auto& mine = free[class_of(capacity)];
    std::byte* data = nullptr;
    if (!mine.empty()) {
      data = mine.back();
      mine.pop_back();
      kept -= capacity;
    } else {
      for (std::size_t i = kClasses; i-- > 0 && in_use + kept + capacity > budget;) drop(i, capacity);
      data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, capacity));
      if (data == nullptr) throw std::bad_alloc();
    }
    in_use += capacity;
    return data;
  }

  void drop(std::size_t index, std::size_t room) {
    while (!free[index].empty() && in_use + kept + room > budget) {
      std::free(free[index].back());
      free[index].pop_back();
      kept -= kSmallest << index;
    }
  }
};

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer moved(std::move(other));
  std::swap(pool_, moved.pool_);
  std::swap(data_, moved.data_);
  std::swap(size_, moved.size_);
  std::swap(capacity_, moved.capacity_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) pool_->release(data_, capacity_);
}

void Buffer::resize(std::size_t size) {
  assert(size <= capacity_);
  size_ = size;
}

BufferPool::BufferPool(Bytes budget) : state_(std::make_unique<State>()) {
  state_->budget = std::max<std::size_t>(budget.count(), wire::kMaxPayload);
}

BufferPool::~BufferPool() {
  for (auto& list : state_->free) {
    for (auto* data : list) std::free(data);
  }
}

std::shared_ptr<BufferPool> BufferPool::create(Bytes budget) {
  return std::shared_ptr<BufferPool>(new BufferPool(budget));
}

Buffer BufferPool::try_allocate(std::size_t size) {
  assert(size > 0 && size <= wire::kMaxPayload);
  const auto capacity = std::bit_ceil(std::max(size, kSmallest));
  std::lock_guard lock(state_->mutex);
  auto* data = state_->take(capacity);
  if (data == nullptr) {
    state_->refused = true;
    return {};
  }
  return Buffer(shared_from_this(), data, size, capacity);
}

Buffer BufferPool::allocate(std::size_t size) {
  assert(size > 0 && size <= wire::kMaxPayload);
  const auto capacity = std::bit_ceil(std::max(size, kSmallest));
  std::unique_lock lock(state_->mutex);
  ++state_->waiters;
  std::byte* data = nullptr;
  state_->released.wait(lock, [&] { return (data = state_->take(capacity)) != nullptr; });
  --state_->waiters;
  return Buffer(shared_from_this(), data, size, capacity);
}

void BufferPool::release(std::byte* data, std::size_t capacity) {
  std::function<void()> notify;
  {
    std::lock_guard lock(state_->mutex);
    state_->in_use -= capacity;
    state_->kept += capacity;
    state_->free[class_of(capacity)].push_back(data);
    if (state_->waiters > 0) state_->released.notify_all();
    if (std::exchange(state_->refused, false)) notify = state_->notify;
  }
  if (notify) notify();
}

void BufferPool::when_released(std::function<void()> notify) {
  std::lock_guard lock(state_->mutex);
  state_->notify = std::move(notify);
}

Bytes BufferPool::budget() const {
  return Bytes(state_->budget);
}

Bytes BufferPool::in_use() const {
  std::lock_guard lock(state_->mutex);
  return Bytes(state_->in_use);
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "net/buffer.h"

#include <array>
#include <bit>
#include <cassert>
#include <condition_variable>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "net/admission.h"
#include "wire/frame.h"

namespace tutti::net {
namespace {

constexpr std::size_t kSmallest = Budget::kSmallest;
static_assert(kSmallest == kBufferAlignment);
constexpr std::size_t kClasses = std::bit_width(wire::kMaxPayload / kSmallest);

std::size_t class_of(std::size_t capacity) {
  return static_cast<std::size_t>(std::bit_width(capacity / kSmallest)) - 1;
}

}  // namespace

struct BufferPool::State {
  State(Bytes most, Bytes least) : budget(most, least) {}
  mutable Mutex mutex;
  std::condition_variable released;
  Budget budget TUTTI_GUARDED_BY(mutex);
  std::size_t kept TUTTI_GUARDED_BY(mutex) = 0;  // free, for reuse
  std::size_t waiters TUTTI_GUARDED_BY(mutex) = 0;
  bool refused TUTTI_GUARDED_BY(mutex) = false;  // since the last notification
  std::array<std::vector<std::byte*>, kClasses> free TUTTI_GUARDED_BY(mutex);
  std::function<void()> notify TUTTI_GUARDED_BY(mutex);

  // Memory for a buffer of this capacity; nullptr if the budget is used up. Frees kept buffers of other sizes if
  // needed.
  std::byte* take(std::size_t capacity) TUTTI_REQUIRES(mutex) {
    if (!budget.fits(capacity)) return nullptr;
    auto& mine = free[class_of(capacity)];
    std::byte* data = nullptr;
    if (!mine.empty()) {
      data = mine.back();
      mine.pop_back();
      kept -= capacity;
    } else {
      for (std::size_t i = kClasses; i-- > 0 && !budget.fits(kept + capacity);) drop(i, capacity);
      data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, capacity));
      if (data == nullptr) throw std::bad_alloc();
    }
    budget.take(capacity);
    return data;
  }

  void drop(std::size_t index, std::size_t room) TUTTI_REQUIRES(mutex) {
    while (!free[index].empty() && !budget.fits(kept + room)) {
      std::free(free[index].back());
      free[index].pop_back();
      kept -= kSmallest << index;
    }
  }
};

void Buffer::charge(std::shared_ptr<BufferAccount> account) {
  account_ = std::move(account);
  account_->held += capacity_;
}

void Buffer::give_back() {
  if (account_) account_->held -= capacity_;
  pool_->release(data_, capacity_);
}

void Buffer::resize(std::size_t size) {
  assert(size <= capacity_);
  size_ = size;
}

BufferPool::BufferPool(Bytes budget, Bytes least) : state_(std::make_unique<State>(budget, least)) {}

BufferPool::~BufferPool() {
  for (auto& list : state_->free) {
    for (auto* data : list) std::free(data);
  }
}

std::shared_ptr<BufferPool> BufferPool::create(Bytes budget) {
  return create(budget, Bytes(wire::kMaxPayload));
}

std::shared_ptr<BufferPool> BufferPool::create(Bytes budget, Bytes least) {
  return std::shared_ptr<BufferPool>(new BufferPool(budget, least));
}

Buffer BufferPool::try_allocate(std::size_t size) {
  assert(size > 0 && size <= wire::kMaxPayload);
  const auto capacity = Budget::capacity(size);
  Lock lock(state_->mutex);
  auto* data = state_->take(capacity);
  if (data == nullptr) {
    state_->refused = true;
    return {};
  }
  return Buffer(shared_from_this(), data, size, capacity);
}

bool BufferPool::try_allocate(std::span<const std::size_t> sizes, std::span<Buffer> buffers) {
  Lock lock(state_->mutex);
  Budget trial = state_->budget;
  for (const auto size : sizes)
    if (!trial.take(Budget::capacity(size))) {
      state_->refused = true;
      return false;
    }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto capacity = Budget::capacity(sizes[i]);
    buffers[i] = Buffer(shared_from_this(), state_->take(capacity), sizes[i], capacity);
  }
  return true;
}

bool BufferPool::within_share(const BufferAccount& account, std::size_t size) {
  const std::size_t held = account.held;
  if (held == 0) return true;
  Lock lock(state_->mutex);
  const std::size_t capacity = Budget::capacity(size);
  const std::size_t most = state_->budget.most() + (capacity <= Budget::kSmall ? Budget::kReserve : 0);
  if (state_->budget.in_use() + held + capacity <= most) return true;
  state_->refused = true;
  return false;
}

Buffer BufferPool::allocate(std::size_t size) {
  assert(size > 0 && size <= wire::kMaxPayload);
  const auto capacity = Budget::capacity(size);
  Lock lock(state_->mutex);
  ++state_->waiters;
  std::byte* data = nullptr;
  state_->released.wait(lock,
                        [&]() TUTTI_REQUIRES(state_->mutex) { return (data = state_->take(capacity)) != nullptr; });
  --state_->waiters;
  return Buffer(shared_from_this(), data, size, capacity);
}

void BufferPool::release(std::byte* data, std::size_t capacity) {
  std::function<void()> notify;
  {
    Lock lock(state_->mutex);
    state_->budget.give_back(capacity);
    state_->kept += capacity;
    state_->free[class_of(capacity)].push_back(data);
    if (state_->waiters > 0) state_->released.notify_all();
    if (std::exchange(state_->refused, false)) notify = state_->notify;
  }
  if (notify) notify();
}

void BufferPool::when_released(std::function<void()> notify) {
  Lock lock(state_->mutex);
  state_->notify = std::move(notify);
}

Bytes BufferPool::budget() const {
  Lock lock(state_->mutex);
  return Bytes(state_->budget.most());
}

Bytes BufferPool::in_use() const {
  Lock lock(state_->mutex);
  return Bytes(state_->budget.in_use());
}

}  // namespace tutti::net

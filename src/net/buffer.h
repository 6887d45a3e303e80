// SPDX-License-Identifier: Apache-2.0
// Memory for file data: aligned for O_DIRECT, reused, and limited by a budget.
#pragma once

#include <tutti/base.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace tutti::net {

inline constexpr std::size_t kBufferAlignment = 4096;

class BufferPool;

// Counts what one client holds of a pool, in bytes. Thread-safe.
struct BufferAccount {
  std::atomic<std::size_t> held{0};
};

// Memory from a pool, aligned to 4096 bytes. The destructor returns it to the pool, on any thread. Keeps the pool
// alive. Move-only; not thread-safe. A default-constructed one is empty.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) give_back();
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }  // a power of two, at least 4096
  bool empty() const { return size_ == 0; }
  std::span<std::byte> span() const { return {data_, size_}; }

  // Changes the size, for example after a short read. At most capacity().
  void resize(std::size_t size);

  // Counts the buffer in this account until it is released. Once per buffer.
  void charge(std::shared_ptr<BufferAccount> account);

 private:
  friend class BufferPool;
  void give_back();
  void swap(Buffer& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(account_, other.account_);
  }
  Buffer(std::shared_ptr<BufferPool> pool, std::byte* data, std::size_t size, std::size_t capacity)
      : pool_(std::move(pool)), data_(data), size_(size), capacity_(capacity) {}

  std::shared_ptr<BufferPool> pool_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::shared_ptr<BufferAccount> account_;
};

// Buffers in use and buffers kept for reuse are together never larger than the budget. Thread-safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // A budget below wire::kMaxPayload is raised to it, so that no request waits forever.
  static std::shared_ptr<BufferPool> create(Bytes budget);
  // As Budget(most, least).
  static std::shared_ptr<BufferPool> create(Bytes budget, Bytes least);
  ~BufferPool();

  // Returns an empty Buffer if the budget is used up. `size` is 1 to wire::kMaxPayload bytes.
  Buffer try_allocate(std::size_t size);
  // Fills `buffers` with one buffer per size, or with none and returns false if the budget does not allow all of them.
  bool try_allocate(std::span<const std::size_t> sizes, std::span<Buffer> buffers);
  // Whether a client that holds something already may have a buffer of this size: it must not hold more than is free
  // then. So clients that do not release their buffers leave memory for the others. If not, the next release notifies.
  bool within_share(const BufferAccount& account, std::size_t size);
  // Blocks until the budget allows it. Do not call it on a thread that must run for buffers to be released.
  Buffer allocate(std::size_t size);

  // `notify` is called without locks when a buffer is released after a try_allocate() failed.
  void when_released(std::function<void()> notify);

  Bytes budget() const;
  Bytes in_use() const;

 private:
  friend class Buffer;
  struct State;
  BufferPool(Bytes budget, Bytes least);
  void release(std::byte* data, std::size_t capacity);
  std::unique_ptr<State> state_;
};

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
// Memory for file data: aligned for O_DIRECT, reused, and never more of it than a budget.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace tutti::net {

inline constexpr std::size_t kBufferAlignment = 4096;

class BufferPool;

// A piece of a pool's memory, 4096-aligned. Returns to its pool when destroyed, from any thread; keeps the pool alive.
// Move-only. A default-constructed one is empty.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }  // a power of two, at least 4096
  bool empty() const { return size_ == 0; }
  std::span<std::byte> span() const { return {data_, size_}; }

  // A short read leaves less than was asked for. At most capacity().
  void resize(std::size_t size);

 private:
  friend class BufferPool;
  Buffer(std::shared_ptr<BufferPool> pool, std::byte* data, std::size_t size, std::size_t capacity)
      : pool_(std::move(pool)), data_(data), size_(size), capacity_(capacity) {}

  std::shared_ptr<BufferPool> pool_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Thread-safe. Buffers in use plus those kept for reuse never exceed the budget.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // The budget is raised to hold at least one payload of wire::kMaxPayload, so that no request waits forever.
  static std::shared_ptr<BufferPool> create(Bytes budget);
  ~BufferPool();

  // An empty Buffer if the budget does not allow it right now. `size` is at least 1, at most wire::kMaxPayload.
  Buffer try_allocate(std::size_t size);
  // Waits until the budget allows it: not for threads that others need in order to give buffers back.
  Buffer allocate(std::size_t size);

  // Called, without locks, whenever a buffer came back after a try_allocate() had failed.
  void when_released(std::function<void()> notify);

  Bytes budget() const;
  Bytes in_use() const;

 private:
  friend class Buffer;
  struct State;
  explicit BufferPool(Bytes budget);
  void release(std::byte* data, std::size_t capacity);
  std::unique_ptr<State> state_;
};

}  // namespace tutti::net

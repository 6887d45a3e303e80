// SPDX-License-Identifier: Apache-2.0
// One thread that waits for events of many file descriptors (epoll). Internal to the transports.
#pragma once

#include <tutti/base.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace tutti::net {

// A file descriptor with its event handlers. All of them are called on the loop's thread.
class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual void ready(std::uint32_t events) = 0;  // bits as of epoll_wait(2)
  // After wake_at(). Returns when it must be called again; TimePoint::max(): never.
  virtual TimePoint tick(TimePoint /*now*/) { return TimePoint::max(); }
  virtual void flush() {}    // after flush_later()
  virtual void retry() {}    // after retry_later(), which it calls again if there is still no memory
  virtual void stopped() {}  // the loop ends, or epoll refused the descriptor

 private:
  friend class EventLoop;
  bool added_ = false;  // used by the loop's thread only
};

// What a source waits for. Those that wait for the same get it in this order; they do not stop those that wait for
// something else.
struct MemoryWait {
  enum class Kind : std::uint8_t { kRequests, kPayloads, kPulledPayloads, kRequestsBeforeOwed, kPayloadsBeforeOwed };
  Kind kind = Kind::kRequests;
  std::optional<std::uint32_t> user{};  // it waits for the share of this user; nothing: for any memory

  auto operator<=>(const MemoryWait&) const = default;
};

// Methods are for the loop's thread only, unless they say otherwise.
class EventLoop {
 public:
  static Result<std::shared_ptr<EventLoop>> create();
  ~EventLoop();  // after stop()

  // Ends the thread and releases all sources. From any thread but the loop's own.
  void stop();

  bool on_loop() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Runs the task on the loop's thread. After stop() tasks are dropped. From any thread.
  void post(std::function<void()> task);

  // The loop keeps the source alive until remove(). modify() may be called from any thread.
  void add(int file, std::uint32_t events, const std::shared_ptr<EventSource>& source);
  void modify(int file, std::uint32_t events, EventSource* source);
  void remove(int file, EventSource* source);

  // Calls source->flush() after the present events have been handled, so that many small sends become one.
  void flush_later(std::shared_ptr<EventSource> source) { to_flush_.push_back(std::move(source)); }

  // Calls tick() of all sources at this time of steady_now(), or earlier. From any thread.
  void wake_at(TimePoint when);

  // retry_all() calls retry() of the sources that wait for the same in order, until one must wait for it again.
  void retry_later(const MemoryWait& wait, std::shared_ptr<EventSource> source) {
    to_retry_[wait].push_back(std::move(source));
  }
  void retry_all();

  // Memory to receive into, shared by all sources. Valid during one ready().
  static constexpr std::size_t kScratch = 16 << 10;
  std::byte* scratch() { return scratch_.get(); }

 private:
  EventLoop() = default;
  void run();
  void run_tasks();
  void drain_wakeup();
  int wait_milliseconds() const;
  void tick_all(TimePoint now);
  void flush_all();

  int epoll_ = -1;
  int wakeup_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<TimePoint> next_tick_{TimePoint::max()};
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ TUTTI_GUARDED_BY(mutex_);
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;  // tasks are dropped
  // The loop's thread only:
  std::unordered_map<EventSource*, std::shared_ptr<EventSource>> sources_;
  std::vector<std::shared_ptr<EventSource>> removed_;  // until the present events, which may refer to them, are handled
  std::vector<std::shared_ptr<EventSource>> to_flush_;
  std::map<MemoryWait, std::deque<std::shared_ptr<EventSource>>> to_retry_;
  std::unique_ptr<std::byte[]> scratch_ = std::make_unique<std::byte[]>(kScratch);
};

}  // namespace tutti::net

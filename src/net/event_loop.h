// SPDX-License-Identifier: Apache-2.0
// One thread that waits for many file descriptors. Internal to the transports.
#pragma once

#include <tutti/base.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tutti::net {

// Something with a file descriptor. All calls come from the loop's thread.
class Source {
 public:
  virtual ~Source() = default;
  virtual void ready(std::uint32_t events) = 0;  // EPOLLIN, ...
  virtual void tick(TimePoint) {}                // about every 100 ms
  virtual void flush() {}                        // asked for by flush_later()
  virtual bool retry() { return true; }          // asked for by retry_later(); false: still no room
  virtual void stopped() {}                      // the loop is about to end
};

class EventLoop {
 public:
  static Result<std::shared_ptr<EventLoop>> create();
  ~EventLoop();  // after stop()

  // Ends the thread; sources are forgotten. Not from the loop's own thread.
  void stop();

  bool on_loop() const { return std::this_thread::get_id() == thread_.get_id(); }

  // From any thread. Runs on the loop's thread; dropped after stop().
  void post(std::function<void()> task);

  // Keeps the source alive until remove(). The rest is for the loop's own thread, but modify() is for any.
  void add(int file, std::uint32_t events, std::shared_ptr<Source> source);
  void modify(int file, std::uint32_t events, Source* source);
  void remove(int file, Source* source);

  // source->flush() once the events at hand have been handled: many small sends become one. Loop's thread only.
  void flush_later(std::shared_ptr<Source> source) { to_flush_.push_back(std::move(source)); }

  // source->retry() when retry_all() is posted, or at the next tick; first come, first served. Loop's thread only.
  void retry_later(std::shared_ptr<Source> source) { to_retry_.push_back(std::move(source)); }
  void retry_all();

  // Memory to receive into, shared by all sources, for the duration of one ready().
  static constexpr std::size_t kScratch = 16 << 10;
  std::byte* scratch() { return scratch_.get(); }

 private:
  EventLoop() = default;
  void run();
  void run_tasks();
  void tick_all(TimePoint now);
  void flush_all();

  int epoll_ = -1;
  int wakeup_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  bool stopped_ = false;  // tasks are dropped
  // The loop's thread only:
  std::unordered_map<Source*, std::shared_ptr<Source>> sources_;
  std::vector<std::shared_ptr<Source>> removed_;  // kept until the events at hand are done: they may name them
  std::vector<std::shared_ptr<Source>> to_flush_;
  std::deque<std::shared_ptr<Source>> to_retry_;
  std::unique_ptr<std::byte[]> scratch_ = std::make_unique<std::byte[]>(kScratch);
};

}  // namespace tutti::net

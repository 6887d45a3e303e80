// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/mutex.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

constexpr auto kFlushInterval = std::chrono::microseconds(50);  // flush at least this often while handling events

}  // namespace

Result<std::shared_ptr<EventLoop>> EventLoop::create() {
  std::shared_ptr<EventLoop> loop(new EventLoop);
  loop->epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  loop->wakeup_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop->epoll_ < 0 || loop->wakeup_ < 0) {
    return fail(ErrorCode::kIo, std::string("cannot create an event loop: ") + std::strerror(errno), errno);
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(loop->epoll_, EPOLL_CTL_ADD, loop->wakeup_, &event);
  try {
    loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kIo, std::string("cannot start a thread: ") + error.what(), error.code().value());
  }
  return loop;
}

EventLoop::~EventLoop() {
  stop();
  if (epoll_ >= 0) ::close(epoll_);
  if (wakeup_ >= 0) ::close(wakeup_);
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  post([] {});
  thread_.join();
  std::vector<std::function<void()>> dropped;
  Lock lock(mutex_);
  stopped_ = true;
  dropped.swap(tasks_);
}

void EventLoop::post(std::function<void()> task) {
  bool first = false;
  {
    Lock lock(mutex_);
    if (stopped_) return;
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (!first) return;
  const std::uint64_t one = 1;
  (void)!::write(wakeup_, &one, sizeof one);
}

void EventLoop::add(int file, std::uint32_t events, const std::shared_ptr<EventSource>& source) {
  epoll_event event{.events = events, .data = {.ptr = source.get()}};
  source->added_ = true;
  sources_.emplace(source.get(), source);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, file, &event) != 0) source->stopped();  // out of kernel memory or watches
}

void EventLoop::modify(int file, std::uint32_t events, EventSource* source) {
  epoll_event event{.events = events, .data = {.ptr = source}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, file, &event);
}

void EventLoop::remove(int file, EventSource* source) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, file, nullptr);
  const auto found = sources_.find(source);
  if (found == sources_.end()) return;
  source->added_ = false;
  for (auto& [wait, sources] : to_retry_)
    std::erase_if(sources, [&](const auto& waiting) { return waiting.get() == source; });
  removed_.push_back(std::move(found->second));
  sources_.erase(found);
}

void EventLoop::run() {
  std::array<epoll_event, 128> events;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_milliseconds());
    const TimePoint begun = steady_now();
    for (int i = 0; i < count; ++i) {
      auto* source = static_cast<EventSource*>(events[i].data.ptr);
      if (source == nullptr)
        drain_wakeup();
      else if (source->added_)
        source->ready(events[i].events);  // removed ones are still alive in removed_
      if (i % 8 == 7 && !to_flush_.empty() && steady_now() - begun > kFlushInterval) flush_all();
    }
    run_tasks();
    flush_all();
    if (next_tick_.load() != TimePoint::max())
      if (const auto now = steady_now(); now >= next_tick_.load()) tick_all(now);
    removed_.clear();
  }
  run_tasks();
  const auto sources = std::exchange(sources_, {});
  for (const auto& [raw, source] : sources) source->stopped();
  run_tasks();
  to_flush_.clear();
  to_retry_.clear();
  removed_.clear();
}

void EventLoop::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    Lock lock(mutex_);
    if (tasks_.empty()) return;
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

// Not together with the tasks: they can be taken before post() has written, and the loop would then never sleep.
void EventLoop::drain_wakeup() {
  std::uint64_t count = 0;
  (void)!::read(wakeup_, &count, sizeof count);
}

void EventLoop::tick_all(TimePoint now) {
  std::vector<std::shared_ptr<EventSource>> all;
  all.reserve(sources_.size());
  for (const auto& [raw, source] : sources_) all.push_back(source);
  next_tick_ = TimePoint::max();
  for (const auto& source : all) wake_at(source->tick(now));
}

void EventLoop::wake_at(TimePoint when) {
  TimePoint before = next_tick_.load();
  while (when < before)
    if (next_tick_.compare_exchange_weak(before, when)) {
      if (!on_loop()) post([] {});  // it may be asleep until a later time
      return;
    }
}

int EventLoop::wait_milliseconds() const {
  const TimePoint next = next_tick_.load();
  if (next == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - steady_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

void EventLoop::retry_all() {
  for (auto& [wait, waiting] : std::exchange(to_retry_, {})) {
    // A source that waits for the same again stays first. One that waits for something else now does not stop these.
    while (!waiting.empty() && to_retry_[wait].empty()) {
      const auto source = std::move(waiting.front());
      waiting.pop_front();
      if (source->added_) source->retry();
    }
    auto& again = to_retry_[wait];
    again.insert(again.end(), waiting.begin(), waiting.end());
    if (again.empty()) to_retry_.erase(wait);
  }
}

void EventLoop::flush_all() {
  for (std::size_t i = 0; i < to_flush_.size(); ++i) {
    const auto source = std::move(to_flush_[i]);  // flush() may append further ones
    source->flush();
  }
  to_flush_.clear();
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/transport.h"

namespace tutti::net {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kSendWithin = std::chrono::microseconds(50);  // what is to be sent waits no longer for the events at hand

}  // namespace

Result<std::shared_ptr<EventLoop>> EventLoop::create() {
  std::shared_ptr<EventLoop> loop(new EventLoop);
  loop->epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  loop->wakeup_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop->epoll_ < 0 || loop->wakeup_ < 0) {
    return fail(ErrorCode::kIo, std::string("cannot make an event loop: ") + std::strerror(errno), errno);
  }
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(loop->epoll_, EPOLL_CTL_ADD, loop->wakeup_, &event);
  loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
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
  std::lock_guard lock(mutex_);
  stopped_ = true;
  dropped.swap(tasks_);
}

void EventLoop::post(std::function<void()> task) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (!first) return;
  const std::uint64_t one = 1;
  (void)!::write(wakeup_, &one, sizeof one);
}

void EventLoop::add(int file, std::uint32_t events, std::shared_ptr<Source> source) {
  epoll_event event{.events = events, .data = {.ptr = source.get()}};
  sources_.emplace(source.get(), std::move(source));
  const int added = ::epoll_ctl(epoll_, EPOLL_CTL_ADD, file, &event);
  assert(added == 0);
  (void)added;
}

void EventLoop::modify(int file, std::uint32_t events, Source* source) {
  epoll_event event{.events = events, .data = {.ptr = source}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, file, &event);
}

void EventLoop::remove(int file, Source* source) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, file, nullptr);
  const auto found = sources_.find(source);
  if (found == sources_.end()) return;
  removed_.push_back(std::move(found->second));
  sources_.erase(found);
}

void EventLoop::run() {
  std::array<epoll_event, 128> events;
  TimePoint next_tick = steady_now() + kTick;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
    const TimePoint begun = steady_now();
    for (int i = 0; i < count; ++i) {
      auto* source = static_cast<Source*>(events[i].data.ptr);
      if (source != nullptr && sources_.contains(source)) source->ready(events[i].events);
      if (!to_flush_.empty() && steady_now() - begun > kSendWithin) flush_all();
    }
    run_tasks();
    flush_all();
    if (const auto now = steady_now(); now >= next_tick) {
      tick_all(now);
      next_tick = now + kTick;
    }
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
    std::lock_guard lock(mutex_);
    if (tasks_.empty()) return;
    tasks.swap(tasks_);
    std::uint64_t count = 0;
    (void)!::read(wakeup_, &count, sizeof count);
  }
  for (auto& task : tasks) task();
}

void EventLoop::tick_all(TimePoint now) {
  std::vector<std::shared_ptr<Source>> all;
  all.reserve(sources_.size());
  for (const auto& [raw, source] : sources_) all.push_back(source);
  for (const auto& source : all) source->tick(now);
  retry_all();
}

void EventLoop::retry_all() {
  auto waiting = std::exchange(to_retry_, {});
  while (!waiting.empty()) {
    const auto source = std::move(waiting.front());
    waiting.pop_front();
    if (!source->retry()) break;  // it has asked again, and stays first
  }
  to_retry_.insert(to_retry_.end(), waiting.begin(), waiting.end());
}

void EventLoop::flush_all() {
  for (std::size_t i = 0; i < to_flush_.size(); ++i) {
    const auto source = to_flush_[i];  // flushing may ask for more
    source->flush();
  }
  to_flush_.clear();
}

}  // namespace tutti::net

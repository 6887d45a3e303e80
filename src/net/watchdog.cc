// SPDX-License-Identifier: Apache-2.0
#include "net/watchdog.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace tutti::net {
namespace {

// A timer of the kernel that sends SIGKILL, and a thread that keeps putting it off. The timer runs while the process is
// stopped, and SIGKILL ends a stopped process without waking it up first.
class TimerWatchdog final : public Watchdog {
 public:
  TimerWatchdog(timer_t timer, Duration lease) : timer_(timer), lease_(lease) {
    renew();
    thread_ = std::thread([this] { run(); });
  }
  ~TimerWatchdog() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wakeup_.notify_all();
    thread_.join();
    ::timer_delete(timer_);
  }

 private:
  void renew() {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(lease_);
    itimerspec when{};
    when.it_value = {.tv_sec = seconds.count(), .tv_nsec = (lease_ - seconds).count()};
    ::timer_settime(timer_, 0, &when, nullptr);
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (!wakeup_.wait_for(lock, lease_ / 8, [&] { return stopping_; })) renew();
  }

  const timer_t timer_;
  const Duration lease_;
  std::mutex mutex_;
  std::condition_variable wakeup_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Watchdog>> Watchdog::start(Duration lease) {
  if (lease <= Duration{0}) return fail(ErrorCode::kInvalid, "a watchdog needs a lease of more than 0");
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  if (::timer_create(CLOCK_BOOTTIME, &event, &timer) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot make the watchdog's timer: {}", std::strerror(errno)), errno);
  }
  return std::make_unique<TimerWatchdog>(timer, lease);
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "net/watchdog.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "base/mutex.h"

namespace tutti::net {
namespace {

// A kernel timer that sends SIGKILL, and a thread that restarts the timer regularly. The timer also runs while the
// process is stopped, and SIGKILL ends a stopped process without resuming it.
class TimerWatchdog final : public Watchdog {
 public:
  TimerWatchdog(timer_t timer, Duration fence_time) : timer_(timer), fence_time_(fence_time) {
    renew();
    thread_ = std::thread([this] { run(); });
  }
  ~TimerWatchdog() override {
    {
      Lock lock(mutex_);
      stopping_ = true;
    }
    wakeup_.notify_all();
    thread_.join();
    ::timer_delete(timer_);
  }

 private:
  void renew() {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(fence_time_);
    itimerspec when{};
    when.it_value = {.tv_sec = seconds.count(), .tv_nsec = (fence_time_ - seconds).count()};
    ::timer_settime(timer_, 0, &when, nullptr);
  }
  void run() {
    Lock lock(mutex_);
    while (!wakeup_.wait_for(lock, fence_time_ / 8, [&]() TUTTI_REQUIRES(mutex_) { return stopping_; })) renew();
  }

  const timer_t timer_;
  const Duration fence_time_;
  Mutex mutex_;
  std::condition_variable wakeup_;
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Watchdog>> Watchdog::start(Duration fence_time) {
  if (fence_time <= Duration{0}) return fail(ErrorCode::kInvalid, "the fence time of a watchdog must be more than 0");
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  if (::timer_create(CLOCK_BOOTTIME, &event, &timer) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot create the watchdog's timer: {}", std::strerror(errno)), errno);
  }
  return std::make_unique<TimerWatchdog>(timer, fence_time);
}

}  // namespace tutti::net

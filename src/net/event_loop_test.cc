// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "base/descriptor.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

// Keeps the loop awake until it is told to stop.
class BusySource final : public EventSource {
 public:
  void begin() {
    busy_ = true;
    eventfd_write(file_.get(), 1);
  }
  void end() { busy_ = false; }
  int file() const { return file_.get(); }

  void ready(std::uint32_t) override {
    eventfd_t count = 0;
    if (!busy_) eventfd_read(file_.get(), &count);
  }

 private:
  const Descriptor file_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> busy_ = false;
};

template <typename Condition>
void wait_for(const Condition& condition) {
  for (int i = 0; !condition() && i < 10'000; ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(condition());
}

// A loop that is awake can take a task before the thread that posts it has written to the descriptor that wakes the
// loop. It must sleep again nevertheless.
TEST(EventLoop, SleepsAfterTasksThatItTookEarly) {
  auto loop = EventLoop::create();
  ASSERT_TRUE(loop.has_value());
  const auto busy = std::make_shared<BusySource>();
  std::atomic<clockid_t> clock = 0;
  (*loop)->post([&] {
    clockid_t own = 0;
    pthread_getcpuclockid(pthread_self(), &own);
    (*loop)->add(busy->file(), EPOLLIN, busy);
    clock = own;
  });
  wait_for([&] { return clock != 0; });
  const auto processor_time = [&] {
    timespec time{};
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };

  constexpr int kRounds = 1000;
  int awake = 0;  // rounds in which the loop did not sleep
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<bool> done = false;
    busy->begin();
    std::this_thread::sleep_for(20us);
    (*loop)->post([&] { done = true; });
    busy->end();
    wait_for([&] { return done.load(); });
    const auto before = processor_time();
    std::this_thread::sleep_for(1ms);
    if (processor_time() - before > 500us) ++awake;
  }
  EXPECT_LE(awake, 1) << "of " << kRounds;
  (*loop)->stop();
}

}  // namespace
}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace tutti::cli {
namespace {

[[noreturn]] void die_of(int number) {
  sigset_t only{};
  sigemptyset(&only);
  sigaddset(&only, number);
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  _exit(128 + number);  // not reached: the default action of all three ends the process
}

void notify(int event) {
  const std::uint64_t one = 1;
  (void)!write(event, &one, sizeof one);  // fails only if it is already set
}

// Waits for either descriptor. True: `first` is ready.
bool wait_for_first(int first, int second) {
  pollfd ready[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  while (poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
  return ready[1].revents == 0;
}

}  // namespace

StopSignals::StopSignals() {
  sigemptyset(&watched_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&watched_, number);
  }
  pthread_sigmask(SIG_BLOCK, &watched_, &mask_before_);
  signals_ = signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK);
  stopped_ = eventfd(0, EFD_CLOEXEC);
  destroyed_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ >= 0 && stopped_ >= 0 && destroyed_ >= 0) {
    receiver_ = std::thread([this] { receive(); });
  } else {  // out of descriptors: signals keep their default action
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (receiver_.joinable()) {
    notify(destroyed_);
    receiver_.join();
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  for (const int descriptor : {signals_, stopped_, destroyed_})
    if (descriptor >= 0) close(descriptor);
}

void StopSignals::receive() {
  while (wait_for_first(signals_, destroyed_)) {
    signalfd_siginfo received{};
    if (read(signals_, &received, sizeof received) != sizeof received) continue;
    const auto number = static_cast<int>(received.ssi_signo);
    if (!protected_ || number_ != 0) die_of(number);
    number_ = number;
    notify(stopped_);
    if (!wait_for_repeats()) return;
    std::fputs(
        "tutti: waiting for the current request to end, then cleaning up. Another signal ends the command at once "
        "and leaves the temporary file.\n",
        stderr);
  }
}

// Some programs send one signal twice, timeout(1) for example, so repeats within a second do not count. False: the
// object is being destroyed.
bool StopSignals::wait_for_repeats() const {
  pollfd ready{destroyed_, POLLIN, 0};
  if (poll(&ready, 1, 1000) > 0) return false;
  signalfd_siginfo repeat{};
  while (read(signals_, &repeat, sizeof repeat) == sizeof repeat) {
  }
  return true;
}

bool StopSignals::wait_until_readable(int descriptor) const {
  if (stopped_ < 0) return true;
  return wait_for_first(descriptor, stopped_) && number_ == 0;
}

void StopSignals::end_process() const {
  if (number_ != 0) die_of(number_);
}

}  // namespace tutti::cli

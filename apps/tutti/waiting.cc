// SPDX-License-Identifier: Apache-2.0
#include "waiting.h"

#include <fmt/format.h>

#include <cstdio>

namespace tutti::cli {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void Activity::set(std::string doing) {
  Lock lock(mutex_);
  doing_ = std::move(doing);
  since_ = SteadyClock::now();
}

std::string Activity::stuck() const {
  Lock lock(mutex_);
  const auto waited = SteadyClock::now() - since_;
  if (doing_.empty() || waited < kSilence) return {};
  return fmt::format("{} for {} s", doing_, waited / 1s);
}

WaitingMessages::WaitingMessages(std::function<std::string()> query)
    : query_(std::move(query)), thread_([this] { work(); }) {}

WaitingMessages::~WaitingMessages() {
  {
    Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void WaitingMessages::work() {
  constexpr Duration kRepeat = 10s;
  auto next = SteadyClock::time_point::min();
  for (;;) {
    {
      Lock lock(mutex_);
      if (changed_.wait_for(lock, 1s, [&]() TUTTI_REQUIRES(mutex_) { return ending_; })) return;
    }
    const std::string text = query_();
    if (text.empty()) next = SteadyClock::time_point::min();
    if (text.empty() || SteadyClock::now() < next) continue;
    const std::string line = fmt::format("tutti: waiting: {}\n", text);
    std::fputs(line.c_str(), stderr);  // not fmt::print, which throws if standard error is closed
    next = SteadyClock::now() + kRepeat;
  }
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "net/transport.h"

namespace tutti::net {

TimePoint steady_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace tutti::net

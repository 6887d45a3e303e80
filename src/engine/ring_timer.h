// SPDX-License-Identifier: Apache-2.0
// Which timeout entries engine `posix` puts into its ring, so that it looks at its writes when the first of them is
// late. Internal to it.
#pragma once

#include <tutti/base.h>

#include <algorithm>
#include <optional>

namespace tutti {

// Times are on Clock::steady(). Not thread-safe.
class RingTimer {
 public:
  // An entry stays in the ring until its time is over, also if it is no longer needed. A client that chooses earlier
  // and earlier deadlines must not fill the ring: no entry stays for longer than kLongest (ended() is then true early),
  // and each new one ends at least kSlack before the others. So there are at most kLongest / kSlack + 1.
  static constexpr Duration kLongest = std::chrono::seconds(1);
  // Operations at their deadline are still in time. They are looked at within twice this time.
  static constexpr Duration kSlack = std::chrono::milliseconds(1);

  // A write must be looked at after its deadline. Returns the time after which a new entry must end; nothing: no entry
  // is needed.
  std::optional<Duration> watch(TimePoint deadline, TimePoint now) {
    if (deadline == TimePoint::max()) return std::nullopt;
    const TimePoint end = std::min(deadline, now + kLongest);
    if (end > earliest_ - kSlack) return std::nullopt;
    earliest_ = end;
    return std::max<Duration>(end - now, Duration::zero()) + kSlack;
  }

  // An entry has ended. True: look at the writes now, and call watch() for the earliest deadline that is left. False:
  // an entry that was set earlier, with a later time.
  bool ended(TimePoint now) {
    if (now < earliest_) return false;
    earliest_ = TimePoint::max();
    return true;
  }

 private:
  TimePoint earliest_ = TimePoint::max();  // of the entries in the ring
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// How accurate announced sizes are.
#pragma once

#include <tutti/sched.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/prefetch.h"
#include "sched/probing_table.h"

namespace tutti {

// Whether two sizes of a phase are too far apart for one to be a forecast of the other: by more than a half of the
// smaller one. Phases that repeat differ by less.
bool sizes_differ(Bytes a, Bytes b);

// Whether expectations of one kind have recently been right. One that was wrong weighs as much as two that were right.
// Plain data.
class AccuracyBalance {
 public:
  void count(bool right) { balance_ = right ? std::min(balance_ + 1, kMost) : std::max(balance_ - 2, -kMost); }
  bool trusted() const { return balance_ >= 0; }

 private:
  static constexpr int kMost = 8;
  int balance_ = 0;  // from -kMost to kMost, so that old expectations lose their influence
};

// Tracks how accurate the announced sizes of first phases have been on this server.
//
// An application's later phases carry a size only if its earlier announcement was right (src/job/stamper.h). A first
// phase has no history, so this class decides for all applications together: it compares recent announcements with what
// was then requested (AccuracyBalance).
//
// Fixed memory: the last 64 applications. Not thread-safe.
class AnnouncementAccuracy {
 public:
  // Call for every stamp, in any order.
  void observe(const Stamp& stamp);

  // Prefetches what observe() will need.
  void expect(const Stamp& stamp) const { prefetch_line(&announcements_[place_of(stamp)]); }

  // True if recent first-phase announcements were accurate, or if there were none yet.
  bool trusted() const { return balance_.trusted(); }

 private:
  struct Announcement {
    ApplicationId application = 0;
    UserId user = 0;
    PhaseNumber phase = 0;
    Bytes announced{};  // 0: none, or counted already
    Bytes requested{};  // so far
  };

  static std::size_t place_of(const Stamp& stamp) {
    return mix(std::uint64_t{stamp.user} << 32 | stamp.application) % kAnnouncements;
  }
  void count(Announcement& announcement);

  AccuracyBalance balance_;
  static constexpr std::size_t kAnnouncements = 64;
  std::array<Announcement, kAnnouncements>
      announcements_{};  // by application; a later one replaces one with the same index
};

}  // namespace tutti

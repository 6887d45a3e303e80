// SPDX-License-Identifier: Apache-2.0
#include "sched/announcements.h"

#include <algorithm>

namespace tutti {

bool sizes_differ(Bytes a, Bytes b) {
  return std::max(a, b) - std::min(a, b) > std::min(a, b) / 2;
}

void AnnouncementAccuracy::observe(const Stamp& stamp) {
  Announcement& last = announcements_[place_of(stamp)];
  const Bytes requested = stamp.attained + stamp.bottleneck;
  const bool same = last.application == stamp.application && last.user == stamp.user;
  if (same && stamp.phase < last.phase) return;  // a rank that is late
  if (same && stamp.phase == last.phase) {
    last.requested = std::max(last.requested, requested);
    if (last.announced == Bytes{}) return;
    last.announced = std::max(last.announced, stamp.phase_total);  // ranks may differ
    if (last.requested > last.announced && sizes_differ(last.announced, last.requested)) count(last);
    return;
  }
  if (same) count(last);
  last = {stamp.application, stamp.user, stamp.phase, stamp.phase <= 1 ? stamp.phase_total : Bytes{}, requested};
}

void AnnouncementAccuracy::count(Announcement& announcement) {
  if (announcement.announced == Bytes{}) return;
  balance_.count(!sizes_differ(announcement.announced, announcement.requested));
  announcement.announced = Bytes{};
}

}  // namespace tutti

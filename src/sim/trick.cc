// SPDX-License-Identifier: Apache-2.0
#include "sim/trick.h"

#include <algorithm>

namespace tutti::sim {
namespace {

void shift(Stamp& stamp, Duration by) {
  stamp.issued += by;
  stamp.phase_start += by;
}

void cut(Stamp& stamp) {
  stamp.phase = static_cast<PhaseNumber>(stamp.operation) + 2;
  stamp.phase_start = stamp.issued;
  stamp.attained = Bytes{};
  stamp.phase_total = stamp.bottleneck;
}

}  // namespace

void apply(Trick trick, Stamp& stamp) {
  constexpr std::uint64_t kFactor = 10;
  switch (trick) {
    case Trick::kNone:
      return;
    case Trick::kUnderstate:
      stamp.phase_total = std::max(stamp.phase_total / kFactor, stamp.attained + stamp.bottleneck);
      return;
    case Trick::kOverstate:
      stamp.phase_total = stamp.phase_total * kFactor;
      return;
    case Trick::kCut:
      return cut(stamp);
    case Trick::kIds:
      cut(stamp);
      stamp.application = (1u << 20) + static_cast<ApplicationId>(stamp.operation);
      return;
    case Trick::kBehind:
      return shift(stamp, std::chrono::milliseconds(-10));
    case Trick::kHourBehind:
      return shift(stamp, std::chrono::hours(-1));
    case Trick::kAhead:
      return shift(stamp, std::chrono::milliseconds(10));
    case Trick::kHourAhead:
      return shift(stamp, std::chrono::hours(1));
  }
}

}  // namespace tutti::sim

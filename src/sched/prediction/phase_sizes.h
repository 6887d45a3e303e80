// SPDX-License-Identifier: Apache-2.0
// Expected sizes of phases, for applications that neither announce nor know them (docs/prediction.md).
#pragma once

#include <tutti/sched.h>

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "sched/announcements.h"
#include "sched/phase_queue.h"
#include "sched/prediction/trace.h"

namespace tutti {

// Without unfinished requests for this long, an application has ended its phase: for traces, which have no phase
// numbers.
inline constexpr Duration kPhaseGap = std::chrono::milliseconds(100);

// How phases are recognised: by the name pattern (trace.h) of the file of their first request, and its direction.
struct PhasePattern {
  std::uint64_t file = 0;  // hash of the pattern
  Direction direction = Direction::kRead;
  UserId user = 0;  // 0 in traces, which do not have it
  bool operator==(const PhasePattern&) const = default;
  friend std::size_t hash_value(const PhasePattern& pattern) {
    return mix(pattern.file + (std::uint64_t{pattern.user} << 1 | static_cast<std::uint64_t>(pattern.direction)));
  }
};

// The sizes of the phases in traces, in bytes on the phase's busiest target of the trace. The size of a pattern is the
// median; a pattern has none if more than a quarter of its phases differ from that (sizes_differ()). Not thread-safe.
class TracedPhaseSizes {
 public:
  void read(const Trace& trace);
  // After the last read().
  void finish();
  // 0: not known.
  Bytes find(const PhasePattern& pattern) const;

 private:
  template <typename Value>
  using ByPattern = boost::unordered_flat_map<PhasePattern, Value>;
  ByPattern<std::vector<Bytes>> seen_;
  ByPattern<Bytes> sizes_;
};

// Expects a phase to be as large as the last phase with its pattern, or as in traces. An expected size is used only if
// the last phase with the pattern had the size that was expected of it, and if expected sizes have recently been right
// on this server: one that was wrong weighs as much as two that were right. Both are also counted for phases whose
// client states the size, and while expectations are not used.
//
// Bounded memory: the phases of 1024 applications, 65,536 files and patterns. Not thread-safe.
class ExpectedPhaseSizes {
 public:
  struct Options {
    std::shared_ptr<const PredictedQueues> traces{};  // may be empty
    bool learn = false;                               // from the phases that arrive; else from traces only
  };
  explicit ExpectedPhaseSizes(Options options) : options_(std::move(options)) {}

  // The pattern of the file's name. Files without one are recognised by their number.
  void name_file(FileId file, std::string_view pattern);

  // A request arrives. The expected size of its phase, in bytes on the busiest target; the same for all requests of the
  // phase. 0: not known.
  Bytes arrived(const Request& request, TimePoint now);
  // A request that was passed to arrived() does not wait any more.
  void left(const Stamp& stamp);

  static constexpr std::size_t kMostPatterns = 1 << 16;
  std::size_t patterns() const { return patterns_.size(); }

 private:
  // The last phase of an application.
  struct LastPhase {
    ApplicationId application = 0;
    UserId user = 0;
    PhaseNumber number = 0;
    bool open = false;     // its size is not learned yet
    bool counted = false;  // whether the expected size was right
    std::uint32_t waiting = 0;
    PhasePattern pattern{};
    Bytes expected{};  // 0: nothing was expected
    Bytes used{};      // what arrived() returns
    Bytes shown{};     // issued so far
    TimePoint last{};  // arrival
  };
  struct Size {
    Bytes expected{};          // of the next phase; 0: not known yet
    bool was_wrong = false;    // of the last phase
    std::uint32_t latest = 0;  // the index of the phase with the pattern that began last
  };

  std::size_t index_of(const Stamp& stamp) const {
    return mix(std::uint64_t{stamp.user} << 32 | stamp.application) % phases_.size();
  }
  static bool same_application(const LastPhase& phase, const Stamp& stamp) {
    return phase.application == stamp.application && phase.user == stamp.user;
  }
  void begin(LastPhase& phase, const Request& request, TimePoint now);
  void end(LastPhase& phase);
  void end_if_quiet(LastPhase& phase, TimePoint now);
  void count(LastPhase& phase);
  PhasePattern pattern_of(const Request& request) const;
  Size& size_of(const PhasePattern& pattern);

  Options options_;
  AccuracyBalance accuracy_;
  boost::unordered_flat_map<FileId, std::uint64_t> files_;  // hashes of patterns
  boost::unordered_flat_map<PhasePattern, Size> patterns_;
  std::array<LastPhase, 1024> phases_{};  // by application; a later one replaces one with the same index
};

}  // namespace tutti

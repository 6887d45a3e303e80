// SPDX-License-Identifier: Apache-2.0
// Makes the stamps of one application's operations and learns the sizes of its phases.
#pragma once

#include <tutti/job.h>

#include <map>

#include "job/spread.h"

namespace tutti::job {

// Separates phases that repeat with different sizes; 0 if there is only one kind.
using PhaseKind = std::uint64_t;

// Announced, learned and issued sizes are counted and compared in bytes of the whole application. Stamps have bytes on
// the busiest target: a Spread converts the size of the phase, and if x% of the phase was issued, the stamp has x% of
// the converted size. So processes that have issued the same part of the phase make equal stamps, even if
// their own operations use different targets.
//
//   stamper.begin_phase({.announced = total});
//   Stamp stamp = stamper.stamp({operation, bytes}, spread, now);
//   ...
//   stamper.end_phase();                          // checks the announcement and learns the size
//
// Time is an argument; no clock, no I/O. Not thread-safe.
class Stamper {
 public:
  struct PhaseStart {
    Bytes announced{};  // 0: not announced
    PhaseKind kind = 0;
  };
  struct StampedOperation {
    OperationId id = 0;
    Bytes bytes{};  // of all processes
  };

  Stamper(ApplicationId application, OrderId order) : application_(application), order_(order) {}

  // Begins a phase; ends one that is still open. The expected size is the announced one, else the learned one. A source
  // that was wrong for the last phase of this kind (sizes_differ()) is not used until it is right again; the size is
  // then unknown.
  void begin_phase(const PhaseStart& phase);
  // Learns the size of the phase, if an operation was issued in it.
  void end_phase();
  // Whether the next operation is the first of its phase.
  bool at_start() const { return !open_ || !started_; }

  // The stamp of the next operation. Begins a phase of kind 0 if none is open. The size on the busiest target is
  // computed with the first `spread` of the phase that is known; before that, the size is unknown.
  Stamp stamp(const StampedOperation& operation, const Spread& spread, TimePoint now);

  // Sizes learned from earlier phases, by kind.
  std::map<PhaseKind, Bytes> learned() const;
  Bytes learned(PhaseKind kind) const;  // 0: unknown
  // Sets a size that an earlier run of the same job learned; 0 forgets it.
  void remember(PhaseKind kind, Bytes size);

 private:
  struct KindHistory {
    Bytes size{};                    // of the last phase of a kind
    bool announced_wrongly = false;  // its announcement was wrong
    bool varies = false;             // the phase before it had a different size
  };
  static constexpr std::size_t kMostKinds = 4096;  // further kinds are not learned

  Bytes expected() const;                        // of the phase that begins
  void judge();                                  // compares the expected size with the issued bytes
  Bytes on_busiest(const Spread& spread) const;  // the issued bytes

  ApplicationId application_;
  OrderId order_;
  PhaseNumber phase_ = 0;
  bool open_ = false;
  bool started_ = false;  // an operation of this phase has been stamped
  PhaseKind kind_ = 0;
  TimePoint phase_start_{};
  Bytes announced_{};  // 0: not announced
  Bytes expected_{};   // announced or learned; 0: unknown
  Bytes total_{};      // expected bytes on the busiest target; 0: unknown, or no layout yet
  Bytes issued_{};
  std::map<PhaseKind, KindHistory> history_;
};

}  // namespace tutti::job

// SPDX-License-Identifier: Apache-2.0
// Makes the stamps of one application's operations: what the client sends and the simulator simulates.
#pragma once

#include <tutti/sched.h>

#include <map>
#include <span>
#include <vector>

namespace tutti {

// Part of an operation that lands on one target.
struct TargetShare {
  TargetId target = 0;
  Bytes bytes{};
};

// Whether two sizes of a phase are too far apart for one to be a forecast of the other: by more than a half of the
// smaller one. Phases that repeat differ by less.
bool sizes_differ(Bytes a, Bytes b);

// All sizes it stamps are bytes on the busiest target, as include/tutti/sched.h says.
//
//   stamper.begin_phase({.now = now});            // size unknown: learned from the last phase of the same kind
//   Stamp stamp = stamper.stamp(operation, shares, now);
//   ...
//   stamper.end_phase();                          // remembers the size for the next one
//
// Pure: time comes in as an argument. Not thread-safe.
class Stamper {
 public:
  // Tells phases apart that repeat with sizes of their own, e.g. checkpoints from input; 0 where there is one kind.
  using PhaseKind = std::uint64_t;

  struct Phase {
    TimePoint now{};
    Bytes announced{};  // what the busiest target will get; 0: not announced
    PhaseKind kind = 0;
  };

  explicit Stamper(ApplicationId application) : application_(application) {}

  // Ends a phase that is still open. The size is what was announced, else what was learned. Whichever was wrong by more
  // than a half for the last phase of this kind is not believed, and the size counts as unknown, until it is right
  // again.
  void begin_phase(const Phase& phase);
  // Remembers the phase's size, if anything was issued in it.
  void end_phase();
  bool in_phase() const { return open_; }
  ApplicationId application() const { return application_; }

  // The stamp of the next operation, whose pieces lie on `shares` (a target may appear more than once).
  // Outside of a phase it begins one of kind 0.
  Stamp stamp(OperationId operation, std::span<const TargetShare> shares, TimePoint now);

  // What a phase of this kind is expected to be from earlier ones; 0: nothing known.
  Bytes learned(PhaseKind kind = 0) const;
  // Brings back what an earlier run of the same job learned.
  void remember(PhaseKind kind, Bytes size) { past_[kind].size = size; }

 private:
  struct Past {
    Bytes size{};                    // of the last phase of a kind
    bool announced_wrongly = false;  // that is not what was said
    bool varies = false;             // nor what the phase before was
  };

  Bytes expected() const;  // of the phase that begins
  void judge();            // what was expected of the phase that ends

  ApplicationId application_;
  PhaseNumber phase_ = 0;
  bool open_ = false;
  PhaseKind kind_ = 0;
  TimePoint phase_start_{};
  bool started_ = false;           // an operation of this phase has been stamped
  Bytes announced_{};              // 0: not announced
  Bytes total_{};                  // as the stamps say it: announced or learned; 0: unknown
  Bytes attained_{};               // on the busiest target so far
  std::vector<Bytes> issued_;      // in this phase, by target
  std::vector<TargetId> touched_;  // targets with something in issued_
  std::vector<Bytes> operation_;   // scratch: this operation's shares, by target; all zero between calls
  std::map<PhaseKind, Past> past_;
};

}  // namespace tutti

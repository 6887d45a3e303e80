// SPDX-License-Identifier: Apache-2.0
// Plans a collective read or write: which rank asks which target for what, in which order, and what ranks exchange.
//
// Pure functions: no MPI, no clock, no threads. Every rank computes its own part from the same input, so ranks need no
// messages to agree on a plan.
//
//   Collective collective{.direction = Direction::kRead, .lists = gathered};  // by rank
//   auto mine = plan_rank(collective, layout, {.kind = PlanKind::kResonant}, my_rank);
//
// How a rank executes its part. For each round r = 0, 1, .. mine->rounds - 1:
//
//   write: 1. for every entry of `sends` of round r: send these bytes from the rank's memory to `peer`;
//             for every entry of `receives` of round r, in list order: put the bytes of `peer` into the round's buffer.
//          2. wait for the message of start_rule.after; issue the requests of round r in list order, from the buffer;
//             then send a message to start_rule.next (see StartRule).
//   read:  1. wait for the message of start_rule.after; issue the requests of round r in list order, into the buffer;
//             then send a message to start_rule.next.
//          2. ReadForm::kExchange: for every entry of `sends` of round r: send these bytes from the buffer to `peer`;
//             for every entry of `receives`: put the bytes of `peer` into the rank's memory.
//             ReadForm::kDirect: barrier over all ranks (with nonblocking I/O: after the first requests are issued;
//             else: after all have completed); then the requests of `direct` of round r, into the rank's memory. The
//             data of `requests` that the rank needs itself are listed in `receives` with peer = itself.
//
// An exchange of a rank with itself is listed like any other, in `sends` and in `receives`; it is a copy in memory. The
// buffer of a round holds the extents of the round's requests. Plans of kind kIndependent and kTimed have one round and
// no exchanges: requests hold the rank's own bytes and need no buffer.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collective/access.h"
#include "layout/layout.h"

namespace tutti::collective {

using Rank = std::uint32_t;

enum class PlanKind : std::uint8_t {
  kIndependent,  // every rank requests its own bytes at once
  kTwoPhase,     // ROMIO's algorithm: even contiguous file domains, one per aggregator; independent if not interleaved
  kResonant,     // one agent per target (or several in timed order) requests all data of that target (section 3.3)
  kTimed,        // every rank requests its own bytes; starts are staggered by rank (section 3.4)
  kPaper,        // kTimed if the non-overlap condition holds, else kResonant (section 3.5)
  kAuto,         // the cheapest by estimated cost (estimate.h)
};

// "independent", "two-phase", "resonant", "timed", "paper", "auto"
const char* name_of(PlanKind kind);
// kInvalid lists the names.
Result<PlanKind> parse_plan_kind(std::string_view name);

// How ranks get their data in a read with agents. Writes are always exchanged.
enum class ReadForm : std::uint8_t {
  kExchange,  // agents send it
  kDirect,    // agents' requests bring it into the servers' caches; ranks read it from there (section 3.3)
};

// Figures of the devices and the network, for kAuto. They need not be exact: plans differ by factors.
struct DeviceProfile {
  double bandwidth = 75e6;  // of a target's device, bytes per second
  // Lost by a target that serves a request that does not follow the one before it, on average. A disk loses up to one
  // rotation, but its queue and read-ahead save a part.
  Duration read_positioning = std::chrono::milliseconds(4);
  Duration write_positioning = std::chrono::milliseconds(2);
  double network_bandwidth = 117e6;                   // of a rank or a target, bytes per second
  Duration message = std::chrono::microseconds(200);  // time of a short message between ranks
  Bytes read_ahead{128 << 10};                        // of a target; smaller gaps cost no positioning
  Bytes interleave{256 << 10};  // a target that serves several large requests changes to the next after this size

  static DeviceProfile disk() { return {}; }
  static DeviceProfile flash();
};

struct Options {
  PlanKind kind = PlanKind::kAuto;
  ReadForm read_form = ReadForm::kExchange;  // of reads with agents: kResonant, also if kPaper or kAuto chose it
  // True: a rank lets the next one start (StartRule), or enters the barrier of direct reads, when it has issued its
  // first `in_flight` requests. False: when all its requests have completed, as in the paper's implementation
  // (section 4).
  bool nonblocking = true;
  // For kAuto. True: with kIndependent the caller lets ranks go on to the next call without waiting for each other, and
  // heeds RankPlan::start in the first call. False: ranks begin every call together.
  bool free_running = false;
  // Most requests that a rank has under way. With more than one, a target may get requests in another order.
  std::uint32_t in_flight = 1;
  std::uint32_t list_io = 64;           // most extents in one request
  std::uint32_t agents_per_target = 0;  // 0: one, and more if there are at least 8 ranks per target
  std::uint32_t aggregators = 0;        // kTwoPhase: the first ranks; 0: every rank, as with one rank per machine
  Duration delay = std::chrono::microseconds(500);  // between starts of groups (StartRule)
  Bytes buffer{16 << 20};                           // of an aggregator or agent, per round
  // Reads with kTwoPhase: a gap of at most this size between two extents is read, too, and discarded.
  Bytes sieve_gap{std::numeric_limits<std::uint64_t>::max()};
  DeviceProfile device{};
};

// One collective operation. Overlapping reads are allowed, within a rank and between ranks. Writes may overlap between
// ranks: with kTwoPhase and kResonant the bytes of the highest rank are written; with kIndependent and kTimed the file
// gets the bytes of any of these ranks, as MPI allows in nonatomic mode. A write list that overlaps itself is refused.
struct Collective {
  Direction direction = Direction::kRead;
  std::vector<AccessList> lists;  // by rank; empty: the rank takes part without data
};

// Part of RankPlan::extents.
struct Slice {
  std::size_t first = 0;
  std::size_t count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// One I/O call. Its extents ascend and do not overlap; there are at most Options::list_io of them.
struct IoRequest {
  std::uint32_t round = 0;
  std::optional<TargetId> target{};  // set if all extents are on this target
  Slice extents{};
  friend bool operator==(const IoRequest&, const IoRequest&) = default;
};

// Bytes of the file that go from one rank to another. Extents ascend. Both ranks list the same extents.
struct Exchange {
  std::uint32_t round = 0;
  Rank peer = 0;
  Slice extents{};
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

// When a rank may issue its requests of a round. Ranks that share targets form chains; in every round
//   - a rank with `after` waits for one message of that rank,
//   - a rank with `next` sends one message to that rank: with nonblocking I/O `delay` after it issued its first
//     requests of the round, else when all have completed. It also does so in rounds in which it has no request.
struct StartRule {
  std::optional<Rank> after{};
  std::optional<Rank> next{};
  Duration delay{};
  friend bool operator==(const StartRule&, const StartRule&) = default;
};

// The part of one rank. `requests`, `direct`, `sends` and `receives` are ordered by round.
struct RankPlan {
  PlanKind kind = PlanKind::kIndependent;  // what was chosen: never kPaper, kAuto
  ReadForm read_form = ReadForm::kExchange;
  bool nonblocking = true;
  std::uint32_t in_flight = 1;  // most requests of this rank under way
  std::uint32_t rounds = 0;     // the same on all ranks; 0: no rank has data
  StartRule start_rule{};       // in each round
  // In the first call, with Options::free_running: the rank waits this long after the lists were gathered, before its
  // first request, so that every target gets the first requests of all ranks in the order of the file.
  Duration start{};
  std::vector<IoRequest> requests;  // within a round by ascending offset
  std::vector<IoRequest> direct;    // ReadForm::kDirect only
  std::vector<Exchange> sends;      // within a round by ascending peer
  std::vector<Exchange> receives;   // the same. Writes: applied in this order, the highest rank wins
  std::vector<Extent> extents;      // of all of these

  std::span<const Extent> of(const Slice& slice) const { return {extents.data() + slice.first, slice.count}; }
  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

// The part of one rank. The result equals plan_all()[rank].
//
// kInvalid: a list, the layout or an option is wrong, or `rank` is not below collective.lists.size(). All ranks get the
// same error, except for a wrong `rank`.
Result<RankPlan> plan_rank(const Collective& collective, const Layout& layout, const Options& options, Rank rank);

// The parts of all ranks.
Result<std::vector<RankPlan>> plan_all(const Collective& collective, const Layout& layout, const Options& options);

struct Estimate {
  PlanKind kind = PlanKind::kIndependent;
  double seconds = 0;
};
// The plans that kAuto chooses from, the fastest first; with Options::free_running, kTwoPhase of ranks that are not
// interleaved means kIndependent with ranks that begin together. Empty: no rank has data. Errors as plan_rank().
Result<std::vector<Estimate>> estimate(const Collective& collective, const Layout& layout, const Options& options);

// True if the bytes of rank i are all before those of rank i + 1, ranks without data left out (section 3.4).
bool non_overlap_condition(const Collective& collective);

}  // namespace tutti::collective

// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/fault_plan.h"

#include <algorithm>
#include <set>

#include "base/prng.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::array<const char*, kFaultKinds> kFaultNames = {
    "kill-client",  "kill-node",       "kill-gate",        "pause-client",
    "pause-node",   "pause-gate",      "partition",        "loss",
    "one-way-loss", "half-open",       "lost-connections", "slow-peer",
    "stalled-disk", "stalled-workers", "delayed-workers",  "io-errors",
    "no-space",     "failed-sync",     "slow-sync",        "power-cut",
    "clock-drift",  "clock-jump",      "memory-shortage",  "restart-all"};
constexpr std::array<const char*, kLoadKinds> kLoadNames = {
    "write",    "read",   "list-write", "list-read", "sync", "truncate",      "create",
    "recreate", "rename", "unlink",     "look-up",   "open", "switch-policy", "turn"};
constexpr std::array<double, kLoadKinds> kUsualWeights = {30, 30, 12, 12, 10, 2, 3, 1, 2, 2, 5, 2, 0.3, 0};

class Planner {
 public:
  explicit Planner(FaultPlan& plan) : plan_(plan), chance_(plan.seed) {}

  void run() {
    plan_.nodes = 3 + chance_.below(3);
    plan_.clients = 3 + chance_.below(2);
    plan_.threads = chance_.chance(0.3) ? 12 : 2 + chance_.below(3);  // many wait while a disk is stalled
    plan_.depth = std::size_t{1} << chance_.below(4);
    if (chance_.chance(0.5)) plan_.policy = kFaultPolicies[chance_.below(kFaultPolicies.size())];
    plan_.sequential = chance_.chance(0.5) ? 0.9 : 0.2;
    usual_node_ = chance_.below(plan_.nodes);
    usual_client_ = plan_.nodes + chance_.below(plan_.clients);
    plan_.files = 2 + chance_.below(3);
    plan_.blocks = std::uint64_t{8} << chance_.below(4);
    plan_.stripe = std::uint64_t{1} << chance_.below(4);
    plan_.length = 300s;
    plan_.operations = 2000 + chance_.below(2000);
    // Twice the operations that are needed, because threads wait during faults.
    const auto threads = static_cast<double>(plan_.clients * plan_.threads);
    plan_.think = Duration(static_cast<std::int64_t>(300e9 * threads / static_cast<double>(plan_.operations) / 2));
    for (std::size_t i = 0; i < kLoadKinds; ++i) plan_.weights[i] = kUsualWeights[i] * chance_.uniform(0.2, 2);
    // A run has few kinds of faults but many of each, so that unusual combinations occur.
    std::vector<FaultKind> kinds;
    for (std::size_t i = 0; i < kFaultKinds; ++i) kinds.push_back(static_cast<FaultKind>(i));
    for (std::size_t i = 0; i + 1 < kinds.size(); ++i) std::swap(kinds[i], kinds[i + chance_.below(kinds.size() - i)]);
    kinds.resize(5 + chance_.below(8));
    const std::size_t count = 10 + chance_.below(15);
    for (std::size_t i = 0; i < 2 + chance_.below(6); ++i) bursts_.push_back(chance_.uniform());
    for (std::size_t i = 0; i < count; ++i) add(kinds[i < kinds.size() ? i : chance_.below(kinds.size())]);
    std::ranges::stable_sort(plan_.faults, {}, &PlannedFault::at);
  }

 private:
  // Shorter or longer than one of the timeouts.
  Duration duration() {
    const FaultTimeouts& t = plan_.timeouts;
    const Duration limits[] = {100ms,     t.fence,       t.connect,    t.request,        t.request + t.fence,
                               t.give_up, t.gate_answer, t.gate_lease, t.memory_patience};
    const double factor = chance_.chance(0.5) ? chance_.uniform(0.3, 0.99) : chance_.uniform(1.01, 1.6);
    return Duration(
        static_cast<std::int64_t>(static_cast<double>(limits[chance_.below(std::size(limits))].count()) * factor));
  }

  std::size_t machine_for(FaultKind kind) {
    // One node and one client have half of the faults, so that several are in effect on one machine.
    const bool usual = chance_.chance(0.5);
    const std::size_t node = usual ? usual_node_ : chance_.below(plan_.nodes);
    const std::size_t client = usual ? usual_client_ : plan_.nodes + chance_.below(plan_.clients);
    switch (kind) {
      case FaultKind::kKillClient:
      case FaultKind::kPauseClient:
        return client;
      case FaultKind::kKillGate:
      case FaultKind::kPauseGate:
        return plan_.gate();
      case FaultKind::kPartition:
      case FaultKind::kLoss:
      case FaultKind::kOneWayLoss:
      case FaultKind::kClockDrift:
      case FaultKind::kClockJump:
        return chance_.below(plan_.gate() + 1);
      case FaultKind::kSlowPeer:
        return chance_.below(plan_.gate());
      case FaultKind::kHalfOpen:
        return chance_.below(plan_.gate() + 1);
      default:
        return node;
    }
  }

  void add(FaultKind kind) {
    const auto length = plan_.length.count();
    PlannedFault fault{.kind = kind, .machine = machine_for(kind)};
    // Most faults are close to others, so that several are in effect at the same time.
    const double last = static_cast<double>(length) - 1e9;
    const double burst = bursts_[chance_.below(bursts_.size())] * last + chance_.exponential(3e9);
    fault.at = static_cast<Nanoseconds>(chance_.chance(0.7) ? std::min(burst, last) : chance_.uniform() * last);
    fault.end = std::min<Nanoseconds>(fault.at + duration().count(), length);
    fault.amount = chance_.uniform();
    // The other machine is of another kind, because only those have connections.
    const bool client = fault.machine >= plan_.nodes && fault.machine < plan_.gate();
    const std::uint64_t peer = chance_.below(client ? plan_.nodes + 1 : plan_.clients);
    fault.other = client ? (peer == plan_.nodes ? plan_.gate() : peer) : plan_.nodes + peer;
    join_disk_fault(fault);
    plan_.faults.push_back(fault);
  }

  // Half of the errors meet a stalled disk, and the other way round.
  void join_disk_fault(PlannedFault& fault) {
    const auto of_disk = [](FaultKind kind) {
      return kind == FaultKind::kStalledDisk || kind == FaultKind::kIoErrors || kind == FaultKind::kNoSpace;
    };
    if (!of_disk(fault.kind) || !chance_.chance(0.5)) return;
    for (const PlannedFault& other : plan_.faults) {
      if (!of_disk(other.kind) || other.kind == fault.kind) continue;
      fault.machine = other.machine;
      fault.at = other.at;
      fault.end = other.end;
    }
  }

  FaultPlan& plan_;
  Prng chance_;
  std::size_t usual_node_ = 0, usual_client_ = 0;
  std::vector<double> bursts_;  // when, as a share of the run
};

}  // namespace

const char* name_of(FaultKind kind) {
  return kFaultNames[static_cast<std::size_t>(kind)];
}

const char* name_of(LoadKind kind) {
  return kLoadNames[static_cast<std::size_t>(kind)];
}

FaultPlan make_fault_plan(std::uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  Planner(plan).run();
  return plan;
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// The plan of one run of the fault campaign: load and faults, made from one seed.
#pragma once

#include <tutti/base.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace tutti::sim {

enum class FaultKind : std::uint8_t {
  kKillClient,       // the process dies and is started again; peers are notified
  kKillNode,         //
  kKillGate,         //
  kPauseClient,      //
  kPauseNode,        // if it is longer than the fence time, the watchdog kills the node
  kPauseGate,        //
  kPartition,        // messages between two machines are delayed until it ends
  kLoss,             // messages between two machines are lost
  kOneWayLoss,       // messages from one machine to another are lost
  kHalfOpen,         // a machine loses its connections; peers are not notified
  kLostConnections,  // connections end at random
  kSlowPeer,         // a machine receives slowly
  kStalledDisk,      // operations of a node's device take very long
  kStalledWorkers,   // a node's workers stop between the check of a deadline and the change
  kDelayedWorkers,   // a node's workers start late
  kIoErrors,         // operations fail with EIO, some after a part of the data
  kNoSpace,          // writes fail with ENOSPC, some after a part of the data
  kFailedSync,       //
  kSlowSync,         //
  kPowerCut,         // a node's machine loses unsynced data and connections; peers are not notified
  kClockDrift,       //
  kClockJump,        // of the wall clock
  kMemoryShortage,   // no memory for payloads of writes
  kRestartAll,       // all machines are killed, with or without a power cut, and started again
};
inline constexpr std::size_t kFaultKinds = 24;
const char* name_of(FaultKind kind);

enum class LoadKind : std::uint8_t {
  kWrite,
  kRead,
  kListWrite,
  kListRead,
  kSync,
  kTruncate,
  kCreate,
  kRecreate,
  kRename,
  kUnlink,
  kLookUp,
  kOpen,
  kSwitchPolicy,
  kTurn,
};
inline constexpr std::size_t kLoadKinds = 14;
const char* name_of(LoadKind kind);

// Time limits of the simulated cluster. Pauses are shorter and longer than each of them.
struct FaultTimeouts {
  Duration fence = std::chrono::seconds(2);
  Duration request = std::chrono::seconds(5);
  Duration give_up = std::chrono::seconds(30);
  Duration connect = std::chrono::seconds(2);
  Duration memory_patience = std::chrono::seconds(10);
  Duration gate_lease = std::chrono::seconds(10);
  Duration gate_answer = std::chrono::seconds(2);
  Duration gate_wait = std::chrono::seconds(40);
};

struct PlannedFault {
  FaultKind kind{};
  Nanoseconds at = 0;
  Nanoseconds end = 0;
  std::size_t machine = 0;  // nodes, then clients, then the gate
  std::size_t other = 0;    // of a partition or loss
  double amount = 0;        // 0 to 1; its meaning depends on the kind
};

struct FaultPlan {
  std::uint64_t seed = 0;
  std::size_t nodes = 3;
  std::size_t clients = 3;
  std::size_t threads = 3;          // per client; each has one operation at a time
  std::string policy = "concert";   // of nodes that start
  std::size_t depth = 8;            // of a node's queue in front of its disk; requests behind it are merged
  std::size_t files = 3;            // that all clients share
  std::uint64_t blocks = 64;        // per file
  std::uint64_t stripe = 4;         // blocks
  double sequential = 0;            // share of operations that continue the last one; nodes merge them
  Duration think{};                 // mean pause between two operations of a thread
  Duration length{};                // all faults are over by then
  std::uint64_t operations = 2000;  // at least
  std::array<double, kLoadKinds> weights{};
  FaultTimeouts timeouts{};
  std::vector<PlannedFault> faults;  // in order of time

  std::size_t gate() const { return nodes + clients; }  // number of its machine
};

// The policies that nodes use.
inline constexpr std::array<const char*, 10> kFaultPolicies = {"fifo",  "to",     "sjf",   "hbrr",    "mlf",
                                                               "aioli", "window", "twins", "concert", "fair"};

// Equal seeds give equal plans.
FaultPlan make_fault_plan(std::uint64_t seed);

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// What an application states about its I/O: the size of a phase, and the targets of an operation.
#pragma once

#include <tutti/sched.h>

#include <cstdint>

namespace tutti {

// How the processes of an application use files in a phase.
enum class PhaseFiles : std::uint8_t {
  kShared,         // all processes together write or read the same files
  kOnePerProcess,  // each process has files of its own
};

struct PhaseAnnouncement {
  // Bytes that all processes of the application will read and write in the phase, on all targets together. 0: use the
  // size of the last phase of this kind.
  Bytes total{};
  // Separates phases that repeat with different sizes, e.g. 1 for checkpoints and 2 for input.
  std::uint64_t kind = 0;
  PhaseFiles files = PhaseFiles::kShared;
};

// Bytes of an operation on one target.
struct TargetShare {
  TargetId target = 0;
  Bytes bytes{};
};

// Range of the order ids that applications get, both ends included. low == high: all have the same order id.
struct OrderRange {
  OrderId low = 0;
  OrderId high = 32767;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// What is simulated: servers, network, applications and faults. Plain data; scenario_file.h reads it from TOML.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "gate/backoff.h"

namespace tutti::sim {

struct PolicyChoice {
  std::string name = "fifo";
  PolicyOptions options{};
};

struct Servers {
  unsigned count = 4;
  DeviceFigures device = FixedFigures{};
  unsigned depth = 16;  // batches a server keeps at its device at once
  PolicyChoice policy{};
  Duration request_cost{};  // of the server's one working thread for each batch it handles
  Duration write_cost{};    // beside it for each batch of writes: that thread waits until they are safe
  Bytes read_ahead{};       // its file system keeps what was read in memory and reads streams ahead; 0: no memory
  bool write_back = false;  // a write is done when it is in the server's memory, which has room for all of them
  // Files lie at random places within this much of each device; 0: anywhere on it.
  Bytes spread{};
};

// Nodes between the applications and the servers, each with a policy of its own. The rank's number picks its node.
struct Forwarding {
  unsigned count = 0;   // 0: applications talk to the servers themselves
  unsigned depth = 16;  // batches a node keeps under way to the servers at once
  PolicyChoice policy{};
};

// Every message takes `latency`, plus up to `jitter` (uniform), plus its bytes over the links it shares with others:
// the client node's, the server's and the core all messages pass. A bandwidth of 0 has no limit.
struct Network {
  Duration latency = std::chrono::microseconds(50);
  Duration jitter{};
  double client_bandwidth = 0;  // bytes per second and direction
  double server_bandwidth = 0;
  double core_bandwidth = 0;
};

enum class Pattern : std::uint8_t {
  kContiguous,   // each rank has a segment of the file to itself and goes through it
  kStrided,      // 1-D strided: operation by operation, one block of each rank after the other
  kInterleaved,  // each operation is many blocks, interleaved with those of the other ranks
  kTiles2d,      // each rank has a tile of a matrix; an operation is some of its rows
  kTiles3d,      // each rank has a box; an operation is some of its rows
  kVector,       // blocks with gaps between them, in the rank's own segment
  kRandom,       // anywhere in the file
};

enum class Barrier : std::uint8_t {
  kPhase,      // ranks meet when all have done the whole phase
  kOperation,  // and after every round of operations
};

// What the stamps say of the size of a phase.
enum class PhaseSizes : std::uint8_t {
  kAnnounced,   // the truth, times size_error
  kRemembered,  // learned in an earlier run and from the previous phase, times size_error
  kLearned,     // from the previous phase; nothing in the first
  kUnknown,
};

// Ranks that compute, then do their operations, `iterations` times. All times and sizes are per iteration and rank.
struct Application {
  std::string name;
  std::optional<ApplicationId> id{};  // else drawn from 0..32767 by the seed, as the sc11 paper does
  Duration start{};
  unsigned ranks = 1;
  unsigned ranks_per_node = 1;  // ranks that share one client link
  unsigned iterations = 1;
  Duration compute{};
  unsigned operations = 1;
  Bytes size{1 << 20};      // of one operation
  Bytes block{};            // of one contiguous piece of an operation, for the patterns that have such; 0: size
  Bytes largest_request{};  // clients cut pieces to this, as NFS clients do; 0: a stripe is the limit
  // Pieces that adjoin in a server's part of the file go to it as one request of up to this size, as PVFS2's flows do
  // (256 KiB); 0: each piece goes by itself. Policies that merge by offset see only where a request begins.
  Bytes flow{};
  Bytes gap{};               // kVector: between two blocks
  Duration think{};          // between an operation and the next
  unsigned outstanding = 1;  // operations a rank issues without waiting: 1 is synchronous
  double variation = 0;      // operations per phase vary by up to this share up and down
  Direction direction = Direction::kRead;
  Pattern pattern = Pattern::kContiguous;
  Barrier barrier = Barrier::kPhase;
  bool file_per_process = false;
  Bytes stripe_size{64 << 10};
  unsigned stripe_count = 0;               // 0: all servers
  std::optional<unsigned> first_server{};  // else drawn by the seed where the stripe count is smaller than the servers
  PhaseSizes sizes = PhaseSizes::kLearned;
  double size_error = 1;
};

// Jobs take turns for their phases (src/gate), or probe and back off.
struct Gate {
  enum class Kind : std::uint8_t { kNone, kLock, kBackoff };
  Kind kind = Kind::kNone;
  std::string discipline = "fifo";  // kLock
  PolicyOptions discipline_options{};
  Duration latency = std::chrono::microseconds(45);  // one way to the coordinator and back
  Duration patience = std::chrono::minutes(30);      // an application goes ahead if no answer comes for so long
  gate::BackoffOptions backoff{};                    // kBackoff; the threshold is 85% of what a quiet server gives
};

struct Fault {
  enum class Kind : std::uint8_t {
    kSlow,         // a server's device takes `factor` times as long
    kStop,         // a server serves nothing; what it had goes on after the end
    kSkew,         // a server's clock, or with `application` that application's, is off by `skew`
    kDelay,        // messages (to `server`, of `application`, where given) are late by `delay` with `probability`
    kKill,         // `application` dies; what it had waiting is cancelled
    kCoordinator,  // the gate's coordinator answers nobody
  };
  Kind kind = Kind::kSlow;
  std::optional<unsigned> server{};       // else all of them
  std::optional<unsigned> application{};  // index
  Duration at{};
  std::optional<Duration> until{};  // nothing: for good
  double factor = 1;
  Duration skew{};  // may be negative
  double probability = 1;
  Duration delay{};
};

struct Scenario {
  std::string name;
  std::uint64_t seed = 1;
  Servers servers{};
  Forwarding forwarding{};
  Network network{};
  Gate gate{};
  std::vector<Application> applications{};
  std::vector<Fault> faults{};
  Duration timeout{};                             // clients give an operation up after this; 0: never
  Duration limit = std::chrono::hours(24 * 365);  // simulated time after which the run is given up
};

// What is wrong with a scenario, if anything: kInvalid.
Result<void> check(const Scenario& scenario);

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// A scenario: servers, network, applications and faults. Plain data; scenario_file.h reads it from TOML.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "gate/backoff.h"
#include "node/node.h"
#include "sim/trick.h"

namespace tutti::sim {

struct PolicyChoice {
  std::string name = "fifo";
  PolicyOptions options{};
};

struct Servers {
  unsigned count = 4;
  DeviceFigures device = FixedFigures{};
  unsigned depth = 16;  // maximum number of batches at the device of a server
  PolicyChoice policy{};
  Duration request_cost{};      // time of the server's only worker thread per batch
  Duration write_cost{};        // additional time per batch of writes, until they are on stable storage
  double thread_bandwidth = 0;  // bytes per second that the thread copies, in addition; 0: no limit
  Bytes read_ahead{};           // read-ahead of the page cache (page_cache.h); 0: no page cache
  bool write_back = false;      // a write completes in the server's memory, which has no limit
  // A write completes when it is in this much memory of the server or of its disk controller, which passes writes on to
  // the device in order of arrival, at most `depth` at a time; 0: none.
  Bytes write_cache{};
  // Limits of a node, the same as in NodeOptions.
  Bytes write_buffers = NodeOptions{}.write_buffers;
  Bytes read_buffers = NodeOptions{}.read_buffers;
  std::size_t max_waiting = NodeOptions{}.max_waiting;
  wire::Limits limits{};  // per connection
  // Files are at random positions within this many bytes of each device; 0: on the whole device.
  Bytes spread{};
  // What the policies expect to arrive, by server: for the option `prediction`. Empty: nothing.
  std::vector<std::shared_ptr<const PredictedQueues>> predictions{};
};

// Forwarding nodes between the applications and the servers, each with its own policy. The client node's number selects
// the forwarding node.
struct Forwarding {
  unsigned count = 0;   // 0: applications send to the servers directly
  unsigned depth = 16;  // maximum number of batches that a node has sent to the servers
  PolicyChoice policy{};
};

// Every message takes `latency`, plus a uniform random time up to `jitter`, plus its transfer time on shared links: the
// link of the client node, the link of the server, and the core that all messages pass. Bandwidth 0: no limit.
struct Network {
  Duration latency = std::chrono::microseconds(50);
  Duration jitter{};
  double client_bandwidth = 0;  // bytes per second and direction
  double server_bandwidth = 0;
  double core_bandwidth = 0;
};

enum class Pattern : std::uint8_t {
  kContiguous,   // each rank has its own segment of the file and accesses it in order
  kStrided,      // 1-D strided: in each round, one block of each rank after the other
  kInterleaved,  // each operation is many blocks, interleaved with those of the other ranks
  kTiles2d,      // each rank has a tile of a matrix; an operation is some of its rows
  kTiles3d,      // each rank has a box; an operation is some of its rows
  kVector,       // blocks with gaps between them, in the rank's own segment
  kRandom,       // anywhere in the file
};

enum class RankBarrier : std::uint8_t {
  kPhase,      // ranks wait for each other at the end of the phase
  kOperation,  // and after every round of operations
};

// How the stamps get the size of a phase.
enum class PhaseSizes : std::uint8_t {
  kAnnounced,   // the correct size times size_error
  kRemembered,  // learned in an earlier run and from the previous phase, times size_error
  kLearned,     // learned from the previous phase; unknown in the first
  kUnknown,
};

// Its ranks compute, then do their operations, `iterations` times. All times and sizes are per iteration and rank.
struct Application {
  std::string name;
  std::optional<ApplicationId> id{};  // empty: random in 0..32767, as in the sc11 paper
  Duration start{};
  Duration rank_spread{};  // each rank begins a phase later by a uniform random time up to this
  unsigned ranks = 1;
  unsigned ranks_per_node = 1;  // ranks that share one client link
  unsigned iterations = 1;
  Duration compute{};
  unsigned operations = 1;
  Bytes size{1 << 20};  // of one operation
  // Bytes of one operation on each server. Their sum is `size`; pattern and block are not used. Empty: by the pattern.
  std::vector<Bytes> server_bytes{};
  Bytes block{};            // of one contiguous block of an operation, for patterns with blocks; 0: size
  Bytes largest_request{};  // clients cut requests to this size, as NFS clients do; 0: a stripe
  // Every request is a message of its own, as in NFS; else a server gets all its requests of an operation in one.
  bool separate_requests = false;
  // Stripes that adjoin in a server's part of the file are one request of up to this size, as in PVFS2's flows
  // (256 KiB); 0: each stripe is one request. Policies that merge by offset only know the start of a request.
  Bytes flow{};
  Bytes gap{};               // kVector: between two blocks
  Duration think{};          // pause after each operation
  unsigned outstanding = 1;  // maximum number of incomplete operations of a rank; 1: synchronous
  double variation = 0;      // operations per phase vary by up to this share
  Direction direction = Direction::kRead;
  Pattern pattern = Pattern::kContiguous;
  RankBarrier barrier = RankBarrier::kPhase;
  bool sync = false;  // every rank calls fsync at the end of a phase
  bool file_per_process = false;
  Bytes stripe_size{64 << 10};
  unsigned stripe_count = 0;               // 0: all servers
  std::optional<unsigned> first_server{};  // empty: random, if stripe_count is less than the servers
  PhaseSizes sizes = PhaseSizes::kLearned;
  double size_error = 1;
  Trick trick = Trick::kNone;  // fast simulation only
  UserId user = 0;             // as authenticated by the servers; fast simulation only
  bool job_proven = true;      // as in Request; fast simulation only
  bool coordinated = true;     // false: does not ask the gate; fast simulation only
};

// How jobs take turns for their phases (src/gate): not at all, by lock, or by probing and backoff.
struct Gate {
  enum class Kind : std::uint8_t { kNone, kLock, kBackoff };
  Kind kind = Kind::kNone;
  std::string discipline = "fifo";  // kLock
  PolicyOptions discipline_options{};
  Duration latency = std::chrono::microseconds(45);  // of a message to or from the coordinator
  Duration patience = std::chrono::minutes(30);      // an application proceeds after waiting this long for its turn
  Duration answer_bound = std::chrono::seconds(2);   // and after this long without an answer of the coordinator
  gate::BackoffOptions backoff{};                    // kBackoff; the threshold is 85% of the rate of an idle server
  bool probe =
      false;  // kLock: the job that has the turn also probes as with kBackoff, before it begins; fast simulation only
  bool own_data = false;  // probes write data of the phase, which is shorter by that; fast simulation only
};

struct ScenarioFault {
  enum class Kind : std::uint8_t {
    kSlow,         // the device of a server takes `factor` times as long
    kStop,         // a server stops; it continues its work when the fault ends
    kSkew,         // the clock of a server, or of `application`, is wrong by `skew`
    kDelay,        // messages (to `server`, of `application`, if set) are delayed by `delay` with `probability`
    kKill,         // `application` dies; its waiting requests are cancelled
    kCoordinator,  // the gate's coordinator does not answer
  };
  Kind kind = Kind::kSlow;
  std::optional<unsigned> server{};       // empty: all servers
  std::optional<unsigned> application{};  // index
  Duration at{};
  std::optional<Duration> until{};  // empty: until the end of the run
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
  std::vector<ScenarioFault> faults{};
  Duration timeout{};                             // an operation fails after this; 0: never
  Duration limit = std::chrono::hours(24 * 365);  // simulated time after which the run is stopped
};

// kInvalid: what is wrong with the scenario.
Result<void> check(const Scenario& scenario);

}  // namespace tutti::sim

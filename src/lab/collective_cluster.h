// SPDX-License-Identifier: Apache-2.0
// Simulated machines for collective I/O: ranks, targets with disks and page caches, and the network between them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collective/plan.h"
#include "engine/device.h"
#include "sim/network.h"
#include "sim/page_cache.h"
#include "sim/simulator.h"

namespace tutti::lab {

struct ClusterFigures {
  unsigned targets = 4;
  DeviceFigures device = HddFigures{};
  Bytes read_ahead{128 << 10};  // of a target's page cache
  Duration request_cost{};      // of a target's thread per request
  Duration extent_cost{};       // and per extent in a list request
  Bytes chunk{256 << 10};       // a target reads and writes a request in chunks of this size,
  unsigned chunks = 8;          // this many at a time
  // A target executes one chunk of a file at a time, in order of arrival, as the POSIX AIO of glibc does, which PVFS2
  // 2.6 uses. False: all chunks go to the device's own queue.
  bool serial_files = false;
  sim::Network network{};  // server_bandwidth is that of every machine
  Bytes spread{};          // files are at random positions within this many bytes of a disk
};

// Ranks and targets on one network. A target executes requests as a PVFS2 server does: a thread handles them in order
// of arrival, the data is read or written in chunks, chunks that are read are sent at once. Writes are on the device
// when they complete. Not thread-safe.
class CollectiveCluster {
 public:
  CollectiveCluster(sim::Simulator& simulator, const ClusterFigures& figures, std::size_t ranks, std::uint64_t seed);

  struct File {
    FileId id = 0;
    Layout layout{};
  };
  // One I/O call of a rank. It is sent now, to all targets that it needs; `done` is called when the last byte has
  // arrived at the rank, or, for writes, the last answer.
  struct Call {
    std::size_t rank = 0;
    const File* file = nullptr;  // must outlive the call
    Direction direction = Direction::kRead;
    std::vector<collective::Extent> extents;
  };
  void io(Call call, Task done);

  // Sends a message from one rank to another.
  void message(std::size_t from, std::size_t to, std::uint64_t bytes, Task arrived);

  sim::Simulator& simulator() { return simulator_; }

 private:
  struct Range {
    std::uint64_t offset = 0;  // in the target's object
    std::uint64_t length = 0;
  };
  // The part of a call for one target.
  struct TargetRequest {
    std::size_t rank = 0;
    FileId file = 0;
    Direction direction = Direction::kRead;
    std::size_t target = 0;
    std::uint64_t extents = 0;
    std::uint64_t bytes = 0;
    std::deque<Range> chunks;               // not yet started
    std::deque<sim::Nanoseconds> payload;   // writes: when the data of these chunks is at the target
    std::size_t remaining = 0;              // chunks that have not been served
    std::shared_ptr<std::size_t> messages;  // of the whole call, not yet arrived at the rank
    std::shared_ptr<Task> owner;
  };
  struct Chunk {
    std::shared_ptr<TargetRequest> request;
    Range range{};
  };
  struct Target {
    Device device;
    sim::PageCache cache;
    sim::Nanoseconds thread_free = 0;
    bool scheduled = false;
    std::unordered_map<std::uint32_t, Chunk> chunks;                        // at the device, by ticket
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waiting;  // tickets that wait for another's data
    std::unordered_map<FileId, std::deque<std::uint32_t>> queues;  // serial_files: the first one is being served
    std::uint32_t next_ticket = 0;
  };

  std::vector<std::shared_ptr<TargetRequest>> requests_of(const Call& call) const;
  void arrives(const std::shared_ptr<TargetRequest>& request);
  void start_chunks(const std::shared_ptr<TargetRequest>& request);
  void start(std::size_t target, std::uint32_t ticket);
  void enqueue(std::size_t target, std::uint32_t ticket);
  void dequeue(std::size_t target, FileId file);
  void to_device(std::size_t target, std::uint32_t ticket, std::uint64_t length);
  void finish(std::size_t target);
  void served(std::size_t target, std::uint32_t ticket);
  void answer(const std::shared_ptr<TargetRequest>& request, std::uint64_t bytes);

  sim::Simulator& simulator_;
  ClusterFigures figures_;
  std::size_t ranks_;
  std::uint64_t seed_;
  sim::NetworkModel network_;
  std::vector<Target> targets_;
};

}  // namespace tutti::lab

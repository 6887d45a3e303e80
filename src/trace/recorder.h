// SPDX-License-Identifier: Apache-2.0
// Records what arrives at a scheduler and when it ends.
//
// The scheduler's threads put arrivals and ends into a ring in memory, and encode 128 of them at a time in a few bytes
// each, which is faster than passing them to another thread.
// A worker writes full blocks, and every flush interval the block that is not full. If the output is slower than the
// requests, requests are left out of the trace and counted; the scheduler never waits.
#pragma once

#include <tutti/sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log_limit.h"
#include "base/mutex.h"
#include "base/world.h"
#include "trace/format.h"

namespace tutti::trace {

// Where blocks go: files (live_files.h), or memory in tests. Called by one thread at a time, which may block.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  // Appends a block. Every file that the output makes begins with the header.
  virtual Result<void> write(const FileHeader& header, std::span<const std::byte> block) = 0;
};

// The numbers of requests that have not ended, by id. Servers that use small ids again, as nodes do, need no hash
// table. Not thread-safe.
class UnfinishedRequests {
 public:
  void add(RequestId id, std::uint64_t number) {
    if (id >= kMostSmall) {
      large_[id] = number;
      return;
    }
    if (id >= small_.size()) small_.resize(std::min<std::size_t>(kMostSmall, 2 * id + 64));
    small_[id] = number + 1;
  }
  // Removes it and returns its number; nothing if it is not there.
  std::optional<std::uint64_t> take(RequestId id) {
    if (id < kMostSmall) {
      const std::uint64_t known = id < small_.size() ? std::exchange(small_[id], 0) : 0;
      return known == 0 ? std::nullopt : std::optional(known - 1);
    }
    const auto found = large_.find(id);
    if (found == large_.end()) return std::nullopt;
    const std::uint64_t number = found->second;
    large_.erase(found);
    return number;
  }

 private:
  static constexpr RequestId kMostSmall = 1 << 18;  // 2 MiB
  std::vector<std::uint64_t> small_;                // one more than the number; 0: none
  boost::unordered_flat_map<RequestId, std::uint64_t> large_;
};

// What happened to one request.
struct RecordedEvent {
  RequestId id = 0;
  TimePoint when{};
  TracedArrival arrival{};  // of an arrival, without `time`
  bool ended = false;
  bool served = false;  // of an end
};

// Events between the thread that reports them and the thread that encodes them, which may be the same. One thread at a
// time may call each of push() and drain(); the two may overlap. Without locks, because a lock costs more than the
// encoding.
class EventRing {
 public:
  static constexpr std::size_t kSize = 256;

  // The next event to fill in before push(). The ring must not be full.
  RecordedEvent& next() { return events_[head_.load(std::memory_order_relaxed) % kSize]; }
  // True: half of the ring is used; drain it soon.
  bool push() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) + 1;
    head_.store(head, std::memory_order_release);
    return head - tail_.load(std::memory_order_acquire) >= kSize / 2;
  }
  // False: there were no events.
  template <typename Use>
  bool drain(Use use) {
    const std::uint64_t head = head_.load(std::memory_order_acquire), first = tail_.load(std::memory_order_relaxed);
    for (std::uint64_t at = first; at != head; ++at) use(events_[at % kSize]);
    tail_.store(head, std::memory_order_release);
    return head != first;
  }

 private:
  std::atomic<std::uint64_t> head_{0}, tail_{0};
  std::array<RecordedEvent, kSize> events_{};
};

// Thread-safe, but calls of arrived() and ended() must not overlap, as SchedulerObserver promises.
class Recorder final : public SchedulerObserver {
 public:
  struct Options {
    Facts facts{};
    std::function<void(const std::string&)> warn{};  // blocks cannot be written; at most a few per minute
    Duration flush_interval = std::chrono::seconds(1);
    std::size_t most_waiting = 64;  // full blocks that wait to be written, of kUsualBlock bytes each
    // Names of files, and their bytes: clients choose how many. Beyond them, files that were named earlier lose their
    // names.
    std::size_t most_names = 1 << 16, most_name_bytes = 16 << 20;
  };

  // World and workers outlive the recorder. The workers must be stopped before the recorder is destroyed.
  Recorder(World& world, Workers& workers, std::unique_ptr<TraceOutput> output, Options options);
  ~Recorder() override;

  void arrived(std::span<const WaitingRequest> requests) override;
  void ended(std::span<const Request> requests, TimePoint when, bool served) override;
  void named(FileId file, std::string_view path) override;

  // Writes everything on a worker, soon.
  void flush();

  std::uint64_t recorded() const { return recorded_; }  // requests that were written
  std::uint64_t lost() const { return lost_; }          // requests that were left out

 private:
  struct EncodedBlock {
    std::vector<std::byte> bytes;
    std::uint64_t requests = 0;
  };

  void report();                        // the event that ring_.next() is
  bool drain() TUTTI_REQUIRES(mutex_);  // encodes the events so far; false: there were none
  void tick();                          // of the timer
  void start_timer() TUTTI_REQUIRES(mutex_);
  void add(const RecordedEvent& event) TUTTI_REQUIRES(mutex_);
  void end(const RecordedEvent& event) TUTTI_REQUIRES(mutex_);
  // Requests are left out from the end of a block until blocks have been written, so that a block has no gaps.
  bool must_leave_out() const TUTTI_REQUIRES(mutex_) {
    return encoder_.empty() && waiting_.size() >= options_.most_waiting;
  }
  void count_left_out() TUTTI_REQUIRES(mutex_);
  void end_block() TUTTI_REQUIRES(mutex_);
  // Posts write() if there are blocks for it, after it has released the lock.
  void unlock_and_post(Lock& lock) TUTTI_UNCHECKED;  // unlocks what the caller has locked
  void write();

  World& world_;
  Workers& workers_;
  const std::shared_ptr<Workers::Strand> strand_;
  const Options options_;
  std::atomic<std::uint64_t> recorded_{0}, lost_{0};

  EventRing ring_;  // filled by arrived() and ended(), whose calls never overlap; drained under mutex_
  // The timer runs as long as events arrive. It ends after two intervals without: an event that is reported while it
  // goes off in the first is found in the second.
  std::atomic<bool> timer_runs_{false};

  Mutex mutex_;
  bool idle_ TUTTI_GUARDED_BY(mutex_) = false;  // nothing arrived in the last interval
  FileHeader header_ TUTTI_GUARDED_BY(mutex_);
  bool started_ TUTTI_GUARDED_BY(mutex_) = false;  // header_.start is set
  BlockEncoder encoder_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t in_block_ TUTTI_GUARDED_BY(mutex_) = 0;  // requests
  std::uint64_t left_out_ TUTTI_GUARDED_BY(mutex_) = 0;  // requests since the last block
  UnfinishedRequests unfinished_ TUTTI_GUARDED_BY(mutex_);
  std::vector<EncodedBlock> waiting_ TUTTI_GUARDED_BY(mutex_);  // to be written
  bool posted_ TUTTI_GUARDED_BY(mutex_) = false;                // a write() that has not begun
  boost::unordered_flat_map<FileId, std::string> names_ TUTTI_GUARDED_BY(mutex_);
  std::size_t name_bytes_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Timer> timer_;

  // Workers that have been stopped run tasks on any thread, so a strand is not enough. Taken before mutex_.
  Mutex write_mutex_;
  const std::unique_ptr<TraceOutput> output_;
  LogLimit failures_;
};

}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
// Tutti's scheduler, to be embedded in a storage server: add requests, take out batches in the order of a policy.
//
//   auto scheduler = tutti::Scheduler::create({.policy = "concert"});
//   (*scheduler)->add(request);                       // any thread
//   tutti::Scheduler::Dispatched batch;
//   while ((*scheduler)->next(batch)) {               // the dispatcher's thread: waits for work
//     serve(batch.requests);                          // one vectored operation
//     (*scheduler)->complete(batch);                  // any thread
//   }
//   ...
//   (*scheduler)->stop(tutti::Scheduler::Stop::kDrain);
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

using RequestId = std::uint64_t;  // chosen by the caller; unique among the requests a scheduler holds
using FileId = std::uint64_t;     // the same for all requests to one file
using TargetId = std::uint32_t;   // a device or server that holds stripes: an OST, an OSD, a disk
using ApplicationId = std::uint32_t;
using UserId = std::uint32_t;
using OrderId = std::uint32_t;      // decides which of several applications is served first; two may share one
using PhaseNumber = std::uint32_t;  // counts an application's bursts of I/O
using OperationId = std::uint64_t;  // requests that complete together share it

enum class Direction : std::uint8_t { kRead, kWrite };

// Made once per operation by the client and sent with every request of it. Servers that order by stamps alone use the
// same order without messages between them.
//
// The three sizes are bytes on the phase's busiest target, because that target decides when the phase ends. The client
// computes them from the layouts of its files and its own progress (docs/design/stamp.md).
struct Stamp {
  ApplicationId application = 0;  // the job: for statistics, shares and limits
  PhaseNumber phase = 0;
  OrderId order = 0;  // if a policy must choose between applications, the lowest order is served first
  // The user, set by the server that has authenticated it; not sent. Jobs of two users are two jobs, also if their
  // clients state the same number.
  UserId user = 0;
  TimePoint issued{};       // when the client issued the operation
  TimePoint phase_start{};  // when the client issued the first operation of the phase
  Bytes attained{};         // issued in this phase before this operation
  Bytes phase_total{};      // size of the phase, announced or learned; 0: unknown
  OperationId operation = 0;
  Bytes bottleneck{};  // what this operation adds to `attained`
};

// One contiguous range of one file on one target.
struct Request {
  RequestId id = 0;
  FileId file = 0;
  std::uint64_t offset = 0;
  Bytes length{};  // at least 1; offset + length at most 2^63
  TargetId target = 0;
  Direction direction = Direction::kRead;
  // The striping of the file: stripes of 2^stripe_log2 bytes, round robin over stripe_count columns. With it, policies
  // know the place in the target's object and can merge what adjoins there (option `adjoin`). The same for all requests
  // to one file. A stripe_count of 0 or 1, or a stripe_log2 above kMostStripeLog2: the place is the offset.
  std::uint8_t stripe_log2 : 7 = 0;
  // The server knows that `stamp.application` is a job of the user: the client could not have stated another one. If
  // not, policies may count all unproven applications of a user as one.
  bool job_proven : 1 = true;
  std::uint16_t stripe_count = 0;
  Stamp stamp{};

  static constexpr std::uint8_t kMostStripeLog2 = 46;

  std::uint64_t end() const { return offset + length.count(); }
  bool striped() const { return stripe_count > 1 && stripe_log2 <= kMostStripeLog2; }
  // The place in the file's objects, one behind the other: bytes that follow each other in one object have places that
  // follow each other, and no two columns touch.
  std::uint64_t place() const {
    if (!striped()) return offset;
    const std::uint64_t stripe = offset >> stripe_log2, size = std::uint64_t{1} << stripe_log2;
    const std::uint64_t column = (std::uint64_t{1} << 63) / stripe_count + 2 * size;  // bytes set aside for each
    return stripe % stripe_count * column + stripe / stripe_count * size + (offset & (size - 1));
  }
};

// A request that waits, and since when.
struct WaitingRequest {
  Request request;
  TimePoint arrived;
};

// Is called with what happens at a scheduler, to record it or to learn from it.
class SchedulerObserver {
 public:
  virtual ~SchedulerObserver() = default;
  // These requests have arrived, in this order. Calls of arrived() and ended() never overlap. They are made while the
  // scheduler's lock is held: they must return soon and must not call the scheduler.
  virtual void arrived(std::span<const WaitingRequest> requests) = 0;
  // These requests have been served, or, if not `served`, were cancelled or dropped.
  virtual void ended(std::span<const Request> requests, TimePoint when, bool served) = 0;
  // The file has this path. May be called on any thread, at any time.
  virtual void named(FileId file, std::string_view path) = 0;
};

// Option names to values as text, e.g. {"width", "250ms"}. `tutti policies` lists what each policy takes.
using PolicyOptions = std::map<std::string, std::string>;

class Clock;
class PredictedQueues;  // src/sched/prediction
class ClusterLimits;    // src/sched/cluster_limits.h

// A policy with the locking and waiting that threads need. All members are thread-safe.
//
// Every request that add() accepted is returned by next() exactly once, unless cancel() removed it: in a batch to
// serve, or, after stop(kDrop), in a batch marked `dropped`. This also holds while the policy is switched.
class Scheduler {
 public:
  struct Options {
    std::string policy = "concert";
    PolicyOptions policy_options{};
    // The device behind the scheduler: "hdd", "ssd", "nvme", ... Some defaults of policies depend on it
    // (`tutti policies`).
    std::string device_class{};                       // empty: not known
    std::size_t max_requests = std::size_t{1} << 20;  // that wait; beyond it add() returns kFull
    Bytes max_bytes{std::uint64_t{1} << 40};          // that wait; beyond it add() returns kFull
    std::size_t max_in_flight = 0;                    // batches; next() waits beyond it. 0: no limit
    Clock* clock = nullptr;                           // nullptr: the real clock. Outlives the scheduler.
    SchedulerObserver* observer = nullptr;            // nullptr: none. Outlives the scheduler.
    // What policies with the option `prediction` expect to arrive, from traces of earlier runs; nullptr: nothing.
    std::shared_ptr<const PredictedQueues> predictions{};
    // For policies with limits: where a server of a cluster gets its part of each limit; nullptr: limits are those of
    // this scheduler.
    std::shared_ptr<ClusterLimits> limits{};
  };

  enum class Stop {
    kDrain,  // waiting requests are still served, in the policy's order
    kDrop,   // waiting requests are returned by next() at once, marked as dropped
  };

  // Requests to serve as one operation: same file and direction, ascending offsets, each adjoins the one before it: in
  // the file, or, where the policy has the option `adjoin=object`, at least in the target's object.
  // `requests` stays valid until complete().
  struct Dispatched {
    std::span<const Request> requests{};
    bool dropped = false;    // do not serve, report that the scheduler stopped. complete() must still be called.
    TimePoint arrived{};     // when the longest-waiting request of it was added
    TimePoint dispatched{};  // when next() returned it
    Duration held{};         // of the time between, how long the policy delayed it
    std::uint32_t ticket = 0;
  };

  struct Percentiles {
    Duration p50{}, p90{}, p99{}, max{};
  };

  struct Counts {
    std::uint64_t added = 0;
    std::uint64_t dispatched = 0;
    std::uint64_t completed = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t dropped = 0;
    Bytes added_bytes{}, dispatched_bytes{};
    Percentiles waiting{};  // from add() to next()
  };

  // What waits and is served now.
  struct State {
    std::string policy;
    std::size_t waiting = 0;
    Bytes waiting_bytes{};
    std::size_t in_flight = 0;  // batches
  };

  struct Statistics : State {
    Counts all;
    std::uint64_t batches = 0;
    double mean_batch = 0;  // requests per batch
    std::uint64_t largest_batch = 0;
    std::map<ApplicationId, Counts> applications;
  };

  // kNotFound: no such policy. kInvalid: an option it does not take or a value out of range.
  static Result<std::unique_ptr<Scheduler>> create(Options options);

  virtual ~Scheduler() = default;  // stops; no thread may be inside next() any more

  // kInvalid: length 0, or past 2^63. kDuplicate: the id is waiting or in flight. kFull, kStopped.
  virtual Result<void> add(const Request& request) = 0;

  // Tells the path of a file to the observer, and to a policy with predictions, which recognises files of earlier runs
  // by it. Call it before the first request of the file. A later call replaces the path.
  virtual void name_file(FileId file, std::string_view path) = 0;

  // True: the request was waiting and will never be dispatched. False: unknown, dispatched or done.
  virtual bool cancel(RequestId id) = 0;

  // Waits for the next batch. False: stopped, and no batch is left.
  virtual bool next(Dispatched& batch) = 0;
  // As many batches as are ready, up to the size of `batches`; waits only for the first. 0: stopped, none left.
  virtual std::size_t next(std::span<Dispatched> batches) = 0;
  // The same, but waits at most `timeout`: 0 then, too.
  virtual std::size_t next(std::span<Dispatched> batches, Duration timeout) = 0;
  // Does not wait. 0: nothing may be dispatched now.
  virtual std::size_t try_next(std::span<Dispatched> batches) = 0;
  // The same for an event loop: `again` is the time at which to call again even if nothing was added, completed or
  // switched; TimePoint::max(): not needed.
  virtual std::size_t try_next(std::span<Dispatched> batches, TimePoint& again) = 0;

  // The batch waits for something else than the device, such as memory: it no longer counts towards max_in_flight, so
  // that other batches can be dispatched. It must still be completed.
  virtual void set_aside(const Dispatched& batch) = 0;
  // Call once for every batch that next() returned, whether served, failed or dropped.
  virtual void complete(const Dispatched& batch) = 0;
  virtual void complete(std::span<const Dispatched> batches) = 0;

  // Takes effect between two dispatches; waiting requests move over with their arrival times. On an error nothing
  // changes. Also used to change the options of the current policy.
  virtual Result<void> switch_policy(const std::string& name, const PolicyOptions& options) = 0;

  // From now on add() returns kStopped. Does not wait: next() returns the rest, then false.
  virtual void stop(Stop how) = 0;

  // Its cost grows with the number of applications seen, and dispatchers wait for it.
  virtual Statistics statistics() = 0;
  virtual State state() = 0;
};

}  // namespace tutti

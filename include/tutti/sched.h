// SPDX-License-Identifier: Apache-2.0
// Embed Tutti's scheduler in a storage server: hand in requests, take out batches in the order of a policy.
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
#include <vector>

namespace tutti {

using RequestId = std::uint64_t;    // chosen by the caller; unique among the requests a scheduler holds
using FileId = std::uint64_t;       // the same for all requests to one file
using TargetId = std::uint32_t;     // a place where stripes land: an OST, an OSD, a disk
using ApplicationId = std::uint32_t;
using PhaseNumber = std::uint32_t;  // counts an application's bursts of I/O
using OperationId = std::uint64_t;  // requests that complete together share it

enum class Direction : std::uint8_t { kRead, kWrite };

// Made once by the client and sent along with every piece of an operation: the whole coordination channel.
// Servers that order by stamps alone agree on an order without a word between them.
//
// The three sizes count bytes on one target, the busiest: of all targets for the phase, because that one decides when it
// is over, and for the operation of those it goes to.
struct Stamp {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  TimePoint issued{};        // when the client issued the operation
  TimePoint phase_start{};   // when it issued the first operation of the phase
  Bytes attained{};          // issued in this phase before this operation
  Bytes phase_total{};       // all of the phase, announced or learned; 0: unknown
  OperationId operation = 0;
  Bytes bottleneck{};        // the operation's largest share on one target
};

// One contiguous piece of one file on one target.
struct Request {
  RequestId id = 0;
  FileId file = 0;
  std::uint64_t offset = 0;
  Bytes length{};  // at least 1; offset + length at most 2^63
  TargetId target = 0;
  Direction direction = Direction::kRead;
  Stamp stamp{};

  std::uint64_t end() const { return offset + length.count(); }
};

// Option names to values as text, e.g. {"width", "250ms"}. `tutti policies` lists what each policy takes.
using PolicyOptions = std::map<std::string, std::string>;

class Clock;

// A policy made usable by threads. All members are thread-safe.
//
// Every request that add() accepted comes out of next() exactly once, unless cancel() took it back: in a batch to
// serve, or, after stop(kDrop), in a batch marked `dropped`. Nothing else is ever lost, doubled or invented, not
// even while the policy is switched.
class Scheduler {
 public:
  struct Options {
    std::string policy = "concert";
    PolicyOptions policy_options{};
    std::size_t max_requests = std::size_t{1} << 20;  // waiting; add() says kFull past it
    Bytes max_bytes{std::uint64_t{1} << 40};          // waiting; add() says kFull past it
    std::size_t max_in_flight = 0;                    // batches next() hands out before one completes; 0: no limit
    Clock* clock = nullptr;                           // nullptr: the real clock. Outlives the scheduler.
  };

  enum class Stop {
    kDrain,  // what waits is still served, by the policy's rules
    kDrop,   // what waits comes out of next() at once, marked as dropped
  };

  // Requests to serve as one operation: same file and direction, adjoining, ascending offsets.
  // `requests` stays valid until complete().
  struct Dispatched {
    std::span<const Request> requests{};
    bool dropped = false;    // do not serve: answer that the scheduler stopped. Needs complete() all the same.
    TimePoint arrived{};     // when the request that waited longest was added
    TimePoint dispatched{};  // when next() handed the batch out
    Duration held{};         // of the time between, how long the policy waited on purpose
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

  struct Statistics {
    std::string policy;
    Counts all;
    std::uint64_t batches = 0;
    double mean_batch = 0;  // requests per batch
    std::uint64_t largest_batch = 0;
    std::size_t waiting = 0;
    Bytes waiting_bytes{};
    std::size_t in_flight = 0;  // batches
    std::map<ApplicationId, Counts> applications;
  };

  // kNotFound: no such policy. kInvalid: an option it does not take or a value out of range.
  static Result<std::unique_ptr<Scheduler>> create(Options options);

  virtual ~Scheduler() = default;  // stops; nobody may be inside next() any more

  // kInvalid: length 0, or past 2^63. kDuplicate: the id is waiting or in flight. kFull, kStopped.
  virtual Result<void> add(const Request& request) = 0;

  // True: the request was waiting and will never be dispatched. False: unknown, dispatched or done.
  virtual bool cancel(RequestId id) = 0;

  // Waits for the next batch. False once stopped and nothing is left to hand out.
  virtual bool next(Dispatched& batch) = 0;
  // As many batches as are ready, up to the size of `batches`, waiting only for the first. 0 as above.
  virtual std::size_t next(std::span<Dispatched> batches) = 0;
  // Does not wait: 0 if nothing may be dispatched right now.
  virtual std::size_t try_next(std::span<Dispatched> batches) = 0;
  // The same for an event loop: `again` says when to ask again although nothing is added, completed or switched;
  // TimePoint::max(): no need to.
  virtual std::size_t try_next(std::span<Dispatched> batches, TimePoint& again) = 0;

  // Every batch that next() gave out is completed once, served, failed or dropped.
  virtual void complete(const Dispatched& batch) = 0;
  virtual void complete(std::span<const Dispatched> batches) = 0;

  // Takes effect between two dispatches; what waits moves over with its arrival times. On an error nothing changes.
  // The same policy with other options is a switch too.
  virtual Result<void> switch_policy(const std::string& name, const PolicyOptions& options) = 0;

  // add() says kStopped from now on. Does not wait: next() hands out the rest, then returns false.
  virtual void stop(Stop how) = 0;

  virtual Statistics statistics() = 0;
};

}  // namespace tutti

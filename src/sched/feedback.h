// SPDX-License-Identifier: Apache-2.0
// Multilevel feedback as in AGIOS (section III), the part that mlf and aioli share.
//
// Two queues per file, one per direction. Adjoining requests form a run (the paper's virtual request) as they arrive.
// A request starts with a quantum of zero; every time it is passed over, it gains a fixed time; a run's quantum is the
// sum of its requests'. A run may be served once its quantum covers the estimated time to serve it. In the paper a run
// gains one fixed time, too (growth=request); by default it gains one for each of its requests.
//
// Quanta are not stored but computed. A round is one decision; when round R is decided, a request that arrived before
// round r has been passed over R - r times. So the round in which a run becomes ready is known in advance, and nothing
// needs to be updated until then.
//
// Most queues have one run at a time: a sequential stream, merged as it arrives. Such a queue stores its sole run and
// uses neither heaps nor the index of edges.
#pragma once

#include <array>
#include <vector>

#include "sched/adjacency.h"
#include "sched/file_queues.h"
#include "sched/service_profile.h"

namespace tutti {

class FeedbackPolicy : public QueuedPolicy {
 public:
  void completed(const Batch& batch, TimePoint dispatched, TimePoint now) final;

 protected:
  using Number = std::uint32_t;
  static constexpr Number kNone = ~Number{0};

  struct RunVersion {
    Number run = kNone;
    std::uint32_t generation = 0;
  };

  static constexpr std::uint64_t kFirstRound = 1;

  struct Queue {
    FileQueueKey key;
    std::uint32_t runs = 0;
    Number sole = kNone;           // its only run; kNone if there are others or were since the queue was opened
    std::uint64_t sole_ready = 0;  // the round in which that becomes ready
    bool indexed = false;          // its runs are in the heaps below and in the index of edges
    bool held = false;             // delayed, to wait for an adjoining request, from..until

    // Used by mlf:
    Number previous = 0, next = 0;      // the ring of queues
    std::uint64_t round = kFirstRound;  // of its coming visit
    // Used by aioli:
    bool listed = false;  // among the candidates
    std::uint32_t listing = 0;
    TimePoint listed_at{};

    TimePoint held_from, held_until;
    LazyHeap<std::uint64_t, RunVersion> growing;  // by the round in which they become ready
    LazyHeap<std::uint64_t, RunVersion> ready;    // by offset
    void reset();
  };

  explicit FeedbackPolicy(const OptionValues& options);

  // What differs between the two policies: how rounds advance, and in which order queues are visited.
  virtual std::uint64_t round_of(const Queue& queue) const = 0;  // that comes next, or is being decided
  virtual void opened(Number queue) = 0;
  virtual void changed(Number queue) = 0;  // its runs changed
  virtual void closing(Number queue) = 0;

  Queue& queue(Number number) { return queues_[number]; }
  std::size_t queues() const { return queues_.size(); }

  // The ready run with the smallest offset; kNone if none is ready in the queue's present round.
  Number candidate(Number queue);
  // The round in which the next run becomes ready; a queue with runs but no candidate has one.
  std::uint64_t next_ready_round(Number queue);
  TimePoint arrival_of(Number run) const { return store_.arrived(runs_[run].members.front()); }

  // True if the run should wait because an adjoining request is expected; the queue is then held.
  bool hold(Number run, TimePoint now);
  // Whether the queue is still held; ends the hold when its time is over, the clock went back, or the run is full.
  bool still_held(Number queue, TimePoint now);
  void end_hold(Number queue, TimePoint now);
  void serve(Number run);

  static std::vector<OptionInfo> option_infos();

 private:
  struct RequestRun {
    SlotList members;  // ascending offsets, no gaps
    FileId file = 0;
    std::uint64_t start = 0, end = 0;  // from..until, as MergePlace has it
    Number queue = kNone;
    std::uint32_t generation = 0;  // changes whenever entries in the queue's heaps no longer hold
    // Its quantum in round R is (members * R - arrival_rounds) gains if every member gains (growth=part), else
    // R - arrival_rounds gains.
    std::int64_t arrival_rounds = 0;
    std::uint32_t count = 0;
    Direction direction = Direction::kRead;
    bool waited = false;
  };
  struct StartOf {
    const FeedbackPolicy* policy;
    Edge operator()(Number run) const;
  };
  struct EndOf {
    const FeedbackPolicy* policy;
    Edge operator()(Number run) const;
  };
  // For recently served files: whether requests that adjoin the last one tend to follow.
  struct Habit {
    FileQueueKey key;
    std::uint64_t end = 0;  // of what was served last
    bool follows = false;   // a request that adjoins it arrived afterwards
  };

  void enqueue(Slot slot) final;
  void dequeue(Slot slot) final;

  // A run of one request; not yet indexed or scheduled.
  Number open_run(Number queue, Slot slot);
  void push_back(Number run, Slot slot);
  void close_run(Number run);
  void close_queue(Number queue);
  // The queue is about to have a second run.
  void index_sole(Number queue);
  bool is_indexed(Number run) const { return queues_[runs_[run].queue].indexed; }
  // The run of the queue that ends, or starts, there; kNone if there is none.
  Number ending(Number queue, const Edge& edge) const;
  Number starting(Number queue, const Edge& edge) const;
  void index(Number run);
  void unindex(Number run);
  void append(Number run, Slot slot);
  void prepend(Number run, Slot slot);
  bool admits(Number run, std::size_t count, Bytes bytes) const;
  void join(Number run, Number other);  // `other` begins where `run` ends
  void split(Number run, Slot without);
  void schedule(Number run);  // notes when it becomes ready, or that it is
  std::uint64_t ready_round(const RequestRun& run) const;
  void update_rounds();
  Bytes size_of(Number run) const { return Bytes(runs_[run].end - runs_[run].start); }
  bool is_current(const RunVersion& version) const { return runs_[version.run].generation == version.generation; }

  Habit& habit_of(const FileQueueKey& key) { return habits_[hash_value(key) % habits_.size()]; }

  static constexpr std::uint64_t kMostRounds = 4096;  // the largest request is ready after at most this many

  MergeLimits limits_;
  MergePlace place_;
  Bytes quantum_;
  bool per_part_;  // what gains with a round: every member of a run, else the run
  Duration wait_;
  // Holds that gained nothing take at most a twentieth of the time: after one, there is no other before this.
  TimePoint next_hold_{};
  static constexpr int kVainWait = 20;
  ServiceProfile profile_;
  // The rounds that a run of x bytes needs are first_rounds_ + x * rounds_per_byte_, rounded up.
  double first_rounds_ = 0, rounds_per_byte_ = 0;
  Pool<FileQueueKey, Queue> queues_;
  std::vector<RequestRun> runs_;
  std::vector<Number> free_runs_;
  TagIndex<StartOf> starts_;  // of runs in indexed queues, by their first byte
  TagIndex<EndOf> ends_;      // the same, by the byte after their last
  std::array<Habit, 1024> habits_{};
};

// The policy aioli, which mlf is with between=arrival (policies/aioli.cc).
std::unique_ptr<Policy> make_feedback_by_arrival(const OptionValues& options);

}  // namespace tutti

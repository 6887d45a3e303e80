// SPDX-License-Identifier: Apache-2.0
// Scheduler, engine, and back: the way of reads, writes and barriers once their file is known.
#pragma once

#include <tutti/sched.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "engine/engine.h"
#include "engine/root.h"
#include "node/job.h"
#include "node/usage.h"
#include "node/workers.h"

namespace tutti::node {

// Thread-safe. No thread of its own stands between arrival and engine: whoever brings a request or a completion also
// dispatches what may go, so that a request on an idle node is served where it was received.
class DataPath : private CompletionSink {
 public:
  struct Parts {
    Scheduler* scheduler;
    Engine* engine;
    Root* root;
    Workers* workers;
    std::shared_ptr<net::BufferPool> read_memory;
    Duration memory_patience = std::chrono::seconds(10);  // how long a dispatched read waits for memory
  };

  struct Counts {
    std::uint64_t batches = 0, batched_requests = 0;
    std::uint64_t refused = 0;  // expired, stopped, or no room
  };

  explicit DataPath(const Parts& parts);
  ~DataPath() override;  // everything must have been answered

  // Takes a transfer, a sync or a truncate whose file is open. It is answered in any case.
  void admit(std::unique_ptr<Job> job);

  // Their connection is gone: those that wait are taken back, those under way finish unheard.
  void abandon(JobList& jobs);

  // Call after the scheduler was told to stop or to switch: hands out what that made ready.
  void pump();
  // False: not everything was answered by then.
  bool wait_until_idle(std::chrono::steady_clock::time_point until);

  // The most recently active ones, as many as fit into a message body of that size.
  std::vector<wire::Usage> usage(std::size_t body) const;
  Counts counts() const;

 private:
  struct Flight;
  // Adjoining pieces on one descriptor.
  struct Run : Operation {
    Flight* flight = nullptr;
    std::vector<Piece*> pieces{};
  };
  // A batch on its way through the engine.
  struct Flight {
    Scheduler::Dispatched batch{};
    std::deque<Run> runs{};  // stay where they are
    std::size_t running = 0;
    TimePoint starving_since{};
  };
  // What a change under the lock leads to, carried out after it.
  struct Effects {
    std::vector<std::unique_ptr<Job>> answers{};
    std::vector<Job*> ready{};
    std::vector<Operation*> operations{};
    std::vector<std::unique_ptr<Flight>> landed{};
  };

  void completed(std::span<Operation* const> operations) override;
  void carry_out(Effects& effects);
  static void gather_joined(std::span<Operation* const> operations);

  void start(Job& job);
  void schedule(Job& job);
  void start_barrier(Job& job);
  void refuse(Job& job, std::int32_t status, const std::string& message);

  void dispatch();
  void launch(std::unique_ptr<Flight> flight, Effects& effects);
  bool find_memory(Flight& flight);
  void plan(Flight& flight, Effects& effects);
  void append(Flight& flight, Piece& piece);
  void settle_run(Run& run, TimePoint now, Effects& effects);
  void split(Run& run, std::size_t from, Effects& effects);
  void settle(Piece& piece, Effects& effects);
  void finish(Job& job, Effects& effects);
  void retry_starved();

  void wake_at(TimePoint when);
  void watch_time();

  const Parts parts_;

  mutable std::mutex mutex_;  // guards everything below and all jobs
  std::unordered_map<FileId, FileOrder> orders_;
  std::size_t unanswered_ = 0;
  std::unordered_map<Flight*, std::unique_ptr<Flight>> flights_;  // in the engine
  std::deque<std::unique_ptr<Flight>> starved_;                   // reads without memory, in order of dispatch
  UsageTable usage_;
  Counts counts_;
  std::condition_variable idle_;

  std::mutex timer_mutex_;  // guards the rest
  std::condition_variable timer_changed_;
  TimePoint wake_at_ = TimePoint::max();
  bool stopping_ = false;
  std::thread timer_;
};

}  // namespace tutti::node

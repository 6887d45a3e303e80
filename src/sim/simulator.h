// SPDX-License-Identifier: Apache-2.0
// The simulated world: virtual time, and processes.
//
//   Simulator simulator(seed);
//   Process client(simulator, "client"), node(simulator, "node");  // each is a World
//   ... start production code with them ...
//   while (simulator.run_next()) {}
//
// All events run on one thread, one after the other. Equal seeds give equal runs, bit for bit.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/units.h"
#include "base/world.h"
#include "sim/event_queue.h"

namespace tutti::sim {

using Nanoseconds = std::int64_t;  // since the start of the run

using tutti::seconds;
inline double seconds(Nanoseconds time) {
  return static_cast<double>(time) / 1e9;
}

class Process;

// The event queue. Events of equal time run in the order in which they were scheduled. Not thread-safe.
class Simulator {
 public:
  explicit Simulator(std::uint64_t seed) : chance_(seed) {}

  Nanoseconds now() const { return now_; }
  // Schedules a task; a time in the past means now. A task of a process waits while the process is paused, and is
  // dropped if the process was killed after scheduling.
  void at(Nanoseconds when, Task task, Process* process = nullptr);
  // Runs the earliest event. False: no events are left.
  bool run_next();

  Prng& chance() { return chance_; }
  std::uint64_t events() const { return events_; }
  // Hash of all events and of the values passed to mix(). Equal runs have equal hashes.
  std::uint64_t hash() const { return hash_; }
  void mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15 + 1; }

 private:
  friend class Process;
  struct ScheduledTask {
    Task task;
    Process* process = nullptr;
    std::uint64_t life = 0;  // Process::life_ when the event was scheduled
  };

  Nanoseconds now_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t hash_ = 0;
  EventQueue queue_;
  std::vector<ScheduledTask> slots_;
  std::vector<std::uint32_t> free_slots_;
  Prng chance_;
};

// A process on its own machine: its clock, timers and worker threads. It can be paused, killed and started again.
// Must outlive the production code that runs in it. Not thread-safe.
class Process final : public World {
 public:
  Process(Simulator& simulator, std::string name);
  ~Process() override;

  Clock& clock() override;
  std::unique_ptr<Timer> make_timer(Task task) override;
  std::uint64_t random() override { return simulator_.chance()(); }
  Workers& workers();

  Simulator& simulator() { return simulator_; }
  const std::string& name() const { return name_; }
  void at(Nanoseconds when, Task task) { simulator_.at(when, std::move(task), this); }
  void soon(Task task) { at(simulator_.now(), std::move(task)); }

  // Error of the wall clock from now on.
  void set_clock_error(Duration error) { clock_error_ = error; }
  // Both clocks run faster by this share from now on (200e-6: 200 ppm). The steady clock does not jump.
  void set_drift(double drift);

  // While paused, no task of this process runs.
  void pause() { paused_ = true; }
  void resume();
  bool paused() const { return paused_; }
  // Drops all scheduled tasks. Tasks scheduled later belong to the restarted process.
  void kill();

  // Workers start a task this long after it was posted.
  void delay_workers(Duration time) { worker_delay_ = time; }
  // Workers apply the changes of a task this long after they start it.
  void stall_workers(Duration time) { worker_stall_ = time; }
  // Start time of the running worker task. Its deadline checks use this time.
  TimePoint task_began() const { return task_began_; }

 private:
  friend class Simulator;
  class ProcessClock;
  class ProcessTimer;
  class ProcessWorkers;
  // Used by another timer after its timer is destroyed. Never freed, because events may still refer to it.
  struct TimerState {
    std::vector<TimerState*>* unused;  // of the process
    Task task{};
    std::uint64_t setting = 0;  // changes with set() and at the end
    bool running = false;
    bool over = false;
  };

  TimePoint steady_at(Nanoseconds time) const;
  Nanoseconds time_of(TimePoint steady) const;

  Simulator& simulator_;
  const std::string name_;
  const std::unique_ptr<ProcessClock> clock_;
  const std::unique_ptr<ProcessWorkers> workers_;
  std::deque<TimerState> timers_;
  std::vector<TimerState*> unused_timers_;
  std::uint64_t life_ = 0;
  bool paused_ = false;
  std::vector<std::uint32_t> held_;  // slots of events that were due while it was paused
  Duration clock_error_{};
  double rate_ = 1;             // of the steady clock
  Nanoseconds rate_since_ = 0;  // true time
  TimePoint steady_since_;      // steady clock at rate_since_
  Duration worker_delay_{};
  Duration worker_stall_{};
  TimePoint task_began_{};
};

}  // namespace tutti::sim

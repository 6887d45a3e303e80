// SPDX-License-Identifier: Apache-2.0
#include "sim/simulator.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <unordered_set>
#include <utility>

namespace tutti::sim {
namespace {

// Uptime of simulated machines at the start of a run. Not 0, because time 0 means "none" in much code.
constexpr TimePoint kSteadyStart{std::chrono::hours(1)};
// The wall clock at the start: a multiple of all usual widths of the `window` policy.
constexpr TimePoint kWallStart{std::chrono::hours(24 * 365 * 56)};

}  // namespace

void Simulator::at(Nanoseconds when, Task task, Process* process) {
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = {std::move(task), process, process ? process->life_ : 0};
  queue_.push(std::max(when, now_), EventKind::kStep, {slot});
}

bool Simulator::run_next() {
  if (queue_.empty()) return false;
  const Event event = queue_.pop();
  now_ = event.time;
  ScheduledTask& slot = slots_[event.a];
  Process* const process = slot.process;
  if (process && slot.life == process->life_ && process->paused_) {
    process->held_.push_back(event.a);
    return true;
  }
  Task task = std::move(slot.task);
  slot.task = nullptr;
  const bool dropped = process && slot.life != process->life_;
  free_slots_.push_back(event.a);
  if (dropped) return true;
  ++events_;
  mix(static_cast<std::uint64_t>(event.time));
  mix(event.sequence);
  task();
  return true;
}

// ---- a process ----

class Process::ProcessClock final : public Clock {
 public:
  explicit ProcessClock(Process& process) : process_(process) {}
  TimePoint now() const override { return kWallStart + (steady() - kSteadyStart) + process_.clock_error_; }
  TimePoint steady() const override { return process_.steady_at(process_.simulator_.now()); }
  void wait(std::condition_variable&, Lock&, TimePoint) override { assert(!"simulated code does not wait"); }

 private:
  Process& process_;
};

class Process::ProcessTimer final : public Timer {
 public:
  ProcessTimer(Process& process, TimerState& state) : process_(process), state_(state) {}
  ~ProcessTimer() override {
    ++state_.setting;
    state_.over = true;
    if (!state_.running) retire(state_);
  }

  void set(TimePoint when) override {
    const std::uint64_t setting = ++state_.setting;
    if (when == TimePoint::max()) return;
    // Small enough to need no allocation.
    process_.at(process_.time_of(when), [state = &state_, setting] {
      if (state->setting != setting) return;
      ++state->setting;
      state->running = true;
      state->task();
      state->running = false;
      if (state->over) retire(*state);  // the task destroyed its timer
    });
  }

 private:
  static void retire(TimerState& state) {
    state.task = nullptr;
    state.unused->push_back(&state);
  }

  Process& process_;
  TimerState& state_;
};

class Process::ProcessWorkers final : public Workers {
 public:
  explicit ProcessWorkers(Process& process) : process_(process) {}

  std::shared_ptr<Strand> make_strand(Owner /*owner*/) override { return std::make_shared<ProcessStrand>(); }
  void stop() override {}

  void post(const std::shared_ptr<Strand>& strand, Task task) override {
    auto own = std::static_pointer_cast<ProcessStrand>(strand);
    own->tasks.push_back(std::move(task));
    if (own->tasks.size() > 1) return;
    busy_.insert(own);
    begin(own);
  }

  // Tasks may own objects that own their strand, so tasks that never run are removed.
  void discard() {
    for (const auto& strand : std::exchange(busy_, {})) std::exchange(strand->tasks, {}).clear();
  }

 private:
  struct ProcessStrand final : Strand {
    std::deque<Task> tasks;  // the first one is running
  };

  // A task reads its start time as the current time, and makes its changes after the stall, if there is one.
  void begin(const std::shared_ptr<ProcessStrand>& strand) {
    process_.at(process_.simulator_.now() + process_.worker_delay_.count(), [this, strand] {
      const TimePoint began = process_.clock().steady();
      if (process_.worker_stall_ == Duration{}) return run(strand, began);
      process_.at(process_.simulator_.now() + process_.worker_stall_.count(),
                  [this, strand, began] { run(strand, began); });
    });
  }

  void run(const std::shared_ptr<ProcessStrand>& strand, TimePoint began) {
    process_.task_began_ = began;
    strand->tasks.front()();
    strand->tasks.pop_front();
    if (strand->tasks.empty())
      busy_.erase(strand);
    else
      begin(strand);
  }

  Process& process_;
  std::unordered_set<std::shared_ptr<ProcessStrand>> busy_;  // strands with tasks
};

Process::Process(Simulator& simulator, std::string name)
    : simulator_(simulator),
      name_(std::move(name)),
      clock_(std::make_unique<ProcessClock>(*this)),
      workers_(std::make_unique<ProcessWorkers>(*this)),
      rate_since_(simulator.now()),
      steady_since_(kSteadyStart + Duration(simulator.now())) {}

Process::~Process() = default;

Clock& Process::clock() {
  return *clock_;
}

Workers& Process::workers() {
  return *workers_;
}

std::unique_ptr<Timer> Process::make_timer(Task task) {
  if (unused_timers_.empty()) unused_timers_.push_back(&timers_.emplace_back(TimerState{.unused = &unused_timers_}));
  TimerState& state = *unused_timers_.back();
  unused_timers_.pop_back();
  state.task = std::move(task);
  state.over = false;
  return std::make_unique<ProcessTimer>(*this, state);
}

TimePoint Process::steady_at(Nanoseconds time) const {
  if (rate_ == 1) return steady_since_ + Duration(time - rate_since_);
  return steady_since_ + Duration(std::llround(static_cast<double>(time - rate_since_) * rate_));
}

Nanoseconds Process::time_of(TimePoint steady) const {
  const Nanoseconds left = (steady - steady_since_).count();
  if (rate_ == 1) return rate_since_ + left;
  // Rounded up, so that the clock then shows at least `steady`.
  return rate_since_ + static_cast<Nanoseconds>(std::ceil(static_cast<double>(left) / rate_)) + 1;
}

void Process::set_drift(double drift) {
  steady_since_ = steady_at(simulator_.now());
  rate_since_ = simulator_.now();
  rate_ = 1 + drift;
}

void Process::kill() {
  resume();  // held events are dropped, too
  ++life_;
  workers_->discard();
}

void Process::resume() {
  paused_ = false;
  for (const std::uint32_t slot : std::exchange(held_, {})) {
    Task task = std::move(simulator_.slots_[slot].task);
    simulator_.slots_[slot].task = nullptr;
    simulator_.free_slots_.push_back(slot);
    soon(std::move(task));
  }
}

}  // namespace tutti::sim

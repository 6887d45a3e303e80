// SPDX-License-Identifier: Apache-2.0
// The behaviour of the applications of a scenario: they compute, wait for their turn, issue operations, wait at
// barriers, and repeat. Used by the fast simulation, the full simulation and live runs, which are backends of it.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/pattern.h"
#include "sim/scenario.h"
#include "sim/simulation.h"
#include "sim/simulator.h"

namespace tutti::sim {

class Applications {
 public:
  // Carries out the operations. Applications are identified by their index in the scenario.
  class Backend {
   public:
    virtual ~Backend() = default;
    virtual Nanoseconds now() const = 0;
    // Must call step() with the same operands at that time.
    virtual void step_at(Nanoseconds when, std::uint32_t application, std::uint32_t operand) = 0;
    // The application wants to begin a phase of progress().operations operations per rank. Must call begin_phase() when
    // the phase may begin, possibly at once.
    virtual void ask_for_turn(std::uint32_t application) = 0;
    // The phase begins, or has ended.
    virtual void phase_begins(std::uint32_t application) = 0;
    virtual void phase_ends(std::uint32_t application) = 0;
    // Starts an operation. Must call completed() when it has ended.
    virtual void issue(std::uint32_t application, std::uint32_t rank, const OperationIndex& index) = 0;
    // All operations of the rank have ended. Must do an fsync, then call synced().
    virtual void sync(std::uint32_t application, std::uint32_t rank) = 0;
  };

  struct RankProgress {
    unsigned issued = 0;
    unsigned completed = 0;
  };
  struct Progress {
    const Application* spec = nullptr;
    unsigned iteration = 0;
    unsigned operations = 0;  // of each rank in the current phase
    bool in_phase = false;
    bool done = false;
    bool dead = false;
    unsigned round_left = 0;  // incomplete operations of the current round
    unsigned ranks_left = 0;  // ranks that have not finished this phase
    Nanoseconds ready = 0;    // for the current phase
    Nanoseconds phase_begin = 0;
    Nanoseconds compute_begin = 0;
    Bytes phase_bytes{};  // moved so far
    std::vector<RankProgress> ranks;
    std::vector<Bytes> demand;  // of the current phase, by server; filled by the backend
  };

  // All three must outlive this object.
  Applications(const Scenario& scenario, Backend& backend, Outcome& outcome);

  // Schedules the first step of every application.
  void start();
  void step(std::uint32_t application, std::uint32_t operand);
  void begin_phase(std::uint32_t application);
  // An operation of the rank has ended and moved this many bytes; empty: it has failed.
  void completed(std::uint32_t application, std::uint32_t rank, std::optional<Bytes> moved);
  void synced(std::uint32_t application, std::uint32_t rank);
  // The application stops and counts as finished.
  void kill(std::uint32_t application);
  // The run is over: operations that end from now on are ignored.
  void stop();

  Progress& progress(std::uint32_t application) { return progress_[application]; }
  const Progress& progress(std::uint32_t application) const { return progress_[application]; }
  std::size_t size() const { return progress_.size(); }
  std::size_t running() const { return running_; }

 private:
  void begin_iteration(std::uint32_t application);
  void ready(std::uint32_t application);
  void issue_round(std::uint32_t application);
  void spread_ranks(std::uint32_t application);
  void issue(std::uint32_t application, std::uint32_t rank);
  void end_phase(std::uint32_t application);
  void finish(std::uint32_t application);

  const Scenario& scenario_;
  Backend& backend_;
  Outcome& outcome_;
  std::vector<Progress> progress_;
  std::size_t running_ = 0;
};

}  // namespace tutti::sim

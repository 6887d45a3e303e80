// SPDX-License-Identifier: Apache-2.0
// The client processes of a live run, and their messages to and from the process that controls them. Internal.
#pragma once

#include <tutti/client.h>

#include <chrono>
#include <functional>
#include <map>

#include "sim/pattern.h"
#include "sim/placement.h"
#include "sim/scenario.h"

namespace tutti::lab {

using SteadyTime = std::chrono::steady_clock::time_point;

// Calls functions at given times, and waits until a file descriptor is readable. Not thread-safe.
class TimedCalls {
 public:
  // Calls for the same time are made in the order in which they were added.
  void at(SteadyTime when, std::function<void()> call) { calls_.emplace(when, std::move(call)); }
  // Makes the calls that are due. Returns true when `file` is readable, false at `deadline`.
  bool wait_for(int file, SteadyTime deadline);

 private:
  std::multimap<SteadyTime, std::function<void()>> calls_;
};

// Settings of a run; the same in all its processes.
struct LiveSetting {
  const sim::Scenario& scenario;
  double slow_motion = 1;
  Duration limit{};
  bool verify = false;
  Cluster cluster{};
  std::string directory{};            // of this run: sockets and served files
  std::vector<sim::Placed> placed{};  // by application

  Duration slow(Duration time) const {
    return Duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * slow_motion));
  }
  std::string gate_address() const { return directory + "/gate.sock"; }
  static std::string path(std::uint32_t application, unsigned iteration, std::uint32_t rank);
};

// What is at this place of every file, for runs that compare every byte.
void fill_content(std::uint64_t offset, std::span<std::byte> memory);
bool has_content(std::uint64_t offset, std::span<const std::byte> memory);

// The ranks of an application on one of its client nodes.
struct LiveProcess {
  std::uint32_t number = 0;
  std::uint32_t application = 0;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 1;
};

struct LiveCommand {
  enum class Kind : std::uint8_t {
    kTurn,   // get the application's turn for its next phase
    kBegin,  // a phase of index.operations operations per rank begins
    kIssue,  // start operation `index`
    kEnd,    // the phase has ended
  };
  Kind kind = Kind::kTurn;
  unsigned iteration = 0;
  sim::OperationIndex index{};
  SteadyTime issued{};  // start time for delays
};

struct LiveAnswer {
  enum class Kind : std::uint8_t { kReady, kTurn, kDone, kFailed };
  Kind kind = Kind::kReady;
  std::uint32_t process = 0;
  std::uint32_t rank = 0;  // kDone, with the times of the operation
  SteadyTime issued{};
  SteadyTime completed{};
  char error[200] = {};  // kFailed
};

// The main function of a client process: opens the files of its ranks, answers kReady, and executes commands until it
// is killed. `commands` and `answers` are file descriptors.
int run_live_client(const LiveSetting& setting, const LiveProcess& process, int commands, int answers);

}  // namespace tutti::lab

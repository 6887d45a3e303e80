// SPDX-License-Identifier: Apache-2.0
// The turns of this process's job at the gate, for phases that are found from the I/O itself.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/world.h"
#include "gate/live_coordinator.h"
#include "layout/layout.h"

namespace tutti::mpi {

// A phase begins with the first begin() and ends when no open file has used its turn for the file's gap, or when the
// last of them is closed. One process per file calls this: rank 0 of the file's communicator. A process has one turn
// for all its files. A file on targets that the turn does not cover makes the process return its turn and ask for one
// that covers the targets of all its files.
//
// Thread-safe. Turns are advisory: without a gate, or if it does not answer, begin() returns and the job proceeds.
class JobTurns {
 public:
  using OpenFileId = const void*;
  struct FileUse {
    OpenFileId file = nullptr;
    const Layout* layout = nullptr;  // only used in the call
    Bytes bytes{};                   // of all ranks; 0: unknown
    Duration gap{};                  // Duration::max(): until ended()
  };

  // The job number and name that the gate sees. `options` from the environment.
  JobTurns(World& world, gate::CoordinatorOptions options);
  ~JobTurns();

  // Returns when the file may be used. Call done() afterwards.
  void begin(const FileUse& use);
  // The call for which begin() was called has completed.
  void done(OpenFileId file);
  // The file was closed.
  void ended(OpenFileId file);

  // In a child made by fork(): the only call.
  void abandon_after_fork();

 private:
  struct ActiveFile {
    gate::TargetList targets{};
    Duration gap{};
    TimePoint last{};        // of done()
    std::uint32_t uses = 0;  // begin() without done()
  };

  void ask(const gate::TargetList& targets, Bytes bytes);
  void expire();
  void finish() TUTTI_REQUIRES(mutex_);
  gate::TargetList wanted() const TUTTI_REQUIRES(mutex_);

  World& world_;
  std::unique_ptr<gate::Coordinator> coordinator_;
  Mutex asking_;  // held while a thread waits for a turn; taken before mutex_
  Mutex mutex_;
  std::map<OpenFileId, ActiveFile> files_ TUTTI_GUARDED_BY(mutex_);
  gate::TargetList held_ TUTTI_GUARDED_BY(mutex_){};
  bool holding_ TUTTI_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Timer> timer_;
};

// The options of the gate's client for this job, or nothing if neither a gate nor a directory to probe is configured: a
// gate is configured if TUTTI_GATE is set, or if a socket exists at its default address. kInvalid names the variable.
Result<std::optional<gate::CoordinatorOptions>> turn_options(std::uint64_t number, const std::string& job);

// The targets of a layout as the gate numbers them; all of them if the layout is not known.
gate::TargetList targets_of(const Layout& layout);

}  // namespace tutti::mpi

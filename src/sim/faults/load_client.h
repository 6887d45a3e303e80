// SPDX-License-Identifier: Apache-2.0
// One client machine of a fault run: a production client with threads that read, write and change names, each one
// operation at a time. It records what it learns, and can be killed and started again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "gate/turns.h"
#include "sim/faults/fault_plan.h"
#include "sim/faults/history.h"
#include "sim/faults/name_model.h"
#include "sim/simulated_cluster.h"

namespace tutti::sim {

// What the clients of a run share.
struct FaultRunState {
  FaultRunState(const FaultPlan& made, std::function<void(const std::string&)> line);

  void violation(std::string what);
  void say(const std::string& line);
  Nanoseconds now() { return cluster.simulator().now(); }
  // An operation that ends now with an unknown outcome takes effect at this time or earlier.
  Nanoseconds latest_effect();

  const FaultPlan& plan;
  const std::function<void(const std::string&)> trace;
  SimulatedCluster cluster;
  SimulatedGate gate;
  History history;
  NameModel names;
  Prng chance;
  std::uint64_t last_handle = 0;
  std::uint64_t next_block = 0;  // after the last read or write of any client
  std::array<std::uint64_t, kLoadKinds> operations{};
  std::uint64_t failed = 0;  // operations
  std::vector<std::string> violations;
  // The faults of a node's disk at the moment.
  struct DiskState {
    int errors = 0, no_space = 0, failed_syncs = 0, slow_syncs = 0;  // faults in effect
    Duration sync_time{};
  };
  std::vector<DiskState> disks;

 private:
  SimulatedCluster::Options cluster_options();
  std::optional<DiskFault> disk_fault(std::size_t node, const Operation& operation);
};

// Not thread-safe.
class LoadClient {
 public:
  LoadClient(FaultRunState& state, std::size_t index);
  ~LoadClient();

  void start();
  // Operations in progress end with an unknown outcome. `silent`: peers are not notified.
  void kill(bool silent);
  void pause();
  void resume();
  bool running() const { return client_->running(); }
  Process& process() { return client_->process(); }

  // Threads that pause begin an operation now.
  void hurry();
  // No new operations from now on.
  void stop_load() { stopped_ = true; }
  bool idle() const { return pending_.empty(); }
  bool in_phase() const { return in_phase_; }
  // How long this client certainly keeps its turn.
  Duration lease_left() const { return in_phase_ && turns_ ? turns_->lease_left() : Duration{}; }
  // Reports operations that did not end in time.
  void check_bounds();

  // After stop_load(): each starts one operation. succeeded() says how the last one ended.
  void check_open(std::size_t file);
  void check_write(std::size_t file);
  void check_sync(std::size_t file);
  void check_read(std::size_t file);
  void check_turn();
  void end_turn();
  void check_name(std::size_t name);
  void close_files();
  bool succeeded() const { return succeeded_; }
  const std::string& last_error() const { return last_error_; }

 private:
  struct FileHandle {
    std::shared_ptr<OpenFile> file;
    std::uint64_t number = 0;
  };
  struct LoadThread {
    std::vector<std::size_t> names;   // that it owns
    std::optional<FileHandle> extra;  // one of the named files
    bool thinking = false;            // between two operations
    std::uint64_t pauses = 0;
  };
  // One operation in progress.
  struct LoadOperation {
    std::uint64_t number = 0;
    LoadKind kind{};
    std::size_t thread = 0;
    Nanoseconds begin = 0;
    Nanoseconds bound = 0;            // must end by then
    std::function<void()> unknown{};  // records that the outcome is not known
    std::vector<std::byte> memory{};
    std::vector<std::uint64_t> blocks{};
    std::string note{};  // for the trace
  };
  using OperationPointer = std::shared_ptr<LoadOperation>;

  std::size_t machine() const { return state_.plan.nodes + index_; }
  Nanoseconds now() const { return state_.now(); }
  AsyncClient& async() { return client_->async(); }
  OperationPointer begin(LoadKind kind, std::size_t thread);
  void end(const OperationPointer& operation, const Error* error);
  void note(LoadOperation& operation, const FileHandle& handle, const std::vector<std::uint64_t>& blocks,
            std::uint64_t value = 0) const;
  // Wraps what to do with a result: not called if the client was killed.
  template <typename T>
  Done<T> when_done(const OperationPointer& operation, std::function<void(Result<T>&)> then) {
    return [this, life = life_, operation, then = std::move(then)](Result<T> result) {
      if (life != life_) return;
      then(result);
      end(operation, result ? nullptr : &result.error());
    };
  }

  void think(std::size_t thread);
  void step(std::size_t thread);
  void step_data(std::size_t thread, LoadKind kind);
  void step_names(std::size_t thread, LoadKind kind);
  LoadKind choose();
  std::optional<FileHandle> choose_handle(std::size_t thread);
  std::vector<std::uint64_t> choose_blocks(bool list);

  void open_shared(std::size_t thread, std::size_t file);
  void open_extra(std::size_t thread);
  void write(std::size_t thread, const FileHandle& handle, const std::vector<std::uint64_t>& blocks, LoadKind kind);
  void read(std::size_t thread, const FileHandle& handle, std::vector<std::uint64_t> blocks, LoadKind kind);
  void sync(std::size_t thread, const FileHandle& handle);
  void truncate(std::size_t thread, const FileHandle& handle);
  void create(std::size_t thread, std::size_t name);
  void recreate(std::size_t thread, std::size_t name);
  void rename(std::size_t thread, std::size_t from, std::size_t to);
  void unlink(std::size_t thread, std::size_t name);
  void look_up(std::size_t thread, std::size_t name, bool own);
  void switch_policy(std::size_t thread);
  void think_about_turn();
  void take_turn();
  void drop_stale(std::size_t thread, const Error& error);

  FaultRunState& state_;
  const std::size_t index_;
  SimulatedClient* client_ = nullptr;  // owned by the cluster
  gate::GateTurns* turns_ = nullptr;
  std::uint64_t life_ = 0;
  Nanoseconds paused_since_ = 0;
  std::vector<LoadThread> threads_;
  std::vector<std::optional<FileHandle>> shared_;  // by file
  std::map<std::uint64_t, OperationPointer> pending_;
  std::uint64_t last_operation_ = 0;
  bool in_phase_ = false;
  bool stopped_ = false;
  bool checking_ = false;  // check_turn() was called
  bool succeeded_ = false;
  std::string last_error_;
};

}  // namespace tutti::sim

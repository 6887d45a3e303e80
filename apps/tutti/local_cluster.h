// SPDX-License-Identifier: Apache-2.0
// The nodes of a cluster that run on this machine: starts and stops their processes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "cluster.h"
#include "node/pid_file.h"

namespace tutti::cli {

// The files of a local cluster: DIR/cluster.toml, DIR/run/NAME.{sock,pid,log}, and by default the served DIR/files.
struct LocalCluster {
  explicit LocalCluster(const std::string& cluster_file);

  std::string description;  // absolute path of cluster.toml
  std::string directory;    // that holds it

  std::string run() const { return directory + "/run"; }
  std::string pid_file(const std::string& node) const { return run() + "/" + node + ".pid"; }
  std::string log_file(const std::string& node) const { return run() + "/" + node + ".log"; }

  // While it exists, no other `tutti up`, `down` or `restart` changes this cluster. kDuplicate: one does now.
  Result<std::unique_ptr<PidFile>> lock() const;
};

// True if the endpoint is a Unix socket or an address of this machine.
bool is_local(const std::string& endpoint);

// Nodes that were started with it end if this process ends, also by kill -9, before release() was called.
class StartPipe {
 public:
  static Result<StartPipe> create();
  void release(std::size_t nodes);
  int reading_end() const { return reading_.get(); }

 private:
  StartPipe() = default;
  Descriptor reading_, writing_;
};

// Starts `tutti node` in its own session. Its output is appended to the log file.
Result<pid_t> start_node(const LocalCluster& local, const std::string& name, const StartPipe& pipe);
// The last line of a node's log that is not empty.
std::string last_line(const std::string& path);

// Stops one node: by a signal if its pid file is locked by a process that runs here, else by a request to its endpoint.
// Not thread-safe.
class NodeStop {
 public:
  enum class State {
    kNotRunning,  // was not running
    kStopping,    // has been asked to stop
    kStopped,     // has ended
    kKilled,      // did not end in time, was killed and has ended
    kRemains,     // may still run: why()
  };

  NodeStop(const LocalCluster& local, const Cluster& cluster, const NodeAddress& node);
  // Asks the node to serve or (at_once) to drop its waiting requests and to end.
  void begin(bool at_once);
  // Waits for the end. After `patience` a process that got a signal is killed.
  void wait(std::chrono::steady_clock::time_point until, Duration patience);

  const std::string& name() const { return node_.name; }
  State state() const { return state_; }
  const std::string& why() const { return why_; }
  bool was_running() const { return state_ != State::kNotRunning; }

 private:
  void fail_because(std::string why);
  void signal(int number);
  bool has_ended();
  bool ends_before(std::chrono::steady_clock::time_point until);

  const Cluster& cluster_;
  const NodeAddress node_;
  const std::string pid_file_;
  PidFile::Holder holder_;
  std::unique_ptr<Control> control_;  // if holder_ has no process
  State state_ = State::kNotRunning;
  std::string why_;
};

// Stops these nodes in parallel. Prints nothing.
std::vector<NodeStop> stop_nodes(const LocalCluster& local, const Cluster& cluster,
                                 const std::vector<NodeAddress>& nodes, bool at_once, Duration patience);

}  // namespace tutti::cli

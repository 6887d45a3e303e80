// SPDX-License-Identifier: Apache-2.0
// One storage daemon: receives requests through sockets, orders them by a policy, carries them out with an engine.
//
//   auto node = Node::start({.directory = "/scratch", .listen = {"unix:/run/tutti/node0.sock"}});
//   ...
//   (*node)->stop(Scheduler::Stop::kDrain);
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "wire/messages.h"

namespace tutti {

// Default queue depth (batches in flight at the engine) for a class of devices; 0: unknown class. It is just large
// enough to keep the device busy, because the policy cannot reorder requests that are in flight.
std::size_t default_depth(const std::string& device_class);
std::vector<std::string> device_classes();  // "hdd", "ssd", "nvme", "null"

struct NodeOptions {
  std::string name = "node0";
  std::string directory{};            // served to clients
  std::vector<std::string> listen{};  // "unix:PATH", "tcp:HOST:PORT", "local:NAME"
  // All nodes of the cluster, this one included, in the same order on every node: they share the limits of the policy.
  // Empty: limits are those of this node.
  struct ClusterNode {
    std::string name;
    std::string endpoint;
  };
  std::vector<ClusterNode> cluster{};
  std::optional<std::uint32_t> node_user{};  // as in net::ConnectOptions, for connections to the others

  std::string engine = "posix";            // or "null"
  bool direct = false;                     // O_DIRECT: bypass the page cache
  std::optional<ModelledOptions> model{};  // delays completions as this device would

  std::string policy = "concert";
  PolicyOptions policy_options{};
  std::size_t depth = 0;  // batches in flight at the engine; 0: default_depth(device_class)
  std::string device_class = "ssd";

  Bytes write_buffers{64 << 20};  // memory for payloads that were received and are not written yet
  Bytes read_buffers{64 << 20};   // memory for payloads that were read and are not sent yet
  Duration memory_patience = std::chrono::seconds(10);  // a read waits this long for memory, then the client repeats it
  std::size_t max_waiting = 65536;
  // Of all clients, open at the same time: idle ones are closed and opened again when they are used (open_files.h).
  // Fewer if the limit on descriptors of the process is too low for them.
  std::size_t max_open_files = 32768;
  std::size_t max_connections = 4096;
  wire::Limits limits{};  // per connection

  std::string trace_directory{};  // files that record every request (src/trace); empty: none
  Bytes trace_limit{256 << 20};   // of these files; the oldest are removed
  std::string predict{};          // traces of earlier runs for policies with the option `prediction`; empty: none

  std::string key_file{};  // for TCP; empty: none
  bool munge = false;
  // "cgroup": the job numbers of clients on this machine are compared with their cgroups, where these name a job.
  // "slurm": other clients that the node has authenticated are asked about at the batch system, too (net/job_check.h).
  std::string job_check = "cgroup";
  std::string job_command{};  // that asks the batch system; empty: net::kSlurmCommand
  Duration fence_time{};      // of the process's watchdog, for clients; zero: not known
  bool exclusive = false;  // only one process at a time serves this node (PidFile), until all its operations have ended
  std::size_t transport_threads = 2;  // receive, dispatch, and reply
  std::size_t worker_threads = 2;     // run file system calls that may block

  // For tests: wraps the engine.
  std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)> wrap_engine{};
};

// Thread-safe.
class Node {
 public:
  // kInvalid: the message names the wrong option; kIo: it names the directory or endpoint.
  static Result<std::unique_ptr<Node>> start(NodeOptions options);
  // Stops the node and drops waiting requests, unless stop() was called.
  virtual ~Node() = default;

  // Where it listens; port 0 is replaced by the port that was chosen.
  virtual std::vector<std::string> endpoints() const = 0;

  // Refuses new requests, serves (kDrain) or drops (kDrop) the waiting ones, and closes the connections. Returns false
  // if not everything was answered within `patience`; the rest is dropped then.
  virtual bool stop(Scheduler::Stop how, Duration patience = std::chrono::seconds(30)) = 0;

  // Blocks until a client that may do so asks the node to stop, or interrupt() is called. Returns how to stop.
  virtual Scheduler::Stop wait_for_stop() = 0;
  virtual void interrupt(Scheduler::Stop how) = 0;

  virtual Result<void> set_policy(const std::string& name, const PolicyOptions& options) = 0;
  // Usage rows with usage_key() >= `first`. If the reply's `more` is set, there are further rows.
  virtual wire::StatisticsReply statistics(const wire::UsageKey& first = {}) const = 0;
  virtual wire::HealthReply health() const = 0;
};

}  // namespace tutti

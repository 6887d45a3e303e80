// SPDX-License-Identifier: Apache-2.0
// One daemon: a queue with a policy in front of an engine, reached through sockets.
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

// What is known of the device below decides how much a node keeps in flight: enough to keep the device busy, and no
// more, because what is in flight is out of the policy's hands.
std::size_t default_depth(const std::string& device_class);
std::vector<std::string> device_classes();  // "hdd", "ssd", "nvme", "null"

struct NodeOptions {
  std::string name = "node0";
  std::string directory{};            // that is served
  std::vector<std::string> listen{};  // "unix:PATH", "tcp:HOST:PORT", "local:NAME"
  std::vector<TargetId> targets{0};   // that this node owns

  std::string engine = "posix";            // or "null"
  bool direct = false;                     // around the page cache
  std::optional<ModelledOptions> model{};  // takes the time of this device, over the engine

  std::string policy = "concert";
  PolicyOptions policy_options{};
  std::size_t depth = 0;  // batches in flight at the engine; 0: default_depth(device_class)
  std::string device_class = "ssd";

  Bytes write_buffers{64 << 20};  // payloads that have arrived and are not written yet
  Bytes read_buffers{64 << 20};   // payloads that were read and are not sent yet
  std::size_t max_waiting = 65536;
  std::size_t max_open_files = 4096;
  std::size_t max_connections = 4096;
  wire::Limits limits{};  // per connection

  std::string key_file{};  // for TCP
  bool munge = false;
  std::size_t transport_threads = 2;  // receive, serve what needs no waiting, and reply
  std::size_t worker_threads = 2;

  // For tests: wraps the engine.
  std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)> wrap_engine{};
};

// Thread-safe.
class Node {
 public:
  // kInvalid names the option at fault; kIo the directory or endpoint.
  static Result<std::unique_ptr<Node>> start(NodeOptions options);
  // Stops, dropping what waits, unless stop() was called.
  virtual ~Node() = default;

  // Where it listens, with ports that were free.
  virtual std::vector<std::string> endpoints() const = 0;

  // Refuses new requests, finishes (or drops) what waits, and returns when all is answered or `patience` is over;
  // false then. Connections are closed afterwards.
  virtual bool stop(Scheduler::Stop how, Duration patience = std::chrono::seconds(30)) = 0;

  // Waits until somebody entitled to it asks for the node to stop through a connection, or interrupt() is called.
  // Returns how.
  virtual Scheduler::Stop wait_for_stop() = 0;
  virtual void interrupt(Scheduler::Stop how) = 0;

  virtual Result<void> set_policy(const std::string& name, const PolicyOptions& options) = 0;
  virtual wire::StatisticsReply statistics() const = 0;
  virtual wire::HealthReply health() const = 0;
};

}  // namespace tutti

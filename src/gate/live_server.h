// SPDX-License-Identifier: Apache-2.0
// The gate's daemon: the service (gate/service.h) on live sockets, with its state file (gate/live_run_marker.h).
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gate/live_run_marker.h"
#include "gate/service.h"
#include "net/socket.h"

namespace tutti::gate {

class GateServer {
 public:
  struct Options {
    LockTable::Options table{};
    std::vector<std::string> addresses{};  // for parse_address(); at least one
    // See gate/live_run_marker.h; empty: no state file. Without a state file that says how the previous gate ended, a
    // gate with a TCP address recovers for one lease: clients on other hosts may hold turns of the previous gate.
    std::string state_path{};
    std::optional<net::ClusterKey> key{};  // TCP needs a key or MUNGE
    bool munge = false;
    std::shared_ptr<net::JobCheck> jobs{};          // checks the job numbers of clients; nullptr: they are not checked
    std::size_t max_connections = 20'000;           // per address
    std::size_t max_connections_per_user = 4096;    // except root and the gate's own user
    std::function<void(const std::string&)> log{};  // one line each; called on a thread of the transport
  };

  // Starts serving on all addresses.
  static Result<std::unique_ptr<GateServer>> create(Options options);
  ~GateServer();

  // Returns after stop(), when all connections are closed. Call once.
  Result<void> run();
  // Callable from any thread and from a signal handler.
  void stop();

  // The port of the first TCP address; 0: no TCP address.
  std::uint16_t port() const;
  bool recovering() const { return service_->recovering(); }

 private:
  GateServer() = default;

  net::Socket wakeup_;
  std::optional<RunMarker> marker_;
  std::unique_ptr<GateService> service_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

}  // namespace tutti::gate

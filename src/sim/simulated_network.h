// SPDX-License-Identifier: Apache-2.0
// The simulated network: production messages between simulated processes.
//
// A connection delivers whole frames in order. Each direction has a window: the maximum number of bytes that were sent
// and not yet received. A paused receiver, or one without memory for a payload, does not receive, so the sender's queue
// grows. Nodes admit requests by the same rules as on real sockets (net/admission.h).
//
// Not simulated: the cryptography of the handshake, sending by reference, shares of users in the memory of a node, and
// await_reply(), which returns at once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/transport.h"
#include "sim/network.h"
#include "sim/simulator.h"

namespace tutti::sim {

class SimulatedConnection;
struct SimulatedListener;

class SimulatedNetwork {
 public:
  struct Options {
    Network figures{};
    NetworkModel::Size size{};
    // Copy file data from sender to receiver. Else only sizes are sent.
    bool content = false;
    std::uint64_t window = 8 << 20;  // bytes per direction of a connection
    // Identity of peers, because there is no handshake.
    wire::Identity identity{.uid = 0, .gid = 0};
  };

  SimulatedNetwork(Simulator& simulator, const Options& options);
  ~SimulatedNetwork();

  Simulator& simulator() { return simulator_; }
  // For messages that are sent from now on.
  void set_figures(const Network& figures) { model_.set_figures(figures); }

  // The link of the network model that a process uses.
  struct NetworkPort {
    bool station = false;  // else a client
    std::size_t number = 0;
    // If set, the process uses no link of the model, and its messages take this long.
    std::optional<Duration> apart{};
  };
  // A transport for code in `process`. Network and process must outlive the transport.
  std::unique_ptr<net::Transport> make_transport(Process& process, NetworkPort port);

  // Loses all messages from `from` to `to`; new connections between the two fail. heal() ends this. A connection that
  // has lost a message loses all later ones, too.
  void cut(const Process& from, const Process& to) { cuts_[{&from, &to}].lost = true; }
  // Messages from `from` to `to` arrive after heal(), in order, as with TCP. New connections between the two fail.
  void hold(const Process& from, const Process& to) { cuts_[{&from, &to}]; }
  void heal(const Process& from, const Process& to);
  // Each sent message is lost with this probability and ends its connection. Both ends are notified.
  void lose_connections(double probability) { loss_ = probability; }
  // Ends all connections of the process without notifying the other ends (half-open connections). Messages of the other
  // ends are lost until their timeouts make them reconnect.
  void forget_connections(const Process& process);
  // Ends all connections of a process that was killed. Its handlers are not called; the other ends are notified.
  void kill_connections(const Process& process);
  // A slow peer: the rate at which it receives from each connection (0: no limit), and its receive buffer in bytes.
  struct Receiver {
    double bytes_per_second = 0;
    std::uint64_t window = ~std::uint64_t{0};
  };
  void set_receiver(const Process& process, const Receiver& receiver) { receivers_[&process] = receiver; }
  // What all connections have now. Half open: the other end is gone, or does not receive what this end
  // sends, and this end has not been notified.
  struct Census {
    std::size_t established = 0;          // connections
    std::size_t half_open = 0;            // ends
    std::uint64_t half_open_buffers = 0;  // bytes of buffers that their queues keep until they are notified
    std::size_t queued = 0;               // frames of established connections that are not sent
    std::uint64_t in_transit = 0;         // bytes of established connections that are sent and not received
    std::int64_t request_memory = 0;      // of all listeners
  };
  Census census() const;
  // Additional delay, called for each message. Empty: none.
  std::function<Nanoseconds(const Process& from, const Process& to)> extra_delay{};

 private:
  friend class SimulatedConnection;
  friend class SimulatedTransport;
  std::vector<std::shared_ptr<SimulatedConnection>> connections_of(const Process& process) const;

  struct Attachment {
    Process* process = nullptr;
    NetworkPort port;
  };
  struct Cut {
    bool lost = false;         // else messages are held
    std::vector<Task> held{};  // sends a message each
  };
  Cut* find_cut(const Process& from, const Process& to) {
    const auto found = cuts_.find({&from, &to});
    return found == cuts_.end() ? nullptr : &found->second;
  }
  const Receiver* receiver(const Process& process) const {
    const auto found = receivers_.find(&process);
    return found == receivers_.end() ? nullptr : &found->second;
  }
  // When `bytes` that are sent now arrive.
  Nanoseconds arrival(const Attachment& from, const Attachment& to, std::uint64_t bytes);

  Simulator& simulator_;
  const Options options_;
  NetworkModel model_;
  std::map<std::string, std::shared_ptr<SimulatedListener>> listeners_;  // by endpoint
  std::map<std::uint64_t, std::shared_ptr<SimulatedConnection>> open_;   // both ends of every open connection
  std::uint64_t last_number_ = 0;
  std::map<std::pair<const Process*, const Process*>, Cut> cuts_;
  double loss_ = 0;
  std::map<const Process*, Receiver> receivers_;  // of slow peers
  struct FramePool;
  const std::unique_ptr<FramePool> frame_pool_;  // frames in transit
};

}  // namespace tutti::sim

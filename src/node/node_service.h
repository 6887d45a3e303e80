// SPDX-License-Identifier: Apache-2.0
// The node's code without threads, sockets and disks: it gets them as interfaces. The live node (live_node.cc) and the
// simulator both run it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>

#include "base/log_limit.h"
#include "base/mutex.h"
#include "base/world.h"
#include "engine/engine.h"
#include "engine/file_system.h"
#include "net/transport.h"
#include "node/data_path.h"
#include "node/limit_exchange.h"
#include "node/names_at_work.h"
#include "node/node.h"
#include "node/policy_clock.h"
#include "node/session.h"

namespace tutti {

// Handles the messages of all connections of a node's listeners. Thread-safe.
class NodeService final : public net::Handler, public node::Session::RequestSink {
 public:
  // All of them outlive the service.
  struct Dependencies {
    World* world;
    Workers* workers;
    FileSystem* files;
    Engine* engine;
    std::shared_ptr<net::JobCheck> jobs{};                 // nullptr: every job number is believed
    std::uint32_t process = 0;                             // process id, shown by health()
    SchedulerObserver* observer = nullptr;                 // of the scheduler; nullptr: none
    std::shared_ptr<const PredictedQueues> predictions{};  // nullptr: none
    // Called without locks when idle() becomes true, and when stop_asked() changes.
    Task changed{};
  };

  // kInvalid: the message names the wrong option.
  static Result<std::unique_ptr<NodeService>> create(const NodeOptions& options, const Dependencies& dependencies);
  ~NodeService() override { data_->stop_timer(); }  // whose task reports progress
  NodeService(const NodeService&) = delete;
  NodeService& operator=(const NodeService&) = delete;

  // Options for the node's listeners. All of them receive payloads into the node's write buffers.
  net::ListenOptions listen_options(const std::optional<net::ClusterKey>& key) const;

  // Shares the limits of the policy with the other nodes of NodeOptions::cluster, if there are any. Call it before the
  // node listens. leave_cluster() must be called before the transport is destroyed.
  Result<void> join_cluster(net::Transport& transport, net::ConnectOptions connect);
  void leave_cluster();

  // Refuses new requests. Waiting requests are served (kDrain) or fail (kDrop).
  void stop(Scheduler::Stop how);
  // As DataPath::discard().
  void discard() { data_->discard(); }
  // True if every request has been answered, and the engine carries out nothing.
  bool idle() const { return data_->idle() && open_files_.idle(); }
  // Set once a client that may do so has asked the node to stop.
  std::optional<Scheduler::Stop> stop_asked() const;
  void ask_to_stop(Scheduler::Stop how);

  Result<void> set_policy(const std::string& name, const PolicyOptions& options);
  // Rows with usage_key() >= `first`. If the reply's `more` is set, there are further rows.
  wire::StatisticsReply statistics(const wire::UsageKey& first = {}) const;
  wire::HealthReply health() const;
  // How this node shares the limits of its policy with the others.
  wire::LimitsReply limits() const;

  void connected(const net::ConnectionPointer& connection) override;
  Result<net::Buffer> payload_memory(const net::ConnectionPointer& from, const wire::Header& header) override;
  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

 private:
  using SessionPointer = std::shared_ptr<node::Session>;

  NodeService(const NodeOptions& options, const Dependencies& dependencies, std::unique_ptr<node::PolicyClock> clock,
              std::shared_ptr<ClusterLimits> limits, std::unique_ptr<Scheduler> scheduler);

  void receive_data(const net::ConnectionPointer& from, const SessionPointer& session, net::Incoming message);
  void receive_one_way(const net::ConnectionPointer& from, node::Session& session, net::Incoming message);
  void uses_credit(node::Session& session, const node::ClientRequest& write);
  void announce(const node::Credits::Changes& changes) TUTTI_REQUIRES(credit_mutex_);
  void receive_namespace(const net::ConnectionPointer& from, const SessionPointer& session, net::Incoming message);
  void receive_control(const net::ConnectionPointer& from, const SessionPointer& session, const net::Incoming& message);
  std::vector<std::byte> answer_control(const node::Session& session, const net::Incoming& message,
                                        std::optional<Scheduler::Stop>& stop);
  void resolved(std::unique_ptr<node::ClientRequest> request, node::Session& session) override;
  void refused(std::unique_ptr<node::ClientRequest> request, node::Session& session) override;
  void opened(FileId file, const std::string& path) override;
  bool report(const node::DataPath::Progress& progress);
  void answer_stat(const node::ClientRequest& request, const node::Session& session);
  bool may_control(const node::Session& session) const;
  std::vector<std::byte> answer_limits(const net::Incoming& message);
  void name_job(node::Session& session, const net::Peer& peer, ApplicationId application);
  Duration uptime() const { return dependencies_.world->clock().steady() - started_; }

  const NodeOptions options_;
  const Dependencies dependencies_;
  const TimePoint started_;
  const std::string engine_name_;
  const std::unique_ptr<node::PolicyClock> clock_;
  const std::shared_ptr<ClusterLimits> limits_;
  const std::unique_ptr<Scheduler> scheduler_;
  const std::shared_ptr<net::BufferPool> write_memory_, pulled_memory_, read_memory_;
  const std::unique_ptr<node::DataPath> data_;
  node::OpenFiles open_files_;
  node::NamesAtWork names_;
  std::unique_ptr<node::LimitExchange> exchange_;  // nullptr: no other nodes. Set before the node listens

  mutable LogLimit refusals_;  // of refused logins
  Mutex credit_mutex_;         // also held while credits are sent, so that they arrive in order
  node::Credits credits_ TUTTI_GUARDED_BY(credit_mutex_);

  mutable Mutex mutex_;  // guards what follows
  std::string policy_ TUTTI_GUARDED_BY(mutex_);
  PolicyOptions policy_options_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> sessions_{0};
  std::optional<Scheduler::Stop> stop_asked_ TUTTI_GUARDED_BY(mutex_);
  std::vector<net::ConnectionPointer> connections_ TUTTI_GUARDED_BY(mutex_);  // in order of arrival
};

}  // namespace tutti

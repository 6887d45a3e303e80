// SPDX-License-Identifier: Apache-2.0
// The nodes of a cluster share the limits of their policy (docs/design/cluster-limits.md).
//
// Every node has one share of every limit: the limit divided by the number of nodes. It gives its share to the first
// node of the cluster file that it can reach, which distributes the shares that it has (LimitDistributor) to the nodes
// that ask for them. A node that reaches no earlier node distributes its own share and those that it is given. A share
// is given for one lease, which each message renews, and never counts at two nodes: so in any partition all nodes
// together grant at most the limit.
//
// A node asks when a request waits for a grant, and at most every kAskInterval while it gets less than it wants.
// Without need it renews its share every kRenewInterval. Nothing is sent while the policy has no limits.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log_limit.h"
#include "base/mutex.h"
#include "base/world.h"
#include "net/transport.h"
#include "node/limit_distributor.h"
#include "wire/messages.h"

namespace tutti::node {

// Thread-safe. Never blocks.
class LimitExchange final : private net::Handler {
 public:
  static constexpr Duration kAskInterval = std::chrono::milliseconds(10);
  static constexpr Duration kRenewInterval = std::chrono::milliseconds(100);
  // A node that has not answered for this time is not asked again before kRetryInterval.
  static constexpr Duration kAnswerTimeout = std::chrono::milliseconds(300);
  static constexpr Duration kRetryInterval = std::chrono::seconds(1);
  static constexpr Duration kLease = std::chrono::milliseconds(500);
  // The share of a node whose machine refuses connections, because its process has ended, counts at the node that
  // distributes for this time from the attempt. The process that has ended may have given its share for kLease. So a
  // node that has just started neither uses nor gives its share for longer than both.
  static constexpr Duration kAbsentFor = std::chrono::milliseconds(1500);
  static constexpr Duration kQuietStart = std::chrono::seconds(2);

  struct Options {
    struct ClusterNode {
      std::string name;
      net::Endpoint endpoint;
    };
    std::vector<ClusterNode> nodes{};  // of the cluster, in the same order on every node
    std::size_t own = 0;               // index of this node
    net::ConnectOptions connect{};     // to the others
  };
  // All of them outlive this object.
  struct Dependencies {
    World* world;
    net::Transport* transport;
    ClusterLimits* limits;
    Task granted;  // called without locks after grants have arrived
  };

  LimitExchange(Options options, const Dependencies& dependencies);
  // Call it before the transport is destroyed; this object is destroyed after that.
  void stop();

  // A message of another node, which the caller has authenticated. kInvalid: the node is not one of the cluster.
  Result<wire::LimitShareReply> answer(const wire::LimitShareRequest& request);
  wire::LimitsReply status() const;

 private:
  // Another node.
  struct OtherNode {
    net::ConnectionPointer connection{};  // to it
    bool connecting = false;
    TimePoint retry_at{};
    // The message that it has not answered; 0: none.
    std::uint64_t tag = 0;
    TimePoint asked{};
    std::vector<LimitDemand> asked_for{};
    // The last answer on this connection: by this node's clock when it arrived, by the other's when it was sent. Zero:
    // none yet.
    TimePoint answered{}, now_there{};
    // Until when its share counts here: it was given, or the node is absent.
    TimePoint given_until{}, absent_until{};
  };
  struct Message {
    net::ConnectionPointer to;
    std::vector<std::byte> frame;
  };
  // What to do after the lock was released.
  struct Actions {
    std::vector<std::size_t> connect{};
    std::vector<Message> send{};
    std::vector<net::ConnectionPointer> close{};
    bool granted = false;
    TimePoint wake_at = TimePoint::max();
    std::string warning{};
  };

  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;
  void connect_done(std::size_t node, TimePoint began, Result<net::ConnectionPointer> connection);

  void tick();
  void wake_at(TimePoint when);
  void wake_starved();
  void carry_out(Actions& actions);
  TimePoint now() const { return dependencies_.world->clock().steady(); }

  void find_distributor(TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  bool answers(std::size_t node, TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void look_for_absent(TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void reconnect(std::size_t node, TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void disconnect(OtherNode& other, TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void disconnect_all(TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void ask_distributor(TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void ask(std::size_t node, std::vector<LimitDemand> demands, TimePoint now, Actions& actions) TUTTI_REQUIRES(mutex_);
  void take(std::span<const LimitDemand> demands, std::span<const LimitGrant> grants, TimePoint asked, Actions& actions)
      TUTTI_REQUIRES(mutex_);
  bool gives_share(std::size_t node, TimePoint now) TUTTI_REQUIRES(mutex_);
  bool has_own_share(TimePoint now) const TUTTI_REQUIRES(mutex_);
  std::size_t shares(TimePoint now) const TUTTI_REQUIRES(mutex_);

  const Options options_;
  const Dependencies dependencies_;
  const TimePoint usable_from_;  // this node's share
  LogLimit warnings_;

  mutable Mutex mutex_;
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;
  std::vector<OtherNode> nodes_ TUTTI_GUARDED_BY(mutex_);
  std::size_t distributor_ TUTTI_GUARDED_BY(mutex_);  // that this node asks; options_.own: itself
  TimePoint given_until_ TUTTI_GUARDED_BY(mutex_){};  // this node's share may count at `given_to_`
  std::size_t given_to_ TUTTI_GUARDED_BY(mutex_);
  TimePoint was_asked_ TUTTI_GUARDED_BY(mutex_) = TimePoint::min();  // by another node
  std::uint64_t last_tag_ TUTTI_GUARDED_BY(mutex_) = 0;
  LimitDistributor mine_ TUTTI_GUARDED_BY(mutex_);
  bool limited_ TUTTI_GUARDED_BY(mutex_) = false;  // the last answer granted less than was wanted

  std::atomic<TimePoint> next_ask_{};  // not before
  Mutex timer_mutex_;
  TimePoint wake_at_ TUTTI_GUARDED_BY(timer_mutex_) = TimePoint::max();
  bool timer_stopped_ TUTTI_GUARDED_BY(timer_mutex_) = false;
  std::unique_ptr<Timer> timer_;  // last: its task uses the rest
};

}  // namespace tutti::node

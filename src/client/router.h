// SPDX-License-Identifier: Apache-2.0
// Sends calls to nodes, and to other nodes if one is lost. Internal to the client.
#pragma once

#include <tutti/client.h>

#include <map>
#include <memory>

#include "base/mutex.h"
#include "base/world.h"
#include "client/node_link.h"

namespace tutti {

// Call::done() is called for every submitted call: with the node's reply, or with an error after `give_up`.
// Thread-safe.
//
// A node counts as lost if its connection is closed or a call is overdue (NodeLink::next_deadline()). A call with
// Retry::kAfterFence is sent to another node only after its deadline plus the cluster's fence time: by then the lost
// node has applied it, or never will (docs/design/fencing.md). A call that needs a boot fails with kUnreachable once
// its preferred node has another one.
//
// Half-open connections are noticed only when a call is overdue. So if a call is overdue at a node, the next nodes are
// pinged, and the call is sent to a node that has sent something since, if there is one.
class Router final : public LinkEvents {
 public:
  struct Options {
    Cluster cluster;
    net::ConnectOptions connect;
    Duration give_up{};
    std::optional<Duration> sync_timeout{};
  };

  // The cluster must be valid (check_cluster()). The world must outlive the router.
  Router(World& world, std::unique_ptr<net::Transport> transport, Options options);
  ~Router() override;  // stops

  // Connects to all nodes in parallel. `done` is called after the last attempt: success if at least one node is
  // connected, else the last error. Call once, before submit().
  void start(std::function<void(Result<void>)> done);

  // Calls in flight and later ones fail with kStopped. Must not be called from Call::done().
  void stop();

  void submit(CallPointer call);
  // Receives the reply on this thread if possible, which saves a thread switch. When it returns, done() may not have
  // been called yet. On this thread, done() is called for no other call.
  void await_reply(const CallPointer& call) { links_[call->node]->await_reply(call); }

  std::size_t nodes() const { return links_.size(); }
  // Index of the node that serves this target.
  std::size_t owner(TargetId target) const;
  NodeLink& link(std::size_t node) { return *links_[node]; }
  void forget(std::uint64_t file_key);

  // As Client::waiting_for().
  std::string waiting_for(Duration since);

  void answered(CallPointer call, std::int32_t status) override;
  void lost(std::size_t link, std::vector<CallPointer> sent, std::vector<CallPointer> unsent,
            const Error& why) override;
  void watch(TimePoint deadline) override;

 private:
  bool try_send(const CallPointer& call, TimePoint now);
  bool send_to_next(const CallPointer& call, TimePoint now, TimePoint heard_since);
  void ping_next(std::size_t lost);
  void send_or_wait(CallPointer call, TimePoint now, TimePoint next_try);
  void later(TimePoint when, CallPointer call);
  std::string describe_retry(const Call& call, TimePoint now, TimePoint when) const;
  void wake_at(TimePoint when) TUTTI_REQUIRES(mutex_);
  void wake();
  TimePoint disconnect_overdue(TimePoint now);
  TimePoint reconnect(TimePoint now);
  TimePoint resend(TimePoint now);
  void release_fenced(std::size_t node, TimePoint now);

  World& world_;
  Clock& clock_;
  const Options options_;
  std::map<TargetId, std::size_t> owners_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<NodeLink>> links_;

  Mutex mutex_;  // guards what follows
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;
  std::multimap<TimePoint, CallPointer> later_ TUTTI_GUARDED_BY(mutex_);  // calls to send later, by time
  std::vector<TimePoint> next_try_ TUTTI_GUARDED_BY(mutex_);  // to connect, by node; max(): connected, or connecting
  std::vector<TimePoint> last_try_ TUTTI_GUARDED_BY(mutex_);  // start of the last attempt to connect, by node
  TimePoint wake_at_ TUTTI_GUARDED_BY(mutex_) = TimePoint::max();  // the time the timer is set to
  std::unique_ptr<Timer> timer_;                                   // resends, reconnects, gives up
};

}  // namespace tutti

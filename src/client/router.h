// SPDX-License-Identifier: Apache-2.0
// Brings calls to nodes, and to stand-ins when a node is lost. Internal to the client.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "client/node_link.h"
#include "tutti/client.h"

namespace tutti {

// Every call that submit() took gets its answer: the node's, or an error once `give_up` has passed. Thread-safe.
//
// A node counts as lost when its connection breaks or a call is past its deadline. A lost call with Retry::kAfterFence
// goes to a stand-in only when its deadline and the cluster's lease are over: then the lost node either has applied it,
// or never will (docs/design/fencing.md).
class Router final : public LinkEvents {
 public:
  struct Options {
    Cluster cluster;
    std::string job;
    Duration give_up{};
  };

  // At least one node answers, else kUnreachable with the last one's reason.
  static Result<std::unique_ptr<Router>> create(Options options);
  ~Router() override;  // stops

  // What is under way, and what is submitted from now on, fails with kStopped. Not from a call's `done`.
  void stop();

  void submit(CallPointer call);
  // Waits for the answer on this thread where it can: less to wake, and quicker. `done` may not have been called yet
  // when it returns, and is called on this thread for no other call.
  void attend(const CallPointer& call) { links_[call->node]->attend(call); }
  // Only to that node, whether or not it is the preferred one. kUnreachable if it is down.
  void submit_to(std::size_t node, CallPointer call);

  std::size_t nodes() const { return links_.size(); }
  // Whose requests for this target are.
  std::size_t owner(TargetId target) const;
  NodeLink& link(std::size_t node) { return *links_[node]; }
  void forget(std::uint64_t file_key);

  void answered(CallPointer call, net::Incoming message) override;
  void lost(std::vector<CallPointer> sent, std::vector<CallPointer> unsent, const Error& why) override;

 private:
  explicit Router(Options options);
  Result<void> start();
  bool try_send(const CallPointer& call);
  void later(TimePoint when, CallPointer call);
  void run();
  void give_up_on_old(TimePoint now);
  void check_links(TimePoint now);
  void send_due(TimePoint now);
  void reconnect(std::size_t node, TimePoint now);

  const Options options_;
  std::map<TargetId, std::size_t> owners_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<NodeLink>> links_;
  std::vector<TimePoint> next_try_;  // to connect, by node; the keeper's thread only

  std::mutex mutex_;
  std::condition_variable wakeup_;
  bool stopping_ = false;
  std::multimap<TimePoint, CallPointer> later_;  // by when they may be sent
  std::thread keeper_;                           // reconnects, retries, gives up
};

}  // namespace tutti

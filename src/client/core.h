// SPDX-License-Identifier: Apache-2.0
// State shared by a client and its open files. Internal to the client.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/world.h"
#include "client/router.h"
#include "job/phases.h"
#include "job/turns.h"
#include "layout/layout.h"

namespace tutti {

// Must outlive every call that was submitted through it. Thread-safe.
class Core {
 public:
  // The cluster must be valid (check_cluster()). The world must outlive the core.
  // With `turns`, announced phases wait for their turn.
  Core(World& world, std::unique_ptr<net::Transport> transport, ClientOptions options, job::Identity identity,
       net::ConnectOptions connect, std::unique_ptr<job::Turns> turns = nullptr);
  ~Core();

  // Connects to the nodes; kUnreachable if none answers. Call once, before anything else.
  void start(Done<void> done) { router_->start(std::move(done)); }
  // Closes all connections. Requests in flight and later ones fail with kStopped.
  void stop();

  Router& router() { return *router_; }
  const ClientOptions& options() const { return options_; }
  const job::Identity& identity() const { return identity_; }
  const std::vector<TargetId>& targets() const { return targets_; }

  // Registers an open file and returns its key. Call closed() when it is closed.
  std::uint64_t opened(const std::shared_ptr<const Layout>& layout);
  void closed(std::uint64_t file_key);

  // Makes the stamp of one operation. Call completed() when all its requests are done.
  Stamp issue(std::span<const TargetShare> shares);
  // As in job::Phases.
  Stamp issue_together(std::span<const TargetShare> shares_of_all);
  void joined();
  void completed();
  // Begins a phase. With turns, first waits for the turn for the targets of all open files, or of the file with this
  // key.
  void begin_phase(const PhaseAnnouncement& announcement, Done<void> done,
                   std::optional<std::uint64_t> file_key = std::nullopt);
  void end_phase();
  // Calls `use` under the lock, to load and save learned sizes.
  void with_phases(const std::function<void(job::Phases&)>& use);

  // Sends a request to a node, the next one in turn. An error in the reply becomes the result. Returns the call, for
  // Router::await_reply(). If all nodes are on this machine, one node gets all changes of names in a directory: the
  // kernel locks the directory during each of them, and the nodes would only wait for each other.
  template <typename Request>
  CallPointer ask(const Request& request, Retry retry, Done<typename Request::Reply> done) {
    return ask_node(request, retry, choose_node(request), std::move(done));
  }
  template <typename Request>
  CallPointer ask_node(const Request& request, Retry retry, std::size_t node, Done<typename Request::Reply> done);

  // The layout of a file: that of the file system if it is known and discover_layouts is set, else the cluster's
  // default, which starts at a target that depends on the inode.
  void find_layout(const std::string& path, std::uint64_t inode, std::function<void(Layout)> done);

 private:
  struct Discovery;
  template <typename Request>
  std::size_t choose_node(const Request& request) {
    // Changes have a deadline.
    if constexpr (requires { request.deadline, request.path; }) return choose_node_for_change(request.path);
    if constexpr (requires { request.deadline, request.to; }) return choose_node_for_change(request.to);
    return next_node_++ % router_->nodes();
  }
  std::size_t choose_node_for_change(std::string_view path);
  Result<void> begin_now(const PhaseAnnouncement& announcement, std::optional<std::uint64_t> file_key);
  void forget_turn(std::uint64_t turn, std::uint64_t earlier);
  Layout default_layout(std::uint64_t inode) const;
  void discover_next(const std::shared_ptr<Discovery>& discovery);

  const ClientOptions options_;
  const job::Identity identity_;
  Clock& clock_;
  std::vector<TargetId> targets_;  // ascending
  const bool one_machine_;         // all nodes are on this machine
  std::atomic<std::size_t> next_node_{0};
  Mutex mutex_;  // guards what follows
  std::uint64_t last_key_ TUTTI_GUARDED_BY(mutex_) = 0;
  OperationId last_operation_ TUTTI_GUARDED_BY(mutex_);
  job::Phases phases_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t last_turn_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::uint64_t turn_ TUTTI_GUARDED_BY(mutex_) = 0;  // requested or held for an announced phase; 0: none
  std::unique_ptr<Router> router_;
  const std::unique_ptr<job::Turns> turns_;  // nullptr: none
};

template <typename Request>
CallPointer Core::ask_node(const Request& request, Retry retry, std::size_t node, Done<typename Request::Reply> done) {
  if (auto fine = wire::check_limits(request); !fine) return done(Failure(fine.error())), nullptr;
  auto call = std::make_shared<FunctionCall<typename Request::Reply>>();
  call->make = [request = Request(request)](const Call::Attempt& attempt) mutable {
    if constexpr (requires { request.deadline; }) request.deadline = attempt.deadline;
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->report = std::move(done);
  call->retry = retry;
  call->work = Request::kType == wire::Type::kSyncDirectory ? Work::kSync : Work::kName;
  call->preferred = node;
  router_->submit(call);
  return call;
}

// Converts to the form of wire/message.h: no leading, trailing or double '/', no ".". kInvalid for ".." and invalid
// paths.
Result<std::string> normalise(const std::string& path);

}  // namespace tutti

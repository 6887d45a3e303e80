// SPDX-License-Identifier: Apache-2.0
// What a client and its files share. Internal to the client.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "client/phases.h"
#include "client/router.h"
#include "layout/layout.h"

namespace tutti {

// Thread-safe. Outlives every call that was submitted through it.
class Core {
 public:
  static Result<std::shared_ptr<Core>> create(ClientOptions options);
  ~Core();

  // Ends everything; files that are still open fail with kStopped.
  void stop();

  Router& router() { return *router_; }
  const ClientOptions& options() const { return options_; }
  const std::vector<TargetId>& targets() const { return targets_; }

  std::uint64_t new_file_key() { return ++last_key_; }

  // Stamps one operation; followed by completed() when all its requests are done.
  Stamp issue(std::vector<TargetShare> shares);
  void completed();
  void begin_phase(const PhaseAnnouncement& announcement);
  void end_phase();

  // Asks a node and waits. Fails with the reply's error if it reports one.
  template <typename Request>
  Result<typename Request::Reply> ask(const Request& request, Retry retry) {
    return ask_node(request, retry, next_node_++ % router_->nodes());
  }
  template <typename Request>
  Result<typename Request::Reply> ask_node(const Request& request, Retry retry, std::size_t node);

  // A file's stripes: the file system's own where it tells and the cluster wants to know, else the cluster's, beginning
  // at a target that depends on the file.
  Layout layout_of(const std::string& path, std::uint64_t inode);

 private:
  explicit Core(ClientOptions options);
  std::string memory_file() const;

  ClientOptions options_;
  std::vector<TargetId> targets_;  // ascending
  std::atomic<std::uint64_t> last_key_{0};
  std::atomic<std::uint64_t> last_operation_;
  std::atomic<std::size_t> next_node_{0};
  std::mutex mutex_;
  std::optional<Phases> phases_;
  std::unique_ptr<Router> router_;
};

// The reply inside a message, or the error it reports.
template <typename Reply>
Result<Reply> reply_of(const Result<net::Incoming>& message) {
  if (!message) return Failure(message.error());
  auto reply = wire::decode<Reply>(message->header, message->body);
  if (!reply) return reply;
  if (reply->head.status != wire::kOk) return Failure(wire::to_error(reply->head));
  return reply;
}

template <typename Request>
Result<typename Request::Reply> Core::ask_node(const Request& request, Retry retry, std::size_t node) {
  auto promise = std::make_shared<std::promise<Result<typename Request::Reply>>>();
  auto future = promise->get_future();
  auto call = std::make_shared<Call>();
  call->encode = [request](const Call::Attempt& attempt) {
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->done = [promise](const Result<net::Incoming>& message) {
    promise->set_value(reply_of<typename Request::Reply>(message));
  };
  call->retry = retry;
  call->preferred = node;
  router_->submit(call);
  router_->attend(call);
  return future.get();
}

// As the wire wants it: no leading, trailing or double '/', no "."; kInvalid for ".." and what no path can be.
Result<std::string> normalise(const std::string& path);

}  // namespace tutti

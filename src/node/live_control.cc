// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <map>

#include "base/mutex.h"
#include "net/transport.h"
#include "node/control.h"

namespace tutti {
namespace {

class ControlLink final : public Control, private net::Handler {
 public:
  explicit ControlLink(Duration timeout) : timeout_(timeout) {}
  ~ControlLink() override {
    if (connection_) connection_->close({ErrorCode::kStopped, "done"});
    connection_ = nullptr;
    transport_ = nullptr;
  }

  Result<void> open(const Options& options) {
    auto endpoint = net::parse_endpoint(options.endpoint);
    if (!endpoint) return Failure(endpoint.error());
    net::ConnectOptions connect{.job = "tutti control",
                                .munge = options.munge,
                                .node = options.node,
                                .node_user = options.node_user,
                                .timeout = options.timeout};
    if (!options.key_file.empty()) {
      auto key = net::load_key(options.key_file);
      if (!key) return Failure(key.error());
      connect.key = std::move(*key);
    }
    auto transport = net::Transport::create({});
    if (!transport) return Failure(transport.error());
    transport_ = std::move(*transport);
    auto connection = net::connect_and_wait(*transport_, *endpoint, std::move(connect), *this);
    if (!connection) return Failure(connection.error());
    connection_ = std::move(*connection);
    return {};
  }

  Result<wire::HealthReply> health() override { return call(wire::HealthRequest{}); }
  Result<wire::StatisticsReply> statistics() override {
    auto all = call(wire::StatisticsRequest{});
    while (all && all->more) {
      const auto first = all->usage.empty() ? wire::UsageKey{} : wire::usage_key(all->usage.back()).next();
      if (first == wire::UsageKey{}) return fail(ErrorCode::kProtocol, "the node sends statistics without end");
      auto next = call(wire::StatisticsRequest{.first = first});
      if (!next) return next;
      for (wire::Usage& usage : next->usage) {
        if (wire::usage_key(usage) <= wire::usage_key(all->usage.back()))
          return fail(ErrorCode::kProtocol, "the node's statistics are out of order");
        all->usage.push_back(std::move(usage));
      }
      all->more = next->more;
    }
    return all;
  }
  Result<wire::PolicyReply> policy() override { return call(wire::PolicyShowRequest{}); }
  Result<wire::LimitsReply> limits() override { return call(wire::LimitsShowRequest{}); }
  Result<void> set_policy(const std::string& name, const PolicyOptions& options) override {
    return call(wire::PolicySetRequest{name, options}).map([](const auto&) {});
  }
  Result<void> stop(Scheduler::Stop how) override {
    return call(wire::StopRequest{.drain = how == Scheduler::Stop::kDrain}).map([](const auto&) {});
  }

 private:
  template <typename Request>
  Result<typename Request::Reply> call(const Request& request) {
    if (auto fine = wire::check_limits(request); !fine) return Failure(fine.error());
    Lock lock(mutex_);
    const std::uint64_t tag = ++tag_;
    lock.unlock();
    connection_->send({.frame = wire::encode(request, {.tag = tag})});
    lock.lock();
    const bool there =
        changed_.wait_for(lock, timeout_, [&]() TUTTI_REQUIRES(mutex_) { return answers_.contains(tag) || closed_; });
    if (!there) return fail(ErrorCode::kTimeout, "the node did not answer in time");
    if (!answers_.contains(tag)) return fail(ErrorCode::kUnreachable, "the node closed the connection: " + why_);
    const net::Incoming answer = std::move(answers_.extract(tag).mapped());
    auto reply = wire::decode<typename Request::Reply>(answer.header, answer.body);
    if (reply && reply->head.status != wire::kOk) return Failure(wire::to_error(reply->head));
    return reply;
  }

  void received(const net::ConnectionPointer&, net::Incoming message) override {
    Lock lock(mutex_);
    const std::uint64_t tag = message.header.tag;
    answers_[tag] = std::move(message);
    changed_.notify_all();
  }
  void closed(const net::ConnectionPointer&, const Error& why) override {
    Lock lock(mutex_);
    closed_ = true;
    why_ = why.message;
    changed_.notify_all();
  }

  const Duration timeout_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, net::Incoming> answers_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t tag_ TUTTI_GUARDED_BY(mutex_) = 0;
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
  std::string why_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<net::Transport> transport_;
  net::ConnectionPointer connection_;
};

}  // namespace

Result<std::unique_ptr<Control>> Control::connect(const Options& options) {
  auto link = std::make_unique<ControlLink>(options.timeout);
  if (auto opened = link->open(options); !opened) return Failure(opened.error());
  return link;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "node/control.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include "net/transport.h"

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
    net::ConnectOptions connect{.job = "tutti control", .munge = options.munge, .timeout = options.timeout};
    if (!options.key_file.empty()) {
      auto key = net::load_key(options.key_file);
      if (!key) return Failure(key.error());
      connect.key = std::move(*key);
    }
    auto transport = net::Transport::create({});
    if (!transport) return Failure(transport.error());
    transport_ = std::move(*transport);
    auto connection = transport_->connect(*endpoint, std::move(connect), *this);
    if (!connection) return Failure(connection.error());
    connection_ = std::move(*connection);
    return {};
  }

  Result<wire::HealthReply> health() override { return call(wire::HealthRequest{}); }
  Result<wire::StatisticsReply> statistics() override { return call(wire::StatisticsRequest{}); }
  Result<wire::PolicyReply> policy() override { return call(wire::PolicyShowRequest{}); }
  Result<void> set_policy(const std::string& name, const PolicyOptions& options) override {
    return call(wire::PolicySetRequest{name, options}).map([](const auto&) {});
  }
  Result<void> stop(Scheduler::Stop how) override {
    return call(wire::StopRequest{.drain = how == Scheduler::Stop::kDrain}).map([](const auto&) {});
  }

 private:
  template <typename Request>
  Result<typename Request::Reply> call(const Request& request) {
    std::unique_lock lock(mutex_);
    const std::uint64_t tag = ++tag_;
    lock.unlock();
    connection_->send({.frame = wire::encode(request, {.tag = tag})});
    lock.lock();
    const bool there = changed_.wait_for(lock, timeout_, [&] { return answers_.contains(tag) || closed_; });
    if (!there) return fail(ErrorCode::kTimeout, "the node does not answer");
    if (!answers_.contains(tag)) return fail(ErrorCode::kUnreachable, "the node closed the connection: " + why_);
    const net::Incoming answer = std::move(answers_.extract(tag).mapped());
    auto reply = wire::decode<typename Request::Reply>(answer.header, answer.body);
    if (reply && reply->head.status != wire::kOk) return Failure(wire::to_error(reply->head));
    return reply;
  }

  void received(const net::ConnectionPointer&, net::Incoming message) override {
    std::lock_guard lock(mutex_);
    const std::uint64_t tag = message.header.tag;
    answers_[tag] = std::move(message);
    changed_.notify_all();
  }
  void closed(const net::ConnectionPointer&, const Error& why) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    why_ = why.message;
    changed_.notify_all();
  }

  const Duration timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, net::Incoming> answers_;
  std::uint64_t tag_ = 0;
  bool closed_ = false;
  std::string why_;
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

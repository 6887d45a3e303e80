// SPDX-License-Identifier: Apache-2.0
// Credentials whose check hangs, as with a stopped munged or a directory service that does not answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

const ClusterKey kCredentialKey(32, std::byte{42});

// A credential is the content itself. Checks wait until the test allows them.
class HangingService final : public CredentialService {
 public:
  Result<std::string> make(const wire::Digest& content) override {
    return std::string(reinterpret_cast<const char*>(content.data()), content.size());
  }
  Result<wire::Identity> verify(const std::string& credential, const wire::Digest& content) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    lock.unlock();
    if (credential != *make(content)) return fail(ErrorCode::kDenied, "another content");
    return wire::Identity{.uid = ::geteuid(), .gid = ::getegid()};
  }

  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool hangs() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

struct CredentialServer : Handler {
  void received(const ConnectionPointer& from, Incoming message) override {
    from->send({.frame = wire::encode(wire::HealthReply{.node = "server"}, {.tag = message.header.tag})});
  }
  void closed(const ConnectionPointer&, const Error&) override {}
};

struct CredentialClient : Handler {
  void received(const ConnectionPointer&, Incoming) override { answered.set_value(); }
  void closed(const ConnectionPointer&, const Error&) override { ended.set_value(); }
  std::promise<void> answered, ended;
};

class BlockingCredentials : public testing::Test {
 protected:
  void listen(Duration handshake_timeout) {
    ListenOptions options{.key = kCredentialKey, .munge = true, .credentials = service_};
    options.handshake_timeout = handshake_timeout;
    listener_ = transport_->listen({Endpoint::Kind::kTcp, "127.0.0.1", 0}, options, server_).value();
  }
  // Begins to connect with a credential.
  std::future<Result<ConnectionPointer>> begin(CredentialClient& client) {
    auto promise = std::make_shared<std::promise<Result<ConnectionPointer>>>();
    ConnectOptions options{.munge = true, .credentials = own_};
    options.timeout = 20s;
    clients_->connect(listener_->endpoint(), options, client,
                      [promise](Result<ConnectionPointer> connected) { promise->set_value(std::move(connected)); });
    return promise->get_future();
  }

  CredentialServer server_;
  std::shared_ptr<HangingService> service_ = std::make_shared<HangingService>();
  std::shared_ptr<HangingService> own_ = [] {
    auto open = std::make_shared<HangingService>();
    open->open();
    return open;
  }();
  std::unique_ptr<Transport> transport_ = Transport::create({.threads = 1}).value();
  std::unique_ptr<Transport> clients_ = Transport::create({}).value();
  std::unique_ptr<Listener> listener_;
};

TEST_F(BlockingCredentials, OtherClientsAreServedWhileACheckHangs) {
  listen(20s);
  CredentialClient first, second;
  auto connecting = begin(first);
  ASSERT_TRUE(service_->hangs());
  auto connected = connect_and_wait(*clients_, listener_->endpoint(), {.key = kCredentialKey}, second);
  ASSERT_TRUE(connected) << connected.error().message;
  (*connected)->send({.frame = wire::encode(wire::HealthRequest{}, {.tag = 1})});
  EXPECT_EQ(second.answered.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(connecting.wait_for(0s), std::future_status::timeout);
  service_->open();
  auto late = connecting.get();
  ASSERT_TRUE(late) << late.error().message;
  (*late)->send({.frame = wire::encode(wire::HealthRequest{}, {.tag = 1})});
  EXPECT_EQ(first.answered.get_future().wait_for(20s), std::future_status::ready);
  for (const auto& connection : {*connected, *late}) connection->close({ErrorCode::kStopped, "the test is over"});
  for (CredentialClient* client : {&first, &second}) client->ended.get_future().wait();
}

TEST_F(BlockingCredentials, AHandshakeThatTakesTooLongIsEnded) {
  listen(100ms);
  CredentialClient client;
  auto connecting = begin(client);
  ASSERT_TRUE(service_->hangs());
  EXPECT_FALSE(connecting.get());
  service_->open();  // its result belongs to no connection any more
  CredentialClient other;
  const auto connected = connect_and_wait(*clients_, listener_->endpoint(), {.key = kCredentialKey}, other);
  ASSERT_TRUE(connected);
  (*connected)->close({ErrorCode::kStopped, "the test is over"});
  other.ended.get_future().wait();
}

TEST_F(BlockingCredentials, TheNodeStopsWhileACheckHangs) {
  listen(20s);
  CredentialClient client;
  auto connecting = begin(client);
  ASSERT_TRUE(service_->hangs());
  listener_.reset();
  transport_.reset();
  EXPECT_FALSE(connecting.get());
  service_->open();
}

}  // namespace
}  // namespace tutti::net

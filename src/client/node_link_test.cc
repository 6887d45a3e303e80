// SPDX-License-Identifier: Apache-2.0
#include "client/node_link.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace tutti {
namespace {

// Keeps what is sent.
class FakeConnection final : public net::Connection {
 public:
  void send(net::Outgoing message) override { sent.push_back(std::move(message.frame)); }
  void close(const Error&) override {}
  void await_reply(std::uint64_t, const std::function<bool()>&) override {}
  bool set_credit(std::uint64_t) override { return true; }
  const net::Peer& peer() const override { return peer_; }
  const wire::Welcome& welcome() const override { return welcome_; }

  std::vector<std::vector<std::byte>> sent;
  wire::Welcome welcome_;

 private:
  net::Peer peer_;
};

// The node's first message arrives before connect() has reported the connection.
class EagerTransport final : public net::Transport {
 public:
  Result<std::unique_ptr<net::Listener>> listen(const net::Endpoint&, net::ListenOptions, net::Handler&) override {
    return fail(ErrorCode::kInvalid, "for clients only");
  }
  void connect(const net::Endpoint&, net::ConnectOptions, net::Handler& handler, Connected done) override {
    connection->welcome_.limits.credit = 0;
    const auto frame = wire::encode(wire::Credit{.bytes = 8 << 20, .number = 5}, {});
    net::Incoming message;
    message.header = *wire::decode_header(std::span(frame).first<wire::kHeaderSize>());
    message.body.assign(frame.begin() + wire::kHeaderSize, frame.end());
    handler.received(connection, std::move(message));
    done(net::ConnectionPointer(connection));
  }
  const std::shared_ptr<FakeConnection> connection = std::make_shared<FakeConnection>();
};

struct NoEvents final : LinkEvents {
  void answered(CallPointer, std::int32_t) override {}
  void lost(std::size_t, std::vector<CallPointer>, std::vector<CallPointer>, const Error&) override {}
  void watch(TimePoint) override {}
};

TEST(NodeLink, ACreditThatArrivesBeforeTheConnectionIsNotLost) {
  EagerTransport transport;
  NoEvents events;
  NodeLink link(real_clock(), transport, {.request_timeout = std::chrono::seconds(30)}, events);
  bool connected = false;
  link.connect([&](const Result<void>& done) { connected = done.has_value(); });
  ASSERT_TRUE(connected);
  ASSERT_EQ(transport.connection->sent.size(), 1u);
  EXPECT_EQ(wire::frame_type(transport.connection->sent[0]), wire::Type::kCreditAccepted);

  bool on_request = true;
  auto call = std::make_shared<FunctionCall<wire::WriteReply>>();
  call->payload = call->bytes = 4 << 20;
  call->make = [&](const Call::Attempt& attempt) {
    on_request = attempt.on_request;
    return net::Outgoing{.frame = wire::encode(wire::HealthRequest{}, {.tag = attempt.tag})};
  };
  call->report = [](const Result<wire::WriteReply>&) {};
  ASSERT_TRUE(link.send(call, real_clock().steady()));
  EXPECT_FALSE(on_request) << "it has a credit, so the payload is sent with the write";
}

}  // namespace
}  // namespace tutti

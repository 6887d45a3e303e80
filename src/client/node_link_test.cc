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

net::Incoming to_message(const std::vector<std::byte>& frame) {
  net::Incoming message;
  message.header = *wire::decode_header(std::span(frame).first<wire::kHeaderSize>());
  message.body.assign(frame.begin() + wire::kHeaderSize, frame.end());
  return message;
}

// The node's first message arrives before connect() has reported the connection.
class EagerTransport final : public net::Transport {
 public:
  Result<std::unique_ptr<net::Listener>> listen(const net::Endpoint&, net::ListenOptions, net::Handler&) override {
    return fail(ErrorCode::kInvalid, "for clients only");
  }
  void connect(const net::Endpoint&, net::ConnectOptions, net::Handler& handler, Connected done) override {
    connection->welcome_.limits.credit = 0;
    if (credit > 0)
      handler.received(connection, to_message(wire::encode(wire::Credit{.bytes = credit, .number = 5}, {})));
    done(net::ConnectionPointer(connection));
  }
  std::uint64_t credit = 8 << 20;  // 0: there is no such message
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

// Keeps the attempts.
struct PulledWrite final : ReplyCall<wire::WriteReply> {
  net::Outgoing encode(const Attempt& attempt) override {
    announced = attempt;
    return {.frame = wire::encode(wire::HealthRequest{}, {.tag = attempt.tag})};
  }
  net::Outgoing encode_payload(const Attempt& attempt) override {
    sent = attempt;
    return {.frame = wire::encode(wire::Payload{.deadline = attempt.deadline}, {.tag = attempt.tag})};
  }
  void finish() override {}

  Attempt announced{};
  std::optional<Attempt> sent{};
};

// No progress is reported in this test: it would give all writes of the connection a new deadline.
TEST(NodeLink, TheDeadlineOfAPulledWriteBeginsWithItsPayload) {
  using namespace std::chrono_literals;
  constexpr Duration kTimeout = 5s;
  ManualClock clock(TimePoint(100s));
  EagerTransport transport;
  transport.credit = 0;
  transport.connection->welcome_.now = TimePoint(100s);  // the node's clock shows the same time
  NoEvents events;
  NodeLink link(clock, transport, {.request_timeout = kTimeout}, events);
  link.connect([](const Result<void>& done) { ASSERT_TRUE(done); });
  auto call = std::make_shared<PulledWrite>();
  call->retry = Retry::kAfterFence;
  call->work = Work::kQueued;
  call->payload = call->bytes = 4 << 20;
  ASSERT_TRUE(link.send(call, clock.steady()));
  ASSERT_TRUE(call->announced.on_request);

  clock.advance(4s);
  link.received(transport.connection, to_message(wire::encode(wire::Pull{.write = call->tag}, {})));
  ASSERT_TRUE(call->sent);
  const TimePoint expected = clock.steady() + kTimeout;
  // The node's clock is known to within its drift since the handshake.
  EXPECT_LE(call->sent->deadline, expected);
  EXPECT_GT(call->sent->deadline, expected - 10ms) << "the node accepts the payload until then";
  EXPECT_EQ(link.next_deadline(), expected) << "the client waits for the reply until then";
  link.closed(transport.connection, {ErrorCode::kUnreachable, "lost"});
  EXPECT_EQ(call->deadline, expected) << "a stand-in gets it after that and the fence time";
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "gate/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/json.h"
#include "gate/channel.h"
#include "gate/client.h"
#include "gate/test_gate.h"

namespace tutti::gate {
namespace {

using namespace literals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Answer::Kind;

constexpr Duration kPatience = seconds(20);  // only a failing test waits so long

// A job that speaks the protocol by hand.
class Job {
 public:
  Job(const std::string& address, SessionId session) : ticket_(session) {
    auto channel =
        Channel::open(*Address::parse(address), Hello{session, 1, "job" + std::to_string(session)}, kPatience);
    EXPECT_TRUE(channel) << channel.error().message;
    channel_ = std::make_unique<Channel>(std::move(*channel));
  }
  RequestMessage request(const std::string& targets) { return {ticket_, 1_MiB, *TargetList::parse(targets)}; }
  void ask(const std::string& targets) { say(request(targets)); }
  void release() { say(ReleaseMessage{ticket_}); }
  void renew() { say(RenewMessage{ticket_}); }
  void say(const Message& message) { EXPECT_TRUE(channel_->send(message)); }

  AnswerMessage hear() {
    auto message = channel_->receive(kPatience);
    if (!message || !*message || !std::holds_alternative<AnswerMessage>(**message)) {
      ADD_FAILURE() << (message ? "no answer" : message.error().message);
      return {};
    }
    return std::get<AnswerMessage>(**message);
  }
  Kind kind() { return hear().kind; }
  bool closed() { return !channel_->receive(kPatience); }
  const Welcome& welcome() const { return channel_->welcome(); }

 private:
  Ticket ticket_;
  std::unique_ptr<Channel> channel_;
};

// Sends raw bytes and returns the refusal it gets; the connection must then be closed.
Refusal refusal_of(const std::string& address, const std::vector<std::byte>& bytes, bool hang_up = false) {
  auto fd = connect_to(*Address::parse(address), kPatience);
  EXPECT_TRUE(fd);
  set_timeouts(*fd, kPatience);
  EXPECT_EQ(send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  if (hang_up) return Refusal::kNone;
  std::vector<std::byte> answer(4096);
  std::size_t size = 0;
  while (true) {
    const ssize_t count = recv(fd->get(), answer.data() + size, answer.size() - size, 0);
    EXPECT_GE(count, 0) << "not closed";
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  std::span<const std::byte> rest(answer.data(), size);
  Refusal refusal = Refusal::kNone;
  while (true) {
    const auto decoded = decode(rest);
    if (!decoded || !*decoded) return refusal;
    if (const auto* message = std::get_if<AnswerMessage>(&(*decoded)->message)) refusal = message->refusal;
    rest = rest.subspan((*decoded)->consumed);
  }
}

class GateServer : public testing::Test {
 protected:
  Json status(const TestGate& gate) {
    const auto document = query_status(gate.address(), kPatience);
    EXPECT_TRUE(document) << document.error().message;
    return document ? parse_json(*document).value_or(nullptr) : Json();
  }
  TemporaryDirectory directory_;
};

TEST_F(GateServer, HandsTheLockOnOverBothKindsOfSocket) {
  TestGate gate(directory_, {.targets = 2}, true);
  Job a(gate.address(), 1), b(gate.tcp_address(), 2);
  EXPECT_EQ(a.welcome().targets, 2u);
  a.ask("0");
  EXPECT_EQ(a.kind(), Kind::kGranted);
  b.ask("*");
  EXPECT_EQ(b.kind(), Kind::kQueued);
  a.release();
  EXPECT_EQ(b.kind(), Kind::kGranted);
}

TEST_F(GateServer, AJobThatDiesGivesWay) {
  TestGate gate(directory_, {});
  auto holder = std::make_unique<Job>(gate.address(), 1);
  auto waiter = std::make_unique<Job>(gate.address(), 2);
  Job last(gate.address(), 3);
  holder->ask("0");
  EXPECT_EQ(holder->kind(), Kind::kGranted);
  waiter->ask("0");
  EXPECT_EQ(waiter->kind(), Kind::kQueued);
  last.ask("0");
  EXPECT_EQ(last.kind(), Kind::kQueued);
  waiter.reset();
  holder.reset();
  EXPECT_EQ(last.kind(), Kind::kGranted);
}

TEST_F(GateServer, ALeaseThatIsNotRenewedRunsOut) {
  TestGate gate(directory_, {.lease = milliseconds(100)});
  Job a(gate.address(), 1), b(gate.address(), 2);
  a.ask("0");
  EXPECT_EQ(a.kind(), Kind::kGranted);
  b.ask("0");
  EXPECT_EQ(b.kind(), Kind::kQueued);
  EXPECT_EQ(b.kind(), Kind::kGranted);
  EXPECT_EQ(a.kind(), Kind::kLost);
  a.renew();
  EXPECT_EQ(a.hear().refusal, Refusal::kExpired);
}

TEST_F(GateServer, WhatOnePeerDoesWrongCostsNobodyElse) {
  TestGate gate(directory_, {.targets = 4}, true);
  Job holder(gate.address(), 1), waiter(gate.tcp_address(), 2);
  holder.ask("0-3");
  EXPECT_EQ(holder.kind(), Kind::kGranted);
  waiter.ask("1");
  EXPECT_EQ(waiter.kind(), Kind::kQueued);
  for (const std::string& address : {gate.address(), gate.tcp_address()}) {
    const auto with_hello = [](const Message& message) {
      std::vector<std::byte> bytes;
      encode(Hello{99, 1, "rogue"}, bytes);
      encode(message, bytes);
      return bytes;
    };
    std::vector<std::byte> version, oversized, before_hello, half;
    encode(Hello{99, 1, "rogue"}, version);
    half = oversized = version;
    version[2] = std::byte{9};
    oversized[6] = std::byte{1};
    half.pop_back();
    encode(RenewMessage{1}, before_hello);
    EXPECT_EQ(refusal_of(address, std::vector<std::byte>(100'000, std::byte{'x'})), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, version), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, oversized), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, before_hello), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, with_hello(Hello{98, 1, "again"})), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, with_hello(Welcome{})), Refusal::kProtocol);
    EXPECT_EQ(refusal_of(address, with_hello(RequestMessage{1, {}, *TargetList::parse("4")})), Refusal::kTargets);
    EXPECT_EQ(refusal_of(address, with_hello(RequestMessage{1, {}, {}})), Refusal::kTargets);
    refusal_of(address, half, true);
  }
  holder.release();
  EXPECT_EQ(waiter.kind(), Kind::kGranted);
}

TEST_F(GateServer, AFloodIsAnsweredForAWhileAndThenCutOff) {
  TestGate gate(directory_, {});
  Job holder(gate.address(), 1), waiter(gate.address(), 2);
  holder.ask("0");
  EXPECT_EQ(holder.kind(), Kind::kGranted);
  waiter.ask("0");
  EXPECT_EQ(waiter.kind(), Kind::kQueued);
  std::vector<std::byte> flood;
  encode(Hello{99, 1, "rogue"}, flood);
  for (int i = 0; i < 1000; ++i) encode(RequestMessage{static_cast<Ticket>(i), {}, TargetList::everything()}, flood);
  auto fd = connect_to(*Address::parse(gate.address()), kPatience);
  set_timeouts(*fd, kPatience);
  ASSERT_EQ(send(fd->get(), flood.data(), flood.size(), MSG_NOSIGNAL), static_cast<ssize_t>(flood.size()));
  std::vector<std::byte> answers(1 << 16);
  ssize_t count = 1;
  while (count > 0) count = recv(fd->get(), answers.data(), answers.size(), 0);
  EXPECT_TRUE(count == 0 || errno == ECONNRESET) << "not closed";
  holder.release();
  EXPECT_EQ(waiter.kind(), Kind::kGranted);
}

TEST_F(GateServer, ALaterConnectionOfTheSameSessionTakesOver) {
  TestGate gate(directory_, {});
  Job a(gate.address(), 1);
  a.ask("0");
  EXPECT_EQ(a.kind(), Kind::kGranted);
  Job again(gate.address(), 1);
  EXPECT_TRUE(a.closed());
  again.say(ReassertMessage{.request = again.request("0"), .holding = true, .arrived = {}, .group = 0});
  EXPECT_EQ(again.kind(), Kind::kRenewed);
}

TEST_F(GateServer, TheKernelSaysWhichProcessAUnixPeerIsAndASessionStaysWithItsUser) {
  TestGate gate(directory_, {}, true);
  Job local(gate.address(), 1);  // says that it is process 1
  local.ask("0");
  EXPECT_EQ(local.kind(), Kind::kGranted);
  EXPECT_EQ(status(gate)["targets"][0]["holders"][0]["process"], getpid());
  // Over TCP nobody knows who it is: not the user of session 1.
  std::vector<std::byte> thief;
  encode(Hello{1, 1, "thief"}, thief);
  EXPECT_EQ(refusal_of(gate.tcp_address(), thief), Refusal::kProtocol);
  EXPECT_EQ(status(gate)["targets"][0]["holders"][0]["job"], "job1");
}

TEST_F(GateServer, StatusTellsHoldersAndQueue) {
  TestGate gate(directory_, {.targets = 3, .discipline = "fifo-pass"});
  Job a(gate.address(), 1), b(gate.address(), 2);
  a.ask("0-1");
  EXPECT_EQ(a.kind(), Kind::kGranted);
  b.ask("1-2");
  EXPECT_EQ(b.kind(), Kind::kQueued);
  const Json document = status(gate);
  EXPECT_EQ(document["discipline"], "fifo-pass");
  EXPECT_EQ(document["connections"], 3);
  EXPECT_EQ(document["targets"].size(), 3u);
  EXPECT_EQ(document["targets"][1]["state"], "active");
  EXPECT_EQ(document["targets"][1]["holders"][0]["job"], "job1");
  EXPECT_EQ(document["targets"][1]["waiting"], 1);
  EXPECT_EQ(document["targets"][2]["state"], "idle");
  EXPECT_EQ(document["queue"][0]["job"], "job2");
  EXPECT_EQ(document["queue"][0]["targets"], "1-2");
  EXPECT_EQ(document["queue"][0]["bytes"], 1 << 20);
}

TEST_F(GateServer, ALargeStatusComesInPieces) {
  TestGate gate(directory_, {.targets = 2000});
  EXPECT_EQ(status(gate)["targets"].size(), 2000u);
}

TEST_F(GateServer, ACleanEndLeavesNothingToRecoverAndACrashDoes) {
  TestGate gate(directory_, {.lease = seconds(2)});
  EXPECT_EQ(status(gate)["recovering"], false);
  gate.stop();
  gate.start();
  EXPECT_EQ(status(gate)["recovering"], false);
  Job holder(gate.address(), 1), first(gate.address(), 2), second(gate.address(), 3);
  holder.ask("0");
  EXPECT_EQ(holder.kind(), Kind::kGranted);
  first.ask("0");
  const AnswerMessage place_of_first = first.hear();
  second.ask("0");
  const AnswerMessage place_of_second = second.hear();
  gate.stop();  // with a holder: as good as a crash
  gate.start();
  Job second_again(gate.address(), 3), first_again(gate.address(), 2), holder_again(gate.address(), 1);
  second_again.say(ReassertMessage{second_again.request("0"), false, place_of_second.arrived, 0});
  EXPECT_EQ(second_again.kind(), Kind::kQueued);
  first_again.say(ReassertMessage{first_again.request("0"), false, place_of_first.arrived, 0});
  EXPECT_EQ(first_again.kind(), Kind::kQueued);
  holder_again.say(ReassertMessage{holder_again.request("0"), true, {}, 0});
  EXPECT_EQ(holder_again.kind(), Kind::kRenewed);
  holder_again.release();
  EXPECT_EQ(first_again.kind(), Kind::kGranted);
  first_again.release();
  EXPECT_EQ(second_again.kind(), Kind::kGranted);
}

TEST_F(GateServer, OneGatePerStateFileAndSocket) {
  TestGate gate(directory_, {});
  const auto second = Server::create({.addresses = {directory_ / "other.sock"}, .state_path = gate.state()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kDuplicate);
  EXPECT_FALSE(Server::create({.addresses = {gate.address()}}));
  EXPECT_FALSE(Server::create({.addresses = {}}));
  EXPECT_FALSE(Server::create({.addresses = {"nonsense"}}));
}

}  // namespace
}  // namespace tutti::gate

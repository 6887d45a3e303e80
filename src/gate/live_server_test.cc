// SPDX-License-Identifier: Apache-2.0
#include "gate/live_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/json.h"
#include "base/testing.h"
#include "gate/live_address.h"
#include "gate/live_client.h"
#include "gate/test_gate.h"

namespace tutti::gate {
namespace {

using namespace literals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using State = wire::GateState;
using Claim = wire::GateAskRequest::Claim;

constexpr Duration kPatience = seconds(20);  // only a failing test waits this long

// A job that sends single messages to the gate.
class TestJob final : public net::Handler {
 public:
  struct As {
    std::uint64_t session = 0;
    std::uint64_t number = 0;             // job number
    std::optional<std::uint32_t> user{};  // over TCP
    bool open = true;
    std::uint64_t ticket = 0;  // of an earlier session
  };
  TestJob(const std::string& address, As as) : ticket_(as.session) {
    transport_ = std::move(*net::Transport::create({}));
    net::ConnectOptions options{
        .job = "job" + std::to_string(as.session), .key = net::ClusterKey(32, std::byte{'k'}), .timeout = kPatience};
    if (as.user) options.claim = wire::Identity{.uid = *as.user, .gid = 1};
    auto connection = net::connect_and_wait(*transport_, *parse_address(address), options, *this);
    EXPECT_TRUE(connection) << connection.error().message;
    connection_ = *connection;
    if (!as.open) return;
    send(wire::GateOpenRequest{.session = as.session, .number = as.number, .process = 1, .ticket = as.ticket});
    (void)take();
    const auto reply = wire::decode<wire::GateOpenReply>(last_.header, last_.body);
    EXPECT_TRUE(reply && reply->head.status == wire::kOk);
    if (reply) targets_ = reply->targets;
  }
  TestJob(const std::string& address, std::uint64_t session) : TestJob(address, As{.session = session}) {}
  ~TestJob() override { transport_.reset(); }

  wire::GateAskRequest request(const std::string& targets) const {
    const TargetList list = *TargetList::parse(targets);
    return {.ticket = ticket_, .bytes = 1 << 20, .all = list.all, .targets = list.ranges};
  }
  void ask(const std::string& targets) { send(request(targets)); }
  void claim(Claim claim, const std::string& targets, TimePoint arrived = {}) {
    auto message = request(targets);
    message.claim = claim;
    message.arrived = arrived;
    send(message);
  }
  void release() { send(wire::GateRelease{ticket_}); }
  void renew() { send(wire::GateRenewRequest{ticket_}); }
  template <typename Message>
  void send(const Message& message, std::span<const std::byte> announced_payload = {}) {
    connection_->send({.frame = wire::encode(message, {.tag = ++tag_, .payload = announced_payload})});
  }

  // Waits for the next message.
  const net::Incoming& take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !messages_.empty() || over_; }) || messages_.empty()) {
      ADD_FAILURE() << "no answer";
      last_ = {};
      return last_;
    }
    last_ = std::move(messages_.front());
    messages_.pop_front();
    return last_;
  }
  wire::ReplyHead head() { return wire::decode_head(take().body).value_or(wire::ReplyHead{.status = -1}); }
  wire::GateReply<wire::Type::kGateAsk> hear() {
    (void)take();
    last_.header.type = wire::Type::kGateAsk;  // both have the same fields
    auto reply = wire::decode<wire::GateAskRequest::Reply>(last_.header, last_.body);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply.value_or(wire::GateAskRequest::Reply{.head = {.status = -1}});
  }
  State state() {
    const auto reply = hear();
    EXPECT_EQ(reply.head.status, wire::kOk) << reply.head.message;
    return reply.state;
  }
  bool closed() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return over_; });
  }
  std::uint32_t targets() const { return targets_; }

  void received(const net::ConnectionPointer&, net::Incoming message) override {
    std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  void closed(const net::ConnectionPointer&, const Error&) override {
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  const std::uint64_t ticket_;
  std::uint64_t tag_ = 0;
  std::uint32_t targets_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<net::Incoming> messages_;
  net::Incoming last_;
  bool over_ = false;
  std::unique_ptr<net::Transport> transport_;
  net::ConnectionPointer connection_;
};

class GateServerTest : public testing::Test {
 protected:
  Json status(const TestGate& gate) {
    std::this_thread::sleep_for(milliseconds(150));  // a status document is reused for 100 ms
    const auto document = query_status({.address = gate.address(), .job = "test"}, kPatience);
    EXPECT_TRUE(document) << document.error().message;
    return document ? parse_json(*document).value_or(nullptr) : Json();
  }
  TemporaryDirectory directory_;
};

TEST_F(GateServerTest, TurnsPassBetweenClientsOnBothKindsOfSockets) {
  TestGate gate(directory_, {.targets = 2}, true);
  TestJob a(gate.address(), 1), b(gate.tcp_address(), 2);
  EXPECT_EQ(a.targets(), 2u);
  a.ask("0");
  EXPECT_EQ(a.state(), State::kHolding);
  b.ask("*");
  EXPECT_EQ(b.state(), State::kQueued);
  a.release();
  EXPECT_EQ(b.state(), State::kHolding);
}

TEST_F(GateServerTest, TheTurnOfAJobThatDiesEnds) {
  TestGate gate(directory_, {});
  auto holder = std::make_unique<TestJob>(gate.address(), 1);
  auto waiter = std::make_unique<TestJob>(gate.address(), 2);
  TestJob last(gate.address(), 3);
  holder->ask("0");
  EXPECT_EQ(holder->state(), State::kHolding);
  waiter->ask("0");
  EXPECT_EQ(waiter->state(), State::kQueued);
  last.ask("0");
  EXPECT_EQ(last.state(), State::kQueued);
  waiter.reset();
  holder.reset();
  EXPECT_EQ(last.state(), State::kHolding);
}

TEST_F(GateServerTest, ALeaseThatIsNotRenewedExpires) {
  TestGate gate(directory_, {.lease = milliseconds(100)});
  TestJob a(gate.address(), 1), b(gate.address(), 2);
  a.ask("0");
  EXPECT_EQ(a.state(), State::kHolding);
  b.ask("0");
  EXPECT_EQ(b.state(), State::kQueued);
  EXPECT_EQ(b.state(), State::kHolding);
  EXPECT_EQ(a.state(), State::kLost);
  a.renew();
  EXPECT_EQ(a.head().status, wire::kExpired);
}

TEST_F(GateServerTest, ErrorsOfOnePeerAreAnsweredAndDoNotAffectOthers) {
  TestGate gate(directory_, {.targets = 4}, true);
  TestJob holder(gate.address(), 1), waiter(gate.tcp_address(), 2);
  holder.ask("0-3");
  EXPECT_EQ(holder.state(), State::kHolding);
  waiter.ask("1");
  EXPECT_EQ(waiter.state(), State::kQueued);
  for (const std::string& address : {gate.address(), gate.tcp_address()}) {
    TestJob faulty(address, {.session = 99, .open = false});
    faulty.ask("0");
    EXPECT_EQ(faulty.head().status, wire::kMalformed);  // no session
    faulty.send(wire::HealthRequest{});
    EXPECT_EQ(faulty.head().status, wire::kMalformed);
    faulty.send(wire::GateOpenRequest{.session = 99});
    EXPECT_EQ(faulty.head().status, wire::kOk);
    faulty.send(wire::GateOpenRequest{.session = 98});
    EXPECT_EQ(faulty.head().status, EEXIST);
    faulty.send(wire::HealthRequest{});
    EXPECT_EQ(faulty.head().status, wire::kMalformed);
    faulty.ask("4");
    EXPECT_THAT(faulty.head().message, testing::HasSubstr("targets 0 to 3"));
    faulty.send(wire::GateAskRequest{.ticket = 1});  // no targets
    EXPECT_EQ(faulty.head().status, EINVAL);
    faulty.send(wire::GateAskRequest{.ticket = 1, .targets = {{3, 1}}});
    EXPECT_EQ(faulty.head().status, EINVAL);
    faulty.send(wire::GateRelease{7});  // never answered
    faulty.renew();
    EXPECT_EQ(faulty.head().status, ENOENT);
    faulty.send(wire::GateStatusRequest{.document = 1, .offset = ~std::uint64_t{0}});
    (void)faulty.head();
    faulty.ask("1");
    EXPECT_EQ(faulty.state(), State::kQueued);
    faulty.ask("2");
    EXPECT_EQ(faulty.head().status, EEXIST);  // a second request; the first one still waits
    const std::vector<std::byte> payload(4096);
    TestJob flood(address, 97);
    flood.send(wire::WriteRequest{.extents = {{0, 4096}}}, payload);  // gates do not accept data
    EXPECT_TRUE(flood.closed());
  }
  EXPECT_GE(status(gate)["counts"]["refused"].count(), 20u);  // of the service and of the lock table
  holder.release();
  EXPECT_EQ(waiter.state(), State::kHolding);
}

TEST_F(GateServerTest, AConnectionWithTooManyErrorsIsClosed) {
  TestGate gate(directory_, {});
  TestJob holder(gate.address(), 1), waiter(gate.address(), 2), faulty(gate.address(), 99);
  holder.ask("0");
  EXPECT_EQ(holder.state(), State::kHolding);
  waiter.ask("0");
  EXPECT_EQ(waiter.state(), State::kQueued);
  for (int i = 0; i < 1000; ++i) faulty.send(wire::GateRelease{5});
  EXPECT_TRUE(faulty.closed());
  holder.release();
  EXPECT_EQ(waiter.state(), State::kHolding);
}

TEST_F(GateServerTest, ALaterConnectionOfTheSameSessionTakesOver) {
  TestGate gate(directory_, {});
  TestJob a(gate.address(), 1);
  a.ask("0");
  EXPECT_EQ(a.state(), State::kHolding);
  TestJob again(gate.address(), {.session = 1, .ticket = 1});
  EXPECT_TRUE(a.closed());
  again.claim(Claim::kHeld, "0");
  EXPECT_EQ(again.state(), State::kHolding);
  TestJob next(gate.address(), 2);
  next.ask("0");
  EXPECT_EQ(next.state(), State::kQueued);
  TestJob once_more(gate.address(), 1);  // does not claim its turn
  EXPECT_EQ(next.state(), State::kHolding);
}

TEST_F(GateServerTest, ASessionBelongsToItsUser) {
  TestGate gate(directory_, {}, true);
  TestJob owner(gate.tcp_address(), {.session = 1, .user = 1000});
  owner.ask("0");
  EXPECT_EQ(owner.state(), State::kHolding);
  TestJob other_user(gate.tcp_address(), {.session = 1, .user = 1001});  // the same number, another session
  other_user.claim(Claim::kHeld, "0");
  EXPECT_EQ(other_user.head().status, wire::kExpired);
  other_user.release();
  const Json document = status(gate);
  EXPECT_EQ(document["targets"][0]["holders"][0]["user"], 1000);
  owner.renew();
  EXPECT_EQ(owner.state(), State::kHolding);
}

TEST_F(GateServerTest, ProcessesOfOneJobAndUserTakeOneTurn) {
  TestGate gate(directory_, {}, true);
  TestJob first(gate.tcp_address(), {.session = 1, .number = 7, .user = 1000});
  TestJob second(gate.tcp_address(), {.session = 2, .number = 7, .user = 1000});
  TestJob other(gate.tcp_address(), {.session = 3, .number = 7, .user = 1001});
  first.ask("0");
  EXPECT_EQ(first.state(), State::kHolding);
  other.ask("0");
  EXPECT_EQ(other.state(), State::kQueued);
  second.ask("0");
  EXPECT_EQ(second.state(), State::kHolding);
  EXPECT_EQ(status(gate)["targets"][0]["holders"][0]["processes"], 2);
  first.release();
  second.release();
  EXPECT_EQ(other.state(), State::kHolding);
}

// Other users than root are checked. Threads that the job starts have its user, too.
std::unique_ptr<TestJob> job_of_nobody(const TestGate& gate, TestJob::As as) {
  EXPECT_EQ(::syscall(SYS_setresuid, -1, 65534, -1), 0);  // of this thread
  auto job = std::make_unique<TestJob>(gate.address(), as);
  EXPECT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
  return job;
}

TEST_F(GateServerTest, AProcessJoinsNoTurnOfAnotherJob) {
  TUTTI_NEEDS(::geteuid() == 0, "root: to connect as another user");
  std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
  std::atomic<ApplicationId> cgroup{6};
  const auto local_job = [&](int, UserId) -> net::LocalJob { return std::optional(cgroup.load()); };
  TestGate gate(
      directory_, {}, false,
      std::make_shared<net::JobCheck>(net::JobCheck::Options{.local_job = local_job, .now = net::steady_now}));
  const auto first = job_of_nobody(gate, {.session = 1, .number = 7});
  const auto silent = job_of_nobody(gate, {.session = 2});  // of the same job, although it does not say so
  cgroup = 8;
  const auto liar = job_of_nobody(gate, {.session = 3, .number = 7});
  first->ask("0");
  EXPECT_EQ(first->state(), State::kHolding);
  silent->ask("0");
  EXPECT_EQ(silent->state(), State::kHolding);
  liar->ask("0");
  EXPECT_EQ(liar->state(), State::kQueued);
}

TEST_F(GateServerTest, WithoutTheBatchSystemAllJobsOfAUserAreOne) {
  TUTTI_NEEDS(::geteuid() == 0, "root: to connect as another user");
  struct NoAnswer : net::BatchSystem {
    Result<bool> owns(UserId, ApplicationId) override { return fail(ErrorCode::kTimeout, "no answer"); }
  };
  std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
  TestGate gate(directory_, {}, false,
                std::make_shared<net::JobCheck>(
                    net::JobCheck::Options{.batch = std::make_shared<NoAnswer>(), .now = net::steady_now}));
  const auto first = job_of_nobody(gate, {.session = 1, .number = 7});
  const auto second = job_of_nobody(gate, {.session = 2, .number = 8});
  const auto alone = job_of_nobody(gate, {.session = 3});
  first->ask("0");
  EXPECT_EQ(first->state(), State::kHolding);
  alone->ask("0");
  EXPECT_EQ(alone->state(), State::kQueued);
  second->ask("0");
  EXPECT_EQ(second->state(), State::kHolding);
  EXPECT_EQ(status(gate)["job_check"], "slurm");
}

TEST_F(GateServerTest, StatusShowsHoldersAndQueue) {
  TestGate gate(directory_, {.targets = 3, .discipline = "fifo-pass"});
  TestJob a(gate.address(), 1), b(gate.address(), 2);
  a.ask("0-1");
  EXPECT_EQ(a.state(), State::kHolding);
  b.ask("1-2");
  EXPECT_EQ(b.state(), State::kQueued);
  const Json document = status(gate);
  EXPECT_EQ(document["discipline"], "fifo-pass");
  EXPECT_EQ(document["connections"], 3);
  EXPECT_EQ(document["job_check"], "none");
  EXPECT_EQ(document["key"], false);
  EXPECT_EQ(document["targets"].size(), 3u);
  EXPECT_EQ(document["targets"][1]["state"], "active");
  EXPECT_EQ(document["targets"][1]["holders"][0]["job"], "job1");
  EXPECT_EQ(document["targets"][1]["holders"][0]["user"], geteuid());
  EXPECT_EQ(document["targets"][1]["waiting"], 1);
  EXPECT_EQ(document["targets"][2]["state"], "idle");
  EXPECT_EQ(document["queue"][0]["job"], "job2");
  EXPECT_EQ(document["queue"][0]["targets"], "1-2");
  EXPECT_EQ(document["queue"][0]["bytes"], 1 << 20);
}

TEST_F(GateServerTest, ALargeStatusIsSentInParts) {
  TestGate gate(directory_, {.targets = 2000});
  EXPECT_EQ(status(gate)["targets"].size(), 2000u);
}

TEST_F(GateServerTest, RecoversAfterACrashButNotAfterACleanEnd) {
  TestGate gate(directory_, {.lease = seconds(2)});
  EXPECT_EQ(status(gate)["recovering"], false);
  gate.stop();
  gate.start();
  EXPECT_EQ(status(gate)["recovering"], false);
  {
    TestJob holder(gate.address(), 1);
    holder.ask("0");
    EXPECT_EQ(holder.state(), State::kHolding);
    gate.stop();  // with a holder: the same as a crash
  }
  gate.start();
  EXPECT_EQ(status(gate)["recovering"], true);
  gate.stop();  // before the holder can reconnect
  gate.start();
  EXPECT_EQ(status(gate)["recovering"], true);
}

// Clients on other hosts may hold turns of a previous gate.
TEST_F(GateServerTest, RecoversOnTcpUnlessAStateFileSaysThatThePreviousGateEndedCleanly) {
  const net::ClusterKey key(32, std::byte{'k'});
  const auto recovers = [&](std::vector<std::string> addresses, const std::string& state) {
    const auto gate = GateServer::create({.addresses = std::move(addresses), .state_path = state, .key = key});
    EXPECT_TRUE(gate) << gate.error().message;
    return gate && (*gate)->recovering();
  };
  const std::string socket = directory_ / "gate.sock", tcp = "tcp:127.0.0.1:0", state = directory_ / "gate.state";
  EXPECT_TRUE(recovers({tcp}, ""));
  EXPECT_TRUE(recovers({socket, tcp}, state)) << "no file: the host may have rebooted";
  EXPECT_FALSE(recovers({socket}, directory_ / "other.state")) << "no client survives the host";
  EXPECT_TRUE(RunMarker::open(state)->set_idle());
  EXPECT_FALSE(recovers({socket, tcp}, state));
}

TEST_F(GateServerTest, HolderAndWaitersKeepTheirStateOverARestart) {
  TestGate gate(directory_, {.lease = seconds(2)});
  TimePoint place_of_first, place_of_second;
  {
    TestJob holder(gate.address(), 1), first(gate.address(), 2), second(gate.address(), 3);
    holder.ask("0");
    EXPECT_EQ(holder.state(), State::kHolding);
    first.ask("0");
    place_of_first = first.hear().arrived;
    second.ask("0");
    place_of_second = second.hear().arrived;
    gate.stop();
  }
  gate.start();
  TestJob second(gate.address(), 3), first(gate.address(), 2), holder(gate.address(), 1);
  second.claim(Claim::kWaited, "0", place_of_second);
  EXPECT_EQ(second.state(), State::kQueued);
  first.claim(Claim::kWaited, "0", place_of_first);
  EXPECT_EQ(first.state(), State::kQueued);
  holder.claim(Claim::kHeld, "0");
  EXPECT_EQ(holder.state(), State::kHolding);
  holder.release();
  EXPECT_EQ(first.state(), State::kHolding);
  first.release();
  EXPECT_EQ(second.state(), State::kHolding);
}

TEST_F(GateServerTest, OneGatePerStateFileAndSocket) {
  TestGate gate(directory_, {});
  const auto second = GateServer::create({.addresses = {directory_ / "other.sock"}, .state_path = gate.state()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kDuplicate);
  EXPECT_FALSE(GateServer::create({.addresses = {gate.address()}}));
  EXPECT_FALSE(GateServer::create({.addresses = {}}));
  EXPECT_FALSE(GateServer::create({.addresses = {"nonsense"}}));
}

}  // namespace
}  // namespace tutti::gate

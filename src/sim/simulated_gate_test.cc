// SPDX-License-Identifier: Apache-2.0
// The production gate and its clients in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gate/client.h"
#include "gate/service.h"
#include "gate/turns.h"
#include "sim/simulated_network.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using gate::GateClient;
using gate::GateOutcome;
using gate::TargetList;

constexpr Duration kLease = 10s;
constexpr Duration kAnswerBound = 2s;

// A job of one process with a gate client.
struct GateJob {
  GateJob(Simulator& simulator, SimulatedNetwork& network, std::size_t index, GateClient::Options options)
      : process(simulator, "job" + std::to_string(index)) {
    options.endpoint = *net::parse_endpoint("unix:/gate");
    options.connect.job = process.name();
    options.say = [this](const std::string& line) { said.push_back(line); };
    client = std::make_unique<GateClient>(process, network.make_transport(process, {.number = index}), options);
  }
  void begin(const char* targets = "0") {
    outcome.reset();
    client->begin(*TargetList::parse(targets), Bytes(1), [this](GateOutcome decided) {
      outcome = decided;
      decided_at = process.simulator().now();
    });
  }
  bool holds() const { return client->lease_left() > Duration::zero(); }

  Process process;
  std::unique_ptr<GateClient> client;
  std::optional<GateOutcome> outcome;
  Nanoseconds decided_at = 0;
  std::vector<std::string> said;
};

class SimulatedGateTest : public testing::Test {
 protected:
  SimulatedGateTest() { start_gate({}); }
  ~SimulatedGateTest() override {
    jobs_.clear();
    stop_gate();
  }

  GateJob& job(GateClient::Options options = {}) {
    options.answer_bound = kAnswerBound;
    jobs_.push_back(std::make_unique<GateJob>(simulator_, network_, jobs_.size(), options));
    return *jobs_.back();
  }
  void start_gate(Duration recover_for) {
    transport_ = network_.make_transport(gate_, {.station = true});
    service_ = std::move(
        *gate::GateService::create(gate_, {.table = {.targets = 4, .lease = kLease}, .recover_for = recover_for}));
    listen(*service_);
  }
  void listen(net::Handler& handler) {
    listener_.reset();
    listener_ = std::move(
        *transport_->listen(*net::parse_endpoint("unix:/gate"), gate::GateService::listen_options(), handler));
  }
  void stop_gate() {
    if (service_) (void)service_->stop();
    listener_.reset();
    service_.reset();
    transport_.reset();
  }
  // Kills the gate and starts it again after this time.
  void restart_gate(Duration after) {
    stop_gate();
    run_for(after);
    start_gate(kLease);
  }
  void run_until(const std::function<bool()>& done, Duration limit = 1h) {
    const Nanoseconds end = simulator_.now() + limit.count();
    while (!done() && simulator_.now() < end && simulator_.run_next()) check();
    ASSERT_TRUE(done()) << "at " << simulator_.now() << " ns";
  }
  void run_for(Duration time) {
    bool over = false;
    simulator_.at(simulator_.now() + time.count(), [&] { over = true; });
    while (!over && simulator_.run_next()) check();
  }
  // Checks that no two jobs hold their turns at the same time.
  void check() {
    for (const auto& a : jobs_)
      for (const auto& b : jobs_) {
        if (a == b || !a->holds() || !b->holds() || shared_.contains({a.get(), b.get()})) continue;
        ADD_FAILURE() << "two holders at " << simulator_.now() << " ns";
      }
  }
  void share(GateJob& a, GateJob& b) { shared_.insert({{&a, &b}, {&b, &a}}); }

  Simulator simulator_{1};
  SimulatedNetwork network_{simulator_, {.figures = {.latency = 50us}, .size = {.clients = 8, .stations = 1}}};
  Process gate_{simulator_, "gate"};
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<gate::GateService> service_;
  std::unique_ptr<net::Listener> listener_;
  std::vector<std::unique_ptr<GateJob>> jobs_;
  std::set<std::pair<GateJob*, GateJob*>> shared_;  // jobs that may hold at the same time
};

TEST_F(SimulatedGateTest, JobsTakeTurnsForHours) {
  GateJob &a = job(), &b = job();
  a.begin();
  run_until([&] { return a.outcome.has_value(); });
  EXPECT_EQ(a.outcome, GateOutcome::kGranted);
  b.begin();
  run_for(5min);  // many leases
  EXPECT_TRUE(a.holds());
  EXPECT_FALSE(b.outcome.has_value());
  a.client->end();
  run_until([&] { return b.outcome.has_value(); }, 1s);
  EXPECT_EQ(b.outcome, GateOutcome::kGranted);
  b.client->end();
  EXPECT_THAT(a.said, testing::IsEmpty());
}

TEST_F(SimulatedGateTest, HolderAndWaitersKeepTheirStateWhenTheGateRestarts) {
  GateJob &holder = job(), &first = job(), &second = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  first.begin();
  run_for(1ms);
  second.begin();
  run_for(1s);
  for (int i = 0; i < 3; ++i) {  // also while it recovers
    restart_gate(300ms);
    run_for(4s);
    EXPECT_TRUE(holder.holds()) << i;
  }
  run_for(15s);
  EXPECT_TRUE(holder.holds());
  EXPECT_FALSE(first.outcome || second.outcome);
  holder.client->end();
  run_until([&] { return first.outcome.has_value(); }, 1s);
  EXPECT_FALSE(second.outcome.has_value());
  first.client->end();
  run_until([&] { return second.outcome.has_value(); }, 1s);
  EXPECT_EQ(second.outcome, GateOutcome::kGranted);
  for (const auto& each : jobs_) EXPECT_THAT(each->said, testing::IsEmpty());
}

TEST_F(SimulatedGateTest, AnUnreachableGateDelaysOnePhaseAndIsUsedAgainLater) {
  GateJob& one = job();
  one.begin();
  run_until([&] { return one.outcome.has_value(); });
  one.client->end();
  stop_gate();
  run_for(1s);
  const Nanoseconds asked = simulator_.now();
  one.begin();
  run_until([&] { return one.outcome.has_value(); });
  EXPECT_EQ(one.outcome, GateOutcome::kUnreachable);
  EXPECT_NEAR(static_cast<double>(one.decided_at - asked), 2e9, 1e8);
  one.client->end();
  one.begin();  // begins at once
  EXPECT_EQ(one.outcome, GateOutcome::kUnreachable);
  one.client->end();
  EXPECT_EQ(one.said.size(), 1u);
  start_gate({});
  run_for(3s);
  one.begin();
  run_until([&] { return one.outcome.has_value(); }, 1s);
  EXPECT_EQ(one.outcome, GateOutcome::kGranted);
}

TEST_F(SimulatedGateTest, AGateThatDoesNotAnswerDelaysOnePhase) {
  GateJob &one = job(), &newcomer = job();
  one.begin();
  run_until([&] { return one.outcome.has_value(); });
  one.client->end();
  run_for(1s);
  gate_.pause();
  const Nanoseconds asked = simulator_.now();
  one.begin();
  newcomer.begin();  // has never had an answer of the gate
  run_until([&] { return one.outcome && newcomer.outcome; });
  EXPECT_EQ(one.outcome, GateOutcome::kNoAnswer);
  EXPECT_EQ(newcomer.outcome, GateOutcome::kNoAnswer);
  EXPECT_LE(one.decided_at - asked, 2'100'000'000);
  EXPECT_LE(newcomer.decided_at - asked, 2'100'000'000);
  one.client->end();
  one.begin();
  EXPECT_EQ(one.outcome, GateOutcome::kNoAnswer);
  one.client->end();
  gate_.resume();
  run_for(5s);
  one.begin();
  run_until([&] { return one.outcome.has_value(); }, 1s);
  EXPECT_EQ(one.outcome, GateOutcome::kGranted);
}

TEST_F(SimulatedGateTest, AHolderThatWasSuspendedKnowsThatItsTurnHasEnded) {
  GateJob &holder = job(), &next = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  next.begin();
  run_for(1s);
  holder.process.pause();
  run_until([&] { return next.outcome.has_value(); });
  EXPECT_EQ(next.outcome, GateOutcome::kGranted);
  EXPECT_FALSE(holder.holds());  // before it receives a message
  holder.process.resume();
  run_for(1s);
  EXPECT_FALSE(holder.holds());
  EXPECT_THAT(holder.said, testing::ElementsAre(testing::HasSubstr("lost the turn")));
  holder.client->end();
  run_for(1s);
  EXPECT_TRUE(next.holds());
}

TEST_F(SimulatedGateTest, AWaiterThatWasSuspendedAsksAgain) {
  GateJob &holder = job(), &waiter = job(), &last = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  waiter.begin();
  run_for(1s);
  waiter.process.pause();
  run_for(500ms);
  holder.client->end();  // the grant does not reach the waiter
  run_for(kLease + 1s);
  last.begin();
  run_until([&] { return last.outcome.has_value(); });
  waiter.process.resume();
  run_for(1s);
  EXPECT_FALSE(waiter.holds());
  last.client->end();
  run_until([&] { return waiter.outcome.has_value(); }, 5s);
  EXPECT_TRUE(waiter.holds());
}

TEST_F(SimulatedGateTest, AfterALostConnectionAHolderKeepsItsTurnAndAWaiterProceedsInTime) {
  GateJob &holder = job(), &waiter = job(), &later = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  waiter.begin();
  run_for(1s);
  later.begin();
  run_for(1s);
  const auto lose_messages = [&](GateJob& one) {  // neither side is notified
    network_.cut(one.process, gate_);
    run_for(5s);
    network_.heal(one.process, gate_);
    run_for(5s);
  };
  lose_messages(holder);
  EXPECT_TRUE(holder.holds());
  EXPECT_THAT(holder.said, testing::IsEmpty());
  lose_messages(waiter);
  EXPECT_EQ(waiter.outcome, GateOutcome::kNoAnswer);
  waiter.client->end();
  EXPECT_TRUE(holder.holds());
  holder.client->end();
  run_until([&] { return later.outcome.has_value(); }, 1s);
  EXPECT_EQ(later.outcome, GateOutcome::kGranted);
}

TEST_F(SimulatedGateTest, TwoProcessesOfOneJobTakeOneTurn) {
  GateJob &first = job({.number = 7}), &second = job({.number = 7}), &other = job({.number = 8});
  share(first, second);
  first.begin("0-1");
  run_until([&] { return first.outcome.has_value(); });
  other.begin("0");
  run_for(1ms);
  second.begin("1");
  run_until([&] { return second.outcome.has_value(); }, 1s);
  EXPECT_TRUE(first.holds() && second.holds());
  restart_gate(100ms);
  run_for(20s);
  EXPECT_TRUE(first.holds() && second.holds());
  first.client->end();
  run_for(1s);
  EXPECT_FALSE(other.outcome.has_value());
  second.client->end();
  run_until([&] { return other.outcome.has_value(); }, 1s);
  EXPECT_EQ(other.outcome, GateOutcome::kGranted);
}

TEST_F(SimulatedGateTest, AfterMaxWaitTheJobProceedsAndTheRequestIsWithdrawn) {
  GateJob &holder = job(), &impatient = job({.max_wait = 3s}), &patient = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  const Nanoseconds asked = simulator_.now();
  impatient.begin();
  patient.begin();
  run_until([&] { return impatient.outcome.has_value(); });
  EXPECT_EQ(impatient.outcome, GateOutcome::kTimedOut);
  EXPECT_EQ(impatient.decided_at - asked, 3'000'000'000);
  holder.client->end();
  run_until([&] { return patient.outcome.has_value(); }, 1s);
  EXPECT_EQ(patient.outcome, GateOutcome::kGranted);
}

TEST_F(SimulatedGateTest, BeginsInsideAnOpenPhaseJoinItOrWaitForItsEnd) {
  GateJob &holder = job(), &one = job();
  holder.begin("0-1");
  run_until([&] { return holder.outcome.has_value(); });
  one.begin("0-1");
  std::vector<GateOutcome> joined, uncovered;
  one.client->begin(*TargetList::parse("1"), {}, [&](GateOutcome outcome) { joined.push_back(outcome); });
  one.client->begin(*TargetList::parse("2"), {}, [&](GateOutcome outcome) { uncovered.push_back(outcome); });
  run_for(1s);
  EXPECT_TRUE(joined.empty() && uncovered.empty());
  holder.client->end();
  run_until([&] { return one.outcome.has_value(); });
  EXPECT_THAT(joined, testing::ElementsAre(GateOutcome::kGranted));
  one.client->end();
  EXPECT_TRUE(one.holds());
  EXPECT_TRUE(uncovered.empty());
  one.client->end();
  run_until([&] { return !uncovered.empty(); });
  EXPECT_THAT(uncovered, testing::ElementsAre(GateOutcome::kGranted));
  one.client->end();
}

// A gate that passes the messages of job0 to `handle`, with its own service.
class TestGate final : public net::Handler {
 public:
  using Handle = std::function<void(gate::GateService&, const net::ConnectionPointer&, net::Incoming)>;
  TestGate(gate::GateService& service, Handle handle) : service_(service), handle_(std::move(handle)) {}
  void connected(const net::ConnectionPointer& connection) override { service_.connected(connection); }
  void received(const net::ConnectionPointer& from, net::Incoming message) override {
    if (from->peer().job == "job0") return handle_(service_, from, std::move(message));
    service_.received(from, std::move(message));
  }
  void closed(const net::ConnectionPointer& connection, const Error& why) override { service_.closed(connection, why); }

 private:
  gate::GateService& service_;
  const Handle handle_;
};

// A holder that reconnects may end its phase before it receives the reply to its open.
TEST_F(SimulatedGateTest, ATurnThatEndsWhileItsHolderReconnectsIsReleased) {
  GateJob &holder = job(), &next = job();
  int opens = 0;
  TestGate gate(*service_, [&](gate::GateService& service, const net::ConnectionPointer& from, net::Incoming message) {
    const bool open = message.header.type == wire::Type::kGateOpen;
    service.received(from, std::move(message));
    if (open && ++opens == 2) holder.client->end();
  });
  listen(gate);
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  next.begin();
  network_.cut(holder.process, gate_);
  run_for(5s);
  network_.heal(holder.process, gate_);
  run_until([&] { return opens == 2; }, 3s);
  run_until([&] { return next.outcome.has_value(); }, 1s);
  EXPECT_EQ(next.outcome, GateOutcome::kGranted);
  jobs_.clear();
  stop_gate();
}

TEST_F(SimulatedGateTest, AHolderThatClosesItsConnectionDoesNotHoldAnyMore) {
  TestGate gate(*service_, [](gate::GateService& service, const net::ConnectionPointer& from, net::Incoming message) {
    if (message.header.type != wire::Type::kGateRenew) return service.received(from, std::move(message));
    from->send({.frame = wire::encode(wire::GateStatusReply{}, {.tag = message.header.tag})});  // the wrong type
  });
  listen(gate);
  GateJob &holder = job(), &next = job();
  holder.begin();
  run_until([&] { return holder.outcome.has_value(); });
  next.begin();
  run_until([&] { return next.outcome.has_value(); });  // check() fails if both hold
  EXPECT_FALSE(holder.holds());
  jobs_.clear();
  stop_gate();
}

TEST_F(SimulatedGateTest, TargetsThatTheGateDoesNotHaveAreAnError) {
  Process process(simulator_, "job");
  gate::GateTurns turns(process, network_.make_transport(process, {.number = 0}),
                        {.endpoint = *net::parse_endpoint("unix:/gate")});
  std::vector<Result<job::TurnOutcome>> outcomes;
  const auto begin = [&](TargetId target) {
    turns.begin({.targets = {target}, .bytes = Bytes(1)},
                [&](Result<job::TurnOutcome> each) { outcomes.push_back(std::move(each)); });
    run_for(1s);
  };
  begin(9);
  begin(0);
  ASSERT_EQ(outcomes.size(), 2u);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error().code, ErrorCode::kInvalid);
  ASSERT_TRUE(outcomes[1]) << "an error needs no end()";
  EXPECT_EQ(*outcomes[1], job::TurnOutcome::kGranted);
}

// The gate is killed, paused and disconnected at random times, jobs are paused, and clocks have different speeds.
class SimulatedGateFaultsTest : public SimulatedGateTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(SimulatedGateFaultsTest, NeverTwoHoldersAndNoJobIsStuck) {
  Prng prng(GetParam());
  const auto targets = [&] { return prng.chance(0.5) ? "0-1" : "1-3"; };  // all share target 1
  for (int i = 0; i < 6; ++i) {
    job({.number = i < 2 ? 7u : 0u, .max_wait = 2min});
    jobs_.back()->process.set_drift(prng.chance(0.5) ? 200e-6 : -200e-6);
    jobs_.back()->begin(targets());
  }
  share(*jobs_[0], *jobs_[1]);
  int phases = 0;
  bool up = true;
  for (int step = 0; step < 3000 && !HasFailure(); ++step) {
    run_for(Duration(static_cast<std::int64_t>(prng.below(400'000'000))));
    GateJob& one = *jobs_[prng.below(jobs_.size())];
    const std::uint64_t fault = prng.below(60);
    if (fault < 5) {
      one.process.pause();
    } else if (fault == 5) {
      gate_.pause();
    } else if (fault < 8) {
      gate_.resume();
      up ? stop_gate() : start_gate(kLease);
      up = !up;
    } else if (fault < 12) {
      network_.cut(one.process, gate_);
    } else if (fault < 20) {
      network_.heal(one.process, gate_);
    } else if (fault < 24) {
      gate_.resume();
    } else if (one.process.paused()) {
      one.process.resume();
    } else if (one.outcome) {
      ++phases;
      one.client->end();
      one.begin(targets());
    }
  }
  gate_.resume();
  if (!up) start_gate(kLease);
  for (const auto& each : jobs_) {
    each->process.resume();
    network_.heal(each->process, gate_);
  }
  for (const auto& unused : jobs_) {  // jobs that had their turn end it
    (void)unused;
    run_for(30s);
    for (const auto& each : jobs_)
      if (each->outcome) each->client->end();
  }
  for (const auto& each : jobs_) EXPECT_TRUE(each->outcome.has_value()) << each->process.name() << " is stuck";
  EXPECT_GT(phases, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulatedGateFaultsTest, testing::Range<std::uint64_t>(1, 21));

}  // namespace
}  // namespace tutti::sim

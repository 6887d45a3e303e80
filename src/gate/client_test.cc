// SPDX-License-Identifier: Apache-2.0
#include "gate/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/json.h"
#include "gate/sockets.h"
#include "gate/test_gate.h"

namespace tutti::gate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

class GateClient : public testing::Test {
 protected:
  std::unique_ptr<Client> client(const std::string& address, Duration answer = seconds(10),
                                 Duration wait = seconds(60)) {
    auto made = Client::create({.address = address,
                                .job = "test",
                                .answer_bound = answer,
                                .max_wait = wait,
                                .say = [this](const std::string& line) {
                                  std::lock_guard guard(mutex_);
                                  said_.push_back(line);
                                }});
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  std::vector<std::string> said() {
    std::lock_guard guard(mutex_);
    return said_;
  }
  // Waits until the gate says so many jobs wait.
  static void wait_for_queue(const std::string& address, std::size_t length) {
    for (int i = 0; i < 2000; ++i) {
      const auto document = query_status(address, seconds(10));
      if (document && parse_json(*document).value_or(nullptr)["queue"].size() == length) return;
      std::this_thread::sleep_for(milliseconds(5));
    }
    FAIL() << "never " << length << " in the queue";
  }
  static TargetList targets(const char* text) { return *TargetList::parse(text); }

  TemporaryDirectory directory_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(GateClient, PhasesOfTwoJobsTakeTurns) {
  TestGate gate(directory_, {}, true);
  auto a = client(gate.address()), b = client(gate.tcp_address());
  EXPECT_EQ(a->begin(targets("0"), {}), Outcome::kGranted);
  EXPECT_TRUE(a->holds());
  std::atomic<bool> ended{false};
  std::thread other([&] {
    EXPECT_EQ(b->begin(targets("0"), {}), Outcome::kGranted);
    EXPECT_TRUE(ended);
    b->end();
  });
  wait_for_queue(gate.address(), 1);
  ended = true;
  a->end();
  EXPECT_FALSE(a->holds());
  other.join();
  EXPECT_THAT(said(), testing::IsEmpty());
}

TEST_F(GateClient, WithoutAGateTheJobGoesAheadAndSaysSoOnce) {
  auto job = client(directory_ / "nothing.sock");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(job->begin(targets("*"), {}), Outcome::kUnreachable);
    EXPECT_FALSE(job->holds());
    job->end();
  }
  EXPECT_EQ(said().size(), 1u);
}

TEST_F(GateClient, AHungGateCostsTheBoundOnceAndIsFoundAgain) {
  const std::string address = directory_ / "gate.sock";
  auto job = client(address, milliseconds(200));
  {
    auto deaf = listen_on(*Address::parse(address));  // connections succeed, nobody ever answers
    ASSERT_TRUE(deaf);
    const auto start = Steady::now();
    EXPECT_EQ(job->begin(targets("*"), {}), Outcome::kSilent);
    EXPECT_GE(Steady::now() - start, milliseconds(200));
    job->end();
    const auto again = Steady::now();
    int phases = 0;
    for (; phases < 100 && Steady::now() - again < milliseconds(200); ++phases) {
      EXPECT_EQ(job->begin(targets("*"), {}), Outcome::kSilent);
      job->end();
    }
    EXPECT_GT(phases, 1) << "every phase costs the bound";
    EXPECT_EQ(said().size(), 1u);
  }
  TestGate gate(directory_, {});
  Outcome outcome = Outcome::kSilent;
  for (int i = 0; i < 2000 && outcome != Outcome::kGranted; ++i) {
    outcome = job->begin(targets("*"), {});
    job->end();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(outcome, Outcome::kGranted);
}

TEST_F(GateClient, TheLongestWaitIsKept) {
  TestGate gate(directory_, {});
  auto a = client(gate.address()), b = client(gate.address(), seconds(10), milliseconds(100));
  EXPECT_EQ(a->begin(targets("0"), {}), Outcome::kGranted);
  EXPECT_EQ(b->begin(targets("0"), {}), Outcome::kTooLong);
  b->end();
  wait_for_queue(gate.address(), 0);  // it does not stand there any longer
  a->end();
  EXPECT_EQ(b->begin(targets("0"), {}), Outcome::kGranted);
}

TEST_F(GateClient, AHolderRenewsItsLease) {
  TestGate gate(directory_, {.lease = seconds(1)});
  auto a = client(gate.address()), b = client(gate.address(), seconds(10), milliseconds(2500));
  EXPECT_EQ(a->begin(targets("0"), {}), Outcome::kGranted);
  EXPECT_EQ(b->begin(targets("0"), {}), Outcome::kTooLong) << "the lease ran out in spite of the renewals";
  EXPECT_TRUE(a->holds());
}

TEST_F(GateClient, ARestartOfTheGateIsInvisibleToHolderAndWaiters) {
  TestGate gate(directory_, {.lease = seconds(2)});
  auto holder = client(gate.address());
  EXPECT_EQ(holder->begin(targets("0"), {}), Outcome::kGranted);
  std::vector<int> order;
  std::mutex mutex;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      auto job = client(gate.address());
      EXPECT_EQ(job->begin(targets("0"), {}), Outcome::kGranted);
      {
        std::lock_guard guard(mutex);
        order.push_back(i);
      }
      job->end();
    });
    wait_for_queue(gate.address(), static_cast<std::size_t>(i) + 1);
  }
  gate.stop();
  gate.start();
  wait_for_queue(gate.address(), 3);
  for (int i = 0; i < 2000 && !holder->holds(); ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(holder->holds());
  holder->end();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(said(), testing::IsEmpty());
}

TEST_F(GateClient, ThreadsOfOneProcessShareAPhase) {
  TestGate gate(directory_, {.targets = 4});
  auto job = client(gate.address()), other = client(gate.address());
  EXPECT_EQ(job->begin(targets("0-2"), {}), Outcome::kGranted);
  EXPECT_EQ(job->begin(targets("1"), {}), Outcome::kGranted);  // joins
  job->end();
  EXPECT_TRUE(job->holds());
  std::atomic<bool> ended{false};
  std::thread uncovered([&] {
    EXPECT_EQ(job->begin(targets("3"), {}), Outcome::kGranted);
    EXPECT_TRUE(ended);
    job->end();
  });
  ended = true;
  job->end();
  uncovered.join();
  EXPECT_FALSE(job->holds());
}

TEST_F(GateClient, ManyThreadsBeginAndEnd) {
  TestGate gate(directory_, {.targets = 4});
  auto a = client(gate.address()), b = client(gate.address());
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Client& job = i % 2 == 0 ? *a : *b;
      for (int phase = 0; phase < 200; ++phase) {
        granted += job.begin(targets(i < 2 ? "0-2" : "2-3"), {}) == Outcome::kGranted;
        job.end();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 800);
}

TEST_F(GateClient, ARequestTheGateRefusesDoesNotStopTheJob) {
  TestGate gate(directory_, {.targets = 4});
  auto job = client(gate.address());
  EXPECT_EQ(job->begin(targets("7"), {}), Outcome::kRefused);
  job->end();
  EXPECT_THAT(said(), testing::ElementsAre(testing::HasSubstr("targets 0 to 3")));
  EXPECT_EQ(job->begin(targets("3"), {}), Outcome::kGranted);
}

TEST_F(GateClient, AWrongAddressIsAnErrorAtOnce) {
  EXPECT_FALSE(Client::create({.address = "nonsense", .job = "test"}));
  EXPECT_FALSE(Client::create({.address = "host:99999", .job = "test"}));
  EXPECT_EQ(Address::parse("[::1]:7700")->text(), "[::1]:7700");
  EXPECT_EQ(Address::parse("login1:7700")->port, 7700);
}

}  // namespace
}  // namespace tutti::gate

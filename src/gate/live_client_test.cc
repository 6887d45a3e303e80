// SPDX-License-Identifier: Apache-2.0
#include "gate/live_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/json.h"
#include "base/testing.h"
#include "gate/live_address.h"
#include "gate/test_gate.h"

namespace tutti::gate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

class LiveGateClientTest : public testing::Test {
 protected:
  std::unique_ptr<LiveGateClient> client(const std::string& address, Duration answer = seconds(10),
                                         Duration wait = seconds(60)) {
    auto made = LiveGateClient::create({.address = address,
                                        .job = "test",
                                        .key_file = key_file_,
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
  // Waits until `length` jobs wait at the gate.
  static void wait_for_queue(const std::string& address, std::size_t length) {
    for (int i = 0; i < 2000; ++i) {
      const auto document = query_status({.address = address, .job = "test"}, seconds(10));
      if (document && parse_json(*document).value_or(nullptr)["queue"].size() == length) return;
      std::this_thread::sleep_for(milliseconds(5));
    }
    FAIL() << "never " << length << " in the queue";
  }
  static TargetList targets(const char* text) { return *TargetList::parse(text); }

  TemporaryDirectory directory_;
  std::string key_file_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(LiveGateClientTest, PhasesOfTwoJobsTakeTurns) {
  TestGate gate(directory_, {}, true);
  key_file_ = gate.key_file();
  auto a = client(gate.address()), b = client(gate.tcp_address());
  EXPECT_EQ(a->begin(targets("0"), {}), GateOutcome::kGranted);
  EXPECT_TRUE(a->holds());
  std::atomic<bool> ended{false};
  std::thread other([&] {
    EXPECT_EQ(b->begin(targets("0"), {}), GateOutcome::kGranted);
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

TEST_F(LiveGateClientTest, WithoutAGateTheJobProceedsAndReportsItOnce) {
  auto job = client(directory_ / "nothing.sock");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(job->begin(targets("*"), {}), GateOutcome::kUnreachable);
    EXPECT_FALSE(job->holds());
    job->end();
  }
  EXPECT_EQ(said().size(), 1u);
}

TEST_F(LiveGateClientTest, AHungGateDelaysOnePhaseAndIsUsedAgainWhenItAnswers) {
  const std::string address = directory_ / "gate.sock";
  auto job = client(address, milliseconds(200));
  {
    auto endpoint = *parse_address(address);
    auto unresponsive = net::listen_on(endpoint);  // accepts connections, but never answers
    ASSERT_TRUE(unresponsive);
    const auto start = Steady::now();
    EXPECT_EQ(job->begin(targets("*"), {}), GateOutcome::kNoAnswer);
    EXPECT_GE(Steady::now() - start, milliseconds(200));
    job->end();
    const auto again = Steady::now();
    int phases = 0;
    for (; phases < 100 && Steady::now() - again < milliseconds(200); ++phases) {
      EXPECT_EQ(job->begin(targets("*"), {}), GateOutcome::kNoAnswer);
      job->end();
    }
    EXPECT_GT(phases, 1) << "every phase waits for the bound";
    EXPECT_EQ(said().size(), 1u);
  }
  TestGate gate(directory_, {});
  GateOutcome outcome = GateOutcome::kNoAnswer;
  for (int i = 0; i < 2000 && outcome != GateOutcome::kGranted; ++i) {
    outcome = job->begin(targets("*"), {});
    job->end();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(outcome, GateOutcome::kGranted);
}

TEST_F(LiveGateClientTest, ProceedsAfterMaxWait) {
  TestGate gate(directory_, {});
  auto a = client(gate.address()), b = client(gate.address(), seconds(10), milliseconds(100));
  EXPECT_EQ(a->begin(targets("0"), {}), GateOutcome::kGranted);
  EXPECT_EQ(b->begin(targets("0"), {}), GateOutcome::kTimedOut);
  b->end();
  wait_for_queue(gate.address(), 0);  // the request was withdrawn
  a->end();
  EXPECT_EQ(b->begin(targets("0"), {}), GateOutcome::kGranted);
}

TEST_F(LiveGateClientTest, AHolderRenewsItsLease) {
  TestGate gate(directory_, {.lease = seconds(1)});
  auto a = client(gate.address()), b = client(gate.address(), seconds(10), milliseconds(2500));
  EXPECT_EQ(a->begin(targets("0"), {}), GateOutcome::kGranted);
  EXPECT_EQ(b->begin(targets("0"), {}), GateOutcome::kTimedOut) << "the lease expired although it was renewed";
  EXPECT_TRUE(a->holds());
}

TEST_F(LiveGateClientTest, HolderAndWaitersKeepTheirStateWhenTheGateRestarts) {
  TestGate gate(directory_, {.lease = seconds(2)});
  auto holder = client(gate.address());
  EXPECT_EQ(holder->begin(targets("0"), {}), GateOutcome::kGranted);
  std::vector<int> order;
  std::mutex mutex;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      auto job = client(gate.address());
      EXPECT_EQ(job->begin(targets("0"), {}), GateOutcome::kGranted);
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

TEST_F(LiveGateClientTest, ThreadsOfOneProcessShareAPhase) {
  TestGate gate(directory_, {.targets = 4});
  auto job = client(gate.address()), other = client(gate.address());
  EXPECT_EQ(job->begin(targets("0-2"), {}), GateOutcome::kGranted);
  EXPECT_EQ(job->begin(targets("1"), {}), GateOutcome::kGranted);  // joins
  job->end();
  EXPECT_TRUE(job->holds());
  std::atomic<bool> ended{false};
  std::thread uncovered([&] {
    EXPECT_EQ(job->begin(targets("3"), {}), GateOutcome::kGranted);
    EXPECT_TRUE(ended);
    job->end();
  });
  ended = true;
  job->end();
  uncovered.join();
  EXPECT_FALSE(job->holds());
}

TEST_F(LiveGateClientTest, ManyThreadsBeginAndEnd) {
  TestGate gate(directory_, {.targets = 4});
  auto a = client(gate.address()), b = client(gate.address());
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      LiveGateClient& job = i % 2 == 0 ? *a : *b;
      for (int phase = 0; phase < 200; ++phase) {
        granted += job.begin(targets(i < 2 ? "0-2" : "2-3"), {}) == GateOutcome::kGranted;
        job.end();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 800);
}

TEST_F(LiveGateClientTest, ARequestTheGateRefusesDoesNotStopTheJob) {
  TestGate gate(directory_, {.targets = 4});
  auto job = client(gate.address());
  EXPECT_EQ(job->begin(targets("7"), {}), GateOutcome::kInvalid);
  job->end();
  EXPECT_THAT(said(), testing::ElementsAre(testing::HasSubstr("targets 0 to 3")));
  EXPECT_EQ(job->begin(targets("3"), {}), GateOutcome::kGranted);
}

TEST_F(LiveGateClientTest, MoreRangesThanFitIntoAMessageAreMerged) {
  TestGate gate(directory_, {.targets = 20'000});
  auto job = client(gate.address());
  std::vector<TargetId> neighbours, scattered;
  for (TargetId target = 0; target < 10'000; ++target) {
    neighbours.push_back(target);
    scattered.push_back(2 * target);
  }
  EXPECT_EQ(job->begin(TargetList::of(neighbours), {}), GateOutcome::kGranted);
  job->end();
  EXPECT_EQ(job->begin(TargetList::of(scattered), {}), GateOutcome::kGranted);
}

// Any user can make a socket in a directory that others can write to.
TEST_F(LiveGateClientTest, ASocketOfAnotherUserIsNotTrusted) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not support threads after fork()";
#endif
  TUTTI_NEEDS(geteuid() == 0, "root: to become another user");
  ASSERT_EQ(chmod(directory_.path().c_str(), 01777), 0);
  const std::string address = directory_ / "stolen.sock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other_user = fork();
  if (other_user == 0) {
    alarm(60);
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    auto server = GateServer::create({.addresses = {address}});
    if (!server || write(ready[1], "x", 1) != 1) _exit(2);
    pause();
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  auto job = client(address);
  EXPECT_EQ(job->begin(targets("*"), {}), GateOutcome::kUnreachable);
  job->end();
  EXPECT_THAT(said(), testing::ElementsAre(testing::HasSubstr("user 65534")));
  EXPECT_FALSE(query_status({.address = address, .job = "test"}, seconds(5)));
  kill(other_user, SIGKILL);
  waitpid(other_user, nullptr, 0);
  close(ready[0]);
  // The owner of a directory that only the owner can write to may run a gate there.
  EXPECT_EQ(trusted_owner("/run/x"), 0U);
  EXPECT_FALSE(trusted_owner("/tmp/x"));
}

TEST_F(LiveGateClientTest, WithoutAKeyTcpIsRefused) {
  TestGate gate(directory_, {}, true);
  auto without_key = client(gate.tcp_address());
  EXPECT_EQ(without_key->begin(targets("*"), {}), GateOutcome::kUnreachable);
  EXPECT_THAT(said(), testing::ElementsAre(testing::HasSubstr("authenticate")));
  EXPECT_FALSE(GateServer::create({.addresses = {"tcp:127.0.0.1:0"}}));
}

TEST_F(LiveGateClientTest, AForkedChildIsAnotherJobAndClosesItsCopyOfTheConnection) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not support threads after fork()";
#endif
  TestGate gate(directory_, {.lease = seconds(60)});
  const auto hold = [&](int announce) {  // in another process, with a child that lives longer
    auto parent = client(gate.address());
    if (parent->begin(targets("0"), {}) != GateOutcome::kGranted) _exit(1);
    const pid_t child = fork();
    if (child == 0) {
      parent->abandon_after_fork();
      (void)parent.release();
      auto other = client(gate.address(), seconds(10), milliseconds(200));
      const bool waited = other->begin(targets("0"), {}) == GateOutcome::kTimedOut;  // the parent holds it
      (void)!write(announce, waited ? "y" : "n", 1);
      pause();
    }
    (void)!write(announce, &child, sizeof child);
    pause();
  };
  int from[2];
  ASSERT_EQ(pipe(from), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    alarm(60);
    hold(from[1]);
  }
  close(from[1]);
  pid_t child = 0;
  char waited = 0;
  ASSERT_EQ(read(from[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ASSERT_EQ(read(from[0], &waited, 1), 1);
  EXPECT_EQ(waited, 'y');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  auto next = client(gate.address());
  EXPECT_EQ(next->begin(targets("0"), {}), GateOutcome::kGranted) << "the child keeps the parent's connection open";
  kill(child, SIGKILL);
  close(from[0]);
}

TEST_F(LiveGateClientTest, AWrongAddressIsAnErrorAtOnce) {
  EXPECT_FALSE(LiveGateClient::create({.address = "nonsense", .job = "test"}));
  EXPECT_FALSE(LiveGateClient::create({.address = "tcp:host:99999", .job = "test"}));
  EXPECT_FALSE(LiveGateClient::create({.address = "/x", .job = "test", .key_file = directory_ / "nothing"}));
  EXPECT_EQ(parse_address("/run/x")->name, "/run/x");
  EXPECT_EQ(parse_address("tcp:login1:7700")->port, 7700);
}

}  // namespace
}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// The production client and node in the simulated world.
#include <gmock/gmock.h>

#include "client/async_client.h"
#include "gate/service.h"
#include "gate/turns.h"
#include "node/node_service.h"
#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using namespace literals;

std::vector<std::byte> bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 7 + seed * 13 + i / 4096) & 0xff);
  return data;
}

class SimulatedWorld : public testing::Test {
 protected:
  void run_until(const std::function<bool()>& done, Duration limit = 600s) {
    const Nanoseconds end = cluster_->simulator().now() + limit.count();
    while (!done() && cluster_->simulator().now() < end && cluster_->simulator().run_next()) {
    }
    ASSERT_TRUE(done()) << "at " << cluster_->simulator().now() << " ns";
  }

  void sleep_for_days(int days) {
    bool awake = false;
    const Duration time = std::chrono::hours(days * 24);
    cluster_->simulator().at(cluster_->simulator().now() + time.count(), [&] { awake = true; });
    run_until([&] { return awake; }, time);
  }

  void start(std::uint64_t seed = 1, const DeviceFigures& device = {}) {
    SimulatedCluster::Options options;
    options.seed = seed;
    options.nodes = 3;
    options.content = true;
    options.cluster.stripe_size = 64_KiB;
    options.cluster.request_timeout = 5s;
    options.node.device.figures = device;
    options.network.latency = 50us;
    options.network.jitter = 20us;
    cluster_ = std::make_unique<SimulatedCluster>(options);
    client_ = &cluster_->add_client("client0");
    bool started = false;
    client_->start([&](const Result<void>& result) {
      ASSERT_TRUE(result) << result.error().message;
      started = true;
    });
    run_until([&] { return started; });
  }

  std::shared_ptr<OpenFile> open(const std::string& path) {
    std::shared_ptr<OpenFile> file;
    client_->async().open(path, {.write = true, .create = true}, [&](Result<std::shared_ptr<OpenFile>> opened) {
      ASSERT_TRUE(opened) << opened.error().message;
      file = *opened;
    });
    run_until([&] { return file != nullptr; });
    return file;
  }

  Result<std::size_t> write(OpenFile& file, std::uint64_t offset, std::span<const std::byte> from) {
    std::optional<Result<std::size_t>> result;
    file.write({{offset, from}}, [&](Result<std::size_t> done) { result = std::move(done); });
    run_until([&] { return result.has_value(); });
    return *result;
  }
  Result<std::size_t> read(OpenFile& file, std::uint64_t offset, std::span<std::byte> into) {
    std::optional<Result<std::size_t>> result;
    file.read({{offset, into}}, [&](Result<std::size_t> done) { result = std::move(done); });
    run_until([&] { return result.has_value(); });
    return *result;
  }
  Result<std::size_t> fsync(OpenFile& file) {
    std::optional<Result<std::size_t>> result;
    file.fsync(false, [&](Result<std::size_t> done) { result = std::move(done); });
    run_until([&] { return result.has_value(); });
    return *result;
  }

  std::unique_ptr<SimulatedCluster> cluster_;
  SimulatedClient* client_ = nullptr;
};

TEST_F(SimulatedWorld, ReadsReturnWrittenData) {
  start();
  const auto file = open("checkpoint");
  const auto data = bytes(1'000'000, 1);
  ASSERT_EQ(write(*file, 123, data).value_or(0), data.size());
  std::vector<std::byte> back(data.size());
  ASSERT_EQ(read(*file, 123, back).value_or(0), data.size());
  EXPECT_EQ(back, data);
  EXPECT_EQ(cluster_->volume().find("checkpoint")->size, 123 + data.size());
  ASSERT_TRUE(fsync(*file));
  EXPECT_GT(cluster_->simulator().now(), 0);
}

// The new file has the inode number of the removed one, as it happens on real file systems.
TEST_F(SimulatedWorld, AWriteDoesNotReachAnotherFileOfTheSameName) {
  start();
  const auto old = open("f");
  const std::uint64_t number = cluster_->volume().find("f")->number;
  bool removed = false;
  client_->async().unlink("f", [&](const Result<void>& done) { removed = done.has_value(); });
  run_until([&] { return removed; });
  for (int i = 0; cluster_->volume().find("f") == nullptr || cluster_->volume().find("f")->number != number; ++i) {
    ASSERT_LT(i, 10);
    cluster_->volume().make_file("f", 0);
  }
  const auto written = write(*old, 0, bytes(100, 1));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().system, ESTALE);
  EXPECT_EQ(cluster_->volume().find("f")->size, 0u);
}

TEST_F(SimulatedWorld, EqualSeedsGiveEqualRuns) {
  std::uint64_t first = 0;
  for (int run = 0; run < 2; ++run) {
    start(7);
    const auto file = open("x");
    const auto data = bytes(3'000'000, 2);
    ASSERT_TRUE(write(*file, 0, data));
    ASSERT_TRUE(fsync(*file));
    if (run == 0) first = cluster_->simulator().hash();
    EXPECT_EQ(cluster_->simulator().hash(), first);
  }
}

TEST_F(SimulatedWorld, APausedNodeIsReplacedByAStandIn) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 3);
  cluster_->node(1).process().pause();
  ASSERT_EQ(write(*file, 0, data).value_or(0), data.size());  // after the deadline and the fence time
  EXPECT_GT(cluster_->simulator().now(), 5'000'000'000);
  std::vector<std::byte> back(data.size());
  ASSERT_EQ(read(*file, 0, back).value_or(0), data.size());
  EXPECT_EQ(back, data);
}

TEST_F(SimulatedWorld, RequestsSucceedOnConnectionsOfAnyAge) {
  start();
  const auto file = open("x");
  const auto data = bytes(200'000, 6);
  ASSERT_TRUE(write(*file, 0, data));
  sleep_for_days(100);
  ASSERT_TRUE(write(*file, 0, data));
  ASSERT_TRUE(fsync(*file));
}

// Names are changed by nodes that may have sent nothing else for days.
TEST_F(SimulatedWorld, ChangesOfNamesSucceedOnConnectionsOfAnyAge) {
  start();
  open("x");
  sleep_for_days(100);
  const Nanoseconds begin = cluster_->simulator().now();
  open("y");
  bool ended = false;
  client_->async().unlink("x", [&](const Result<void>& result) {
    EXPECT_TRUE(result) << result.error().message;
    ended = true;
  });
  run_until([&] { return ended; });
  EXPECT_LT(cluster_->simulator().now() - begin, 5'000'000'000);
}

TEST_F(SimulatedWorld, SyncsAtTheSameTimeEachWaitForAllNodes) {
  start();
  const auto file = open("x");
  ASSERT_TRUE(write(*file, 0, bytes(600'000, 7)));  // on all nodes
  cluster_->node(1).process().pause();
  int ended = 0;
  for (int i = 0; i < 2; ++i)
    file->fsync(false, [&](const Result<std::size_t>& result) {
      EXPECT_TRUE(result);
      ++ended;
    });
  bool awake = false;
  cluster_->simulator().at(cluster_->simulator().now() + 1'000'000'000, [&] { awake = true; });
  run_until([&] { return awake; });
  EXPECT_EQ(ended, 0);
  cluster_->node(1).process().resume();
  run_until([&] { return ended == 2; });
}

// The device of a node needs several times the request timeout for what waits in its queue.
TEST_F(SimulatedWorld, WaitingInAQueueThatMovesIsNotALoss) {
  start(1, *device_preset("hdd-7200"));
  const auto file = open("x");
  std::uint64_t own = 0;  // a stripe on node 1
  while (locate(file->layout(), own).target != 1) own += 64 << 10;
  ASSERT_TRUE(write(*file, own, bytes(64 << 10, 1)));
  cluster_->node(1).set_slowdown(200);
  const auto data = bytes(64 << 10, 2);
  int ended = 0;
  const Nanoseconds begin = cluster_->simulator().now();
  for (std::uint64_t i = 0; i < 50; ++i)
    file->write({{own + i * (3 * 64 << 10), data}}, [&](const Result<std::size_t>& result) {
      EXPECT_TRUE(result) << result.error().message;
      ++ended;
    });
  run_until([&] { return ended == 50; });
  const Duration took(cluster_->simulator().now() - begin);
  EXPECT_GT(took, 15s) << "the test needs a slower device";
  EXPECT_LT(took, 110s) << "or a faster one";
  EXPECT_EQ(cluster_->node(1).service().statistics().refused, 0u);
  for (const std::size_t other : {0, 2})
    EXPECT_EQ(cluster_->node(other).service().statistics().batches, 0u) << "a stand-in got requests";
}

// No operation of the device ends: requests go to a stand-in after the timeout and the fence time.
TEST_F(SimulatedWorld, AQueueThatDoesNotMoveIsALoss) {
  start(1, *device_preset("hdd-7200"));
  const auto file = open("x");
  const auto data = bytes(400'000, 2);
  ASSERT_TRUE(write(*file, 0, data));
  cluster_->node(1).set_slowdown(1e9);
  const Nanoseconds begin = cluster_->simulator().now();
  ASSERT_TRUE(write(*file, 0, data));
  EXPECT_GT(cluster_->simulator().now() - begin, 7'000'000'000) << "the device has served its queue";
  EXPECT_LT(cluster_->simulator().now() - begin, 12'000'000'000);
}

// The workers of a node hang (a stuck mount), so it would apply the change after a stand-in may have taken over.
TEST_F(SimulatedWorld, ChangesAreNotAppliedAfterTheirDeadline) {
  start();
  const auto file = open("x");
  ASSERT_TRUE(write(*file, 0, bytes(100'000, 8)));
  ASSERT_TRUE(fsync(*file));
  // A stuck worker delays all posted tasks.
  for (std::size_t i = 0; i < 3; ++i) cluster_->node(i).process().delay_workers(20s);
  std::vector<ErrorCode> codes;
  const auto ended = [&](const auto& result) {
    ASSERT_FALSE(result);
    codes.push_back(result.error().code);
  };
  client_->async().open("x", {.write = true, .create = true, .truncate = true}, ended);
  client_->async().rename("x", "y", 0, ended);
  client_->async().unlink("x", ended);
  client_->async().open("z", {.write = true, .create = true}, ended);  // may be repeated at any time
  run_until([&] { return codes.size() == 4; }, 1000s);
  const Nanoseconds settled = cluster_->simulator().now() + Nanoseconds{100'000'000'000};
  while (cluster_->simulator().now() < settled && cluster_->simulator().run_next()) {
  }
  EXPECT_FALSE(cluster_->volume().find("z"));
  EXPECT_FALSE(cluster_->volume().find("y"));
  ASSERT_TRUE(cluster_->volume().find("x"));
  EXPECT_EQ(cluster_->volume().find("x")->size, 100'000U);
}

// begin_phase() takes a turn at the gate for the targets of the open files. All processes of a job share it.
TEST_F(SimulatedWorld, PhasesTakeTurnsAtTheGate) {
  start();
  SimulatedGate gate(cluster_->network(), {.table = {.targets = 3}}, 45us);
  struct Member {
    SimulatedClient* client;
    std::shared_ptr<OpenFile> file;
    bool in_phase = false;
  };
  std::vector<Member> members;
  for (const std::uint64_t number : {1, 1, 2}) {  // two processes of one job, and another job
    job::Identity identity{.number = number, .application = static_cast<ApplicationId>(number), .name = "job"};
    auto& client =
        cluster_->add_client(identity, members.size() + 1, gate.turns(members.size() + 1, number, {.max_wait = 600s}));
    members.push_back({&client, nullptr});
    bool started = false;
    client.start([&](const Result<void>& result) { started = result.has_value(); });
    run_until([&] { return started; });
    client_ = &client;
    members.back().file = open("x");
  }
  const auto begin = [&](Member& member) {
    member.client->async().core().begin_phase({.total = 1_MiB}, [&member](const Result<void>& begun) {
      ASSERT_TRUE(begun) << begun.error().message;
      member.in_phase = true;
    });
  };
  const auto wait = [&](Duration time) {
    bool awake = false;
    cluster_->simulator().at(cluster_->simulator().now() + time.count(), [&] { awake = true; });
    run_until([&] { return awake; });
  };
  for (auto& member : members) begin(member);
  wait(1s);
  EXPECT_TRUE(members[0].in_phase && members[1].in_phase);
  EXPECT_FALSE(members[2].in_phase);
  members[0].client->async().core().end_phase();
  wait(1s);
  EXPECT_FALSE(members[2].in_phase) << "the job's other process is still in the phase";
  members[1].client->async().core().end_phase();
  run_until([&] { return members[2].in_phase; }, 1s);
  members[2].client->async().core().end_phase();
  for (auto& member : members) member.client->async().core().stop();
}

// Synced data is there after a power cut, even if connections are lost.
// Turns that are granted at once. `during_end` is called in end(), before the turn has ended.
class TestTurns final : public job::Turns {
 public:
  struct Calls {
    bool open = false;
    int ends = 0;
    std::function<void()> during_end{};
  };
  explicit TestTurns(Calls& calls) : calls_(calls) {}
  void begin(const job::TurnRequest&, Done done) override {
    if (std::exchange(calls_.open, true)) return done(fail(ErrorCode::kDuplicate, "open"));
    done(job::TurnOutcome::kGranted);
  }
  void end() override {
    ++calls_.ends;
    if (calls_.during_end) std::exchange(calls_.during_end, {})();
    calls_.open = false;
  }

 private:
  Calls& calls_;
};

TEST_F(SimulatedWorld, APhaseThatGotNoTurnDoesNotEndTheTurnOfAnotherThread) {
  TestTurns::Calls calls;
  SimulatedCluster cluster({});
  Core& core = cluster.add_client({.name = "job"}, 0, [&](Process&) { return std::make_unique<TestTurns>(calls); })
                   .async()
                   .core();
  std::vector<bool> begun;
  const auto begin = [&] { core.begin_phase({}, [&](const Result<void>& result) { begun.push_back(!!result); }); };
  begin();
  calls.during_end = begin;  // another thread begins while this one ends its turn
  core.end_phase();
  EXPECT_THAT(begun, testing::ElementsAre(true, false));
  EXPECT_EQ(calls.ends, 1);
  core.end_phase();
  EXPECT_EQ(calls.ends, 1) << "there is no turn to end";
}

TEST_F(SimulatedWorld, RandomlyLostConnectionsLoseNoSyncedData) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    start(seed);
    const auto file = open("x");
    cluster_->network().lose_connections(0.05);

    for (unsigned round = 0; round < 20; ++round) {
      const auto data = bytes(300'000, round);
      // Unsynced data may be lost with the connection. Then fsync fails, and the caller writes again.
      for (bool stable = false; !stable;) {
        const Nanoseconds begin = cluster_->simulator().now();
        ASSERT_EQ(write(*file, round * 300'000, data).value_or(0), data.size());
        stable = fsync(*file).has_value();
        ASSERT_LT(cluster_->simulator().now() - begin, Nanoseconds{120'000'000'000});
      }
    }
    cluster_->network().lose_connections(0);
    for (std::size_t i = 0; i < 3; ++i) cluster_->volume().cut_power(cluster_->node(i).process());
    std::vector<std::byte> back(300'000);
    for (unsigned round = 0; round < 20; ++round) {
      ASSERT_EQ(read(*file, round * 300'000, back).value_or(0), back.size());
      EXPECT_EQ(back, bytes(300'000, round)) << "seed " << seed << ", round " << round;
    }
    EXPECT_GT(cluster_->simulator().now(), 1'000'000'000) << "no connection was lost in seed " << seed;
  }
}

// The node has lost the connection and the client is not notified. Its timeout ends the connection.
TEST_F(SimulatedWorld, AHalfOpenConnectionEndsWithTheClientsTimeout) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 9);
  ASSERT_TRUE(write(*file, 0, bytes(400'000, 8)));
  cluster_->network().forget_connections(cluster_->node(1).process());
  const Nanoseconds begin = cluster_->simulator().now();
  ASSERT_EQ(write(*file, 0, data).value_or(0), data.size());
  const Nanoseconds took = cluster_->simulator().now() - begin;
  EXPECT_GT(took, 5'000'000'000) << "request_timeout";
  EXPECT_LT(took, 9'000'000'000) << "request_timeout, fence time and one connection attempt";
  std::vector<std::byte> back(data.size());
  ASSERT_EQ(read(*file, 0, back).value_or(0), data.size());
  EXPECT_EQ(back, data);
  EXPECT_EQ(cluster_->node(1).service().statistics().connections, 1u) << "the client has reconnected";
}

// The client has lost its connections and the nodes are not notified. It reconnects; old sessions have no effect.
TEST_F(SimulatedWorld, NodesServeClientsThatReconnectAfterHalfOpenConnections) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 10);
  bool ended = false;
  file->write({{0, data}}, [&](const Result<std::size_t>& result) {
    EXPECT_EQ(result.value_or(0), data.size());
    ended = true;
  });
  cluster_->network().forget_connections(client_->process());
  run_until([&] { return ended; }, 10s);
  ASSERT_TRUE(fsync(*file));
  for (std::size_t i = 0; i < 3; ++i) cluster_->volume().cut_power(cluster_->node(i).process());
  std::vector<std::byte> back(data.size());
  ASSERT_EQ(read(*file, 0, back).value_or(0), data.size());
  EXPECT_EQ(back, data);
}

// First a node with small buffers receives 1 MB/s, then a client receives less.
TEST_F(SimulatedWorld, SlowPeersDoNotDelayOthers) {
  start();
  const auto file = open("x");
  const auto data = bytes(3'000'000, 11);
  const auto time = [&](const auto& action) {
    const Nanoseconds begin = cluster_->simulator().now();
    action();
    return Duration(cluster_->simulator().now() - begin);
  };
  cluster_->network().set_receiver(cluster_->node(1).process(), {.bytes_per_second = 1e6, .window = 4096});
  const Duration writing = time([&] { ASSERT_EQ(write(*file, 0, data).value_or(0), data.size()); });
  EXPECT_GT(writing, 800ms) << "a third of the data is on the slow node";
  EXPECT_LT(writing, 2s);
  auto& second = cluster_->add_client("second");
  bool started = false;
  second.start([&](const Result<void>& result) { started = result.has_value(); });
  run_until([&] { return started; });
  client_ = &second;
  const auto other = open("y");
  std::uint64_t offset = 0;  // of a stripe that is not on the slow node
  while (locate(other->layout(), offset).target == 1) offset += 64 << 10;
  bool ended = false;
  file->write({{0, data}}, [&](const Result<std::size_t>& result) { ended = result.has_value(); });
  EXPECT_LT(time([&] { ASSERT_TRUE(write(*other, offset, bytes(60'000, 12))); }), 100ms) << "others do not wait for it";
  EXPECT_FALSE(ended);
  run_until([&] { return ended; }, 5s);
  cluster_->network().set_receiver(cluster_->node(1).process(), {});

  cluster_->network().set_receiver(second.process(), {.bytes_per_second = 5e5, .window = 4096});
  std::vector<std::byte> back(600'000);
  const auto again = open("x");
  EXPECT_GT(time([&] { ASSERT_EQ(read(*again, 0, back).value_or(0), back.size()); }), 300ms);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin()));
}

TEST_F(SimulatedWorld, AClientUsesANodeAgainAfterItsRestart) {
  start();
  const auto file = open("x");
  const auto old = bytes(400'000, 13), fresh = bytes(400'000, 14);
  ASSERT_TRUE(write(*file, 0, old));
  ASSERT_TRUE(fsync(*file));
  bool ended = false;
  file->write({{400'000, fresh}}, [&](const Result<std::size_t>& result) {
    EXPECT_EQ(result.value_or(0), fresh.size());
    ended = true;
  });
  cluster_->node(1).kill();
  cluster_->volume().cut_power(cluster_->node(1).process());
  cluster_->simulator().at(cluster_->simulator().now() + 2'000'000'000, [&] { cluster_->node(1).start(); });
  run_until([&] { return ended; }, 30s);
  ASSERT_TRUE(fsync(*file));
  EXPECT_EQ(cluster_->node(1).service().statistics().connections, 1u);
  ASSERT_TRUE(write(*file, 800'000, fresh));
  EXPECT_GT(cluster_->node(1).service().statistics().batches, 0u) << "it serves its targets again";
  std::vector<std::byte> back(400'000);
  ASSERT_EQ(read(*file, 0, back).value_or(0), back.size());
  EXPECT_EQ(back, old);
  for (const std::uint64_t at : {400'000, 800'000}) {
    ASSERT_EQ(read(*file, at, back).value_or(0), back.size());
    EXPECT_EQ(back, fresh);
  }
}

// The new process proves that the old one, which might have applied the write, has ended.
TEST_F(SimulatedWorld, WritesAreRepeatedAtOnceWhenTheirNodeHasRestarted) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 16);
  ASSERT_TRUE(write(*file, 0, data));
  bool ended = false;
  const Nanoseconds begin = cluster_->simulator().now();
  file->write({{0, data}}, [&](const Result<std::size_t>& result) { ended = result.has_value(); });
  cluster_->node(1).kill();
  cluster_->simulator().at(begin + 500'000'000, [&] { cluster_->node(1).start(); });
  run_until([&] { return ended; });
  EXPECT_LT(cluster_->simulator().now() - begin, 3'000'000'000) << "it waited for the deadline";
}

// `gather` makes a policy wait for further requests.
TEST_F(SimulatedWorld, AClockThatIsSetBackDoesNotStopANode) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 17);
  for (std::size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(cluster_->node(i).service().set_policy("concert", {{"gather", "100ms"}}));
  ASSERT_TRUE(write(*file, 0, data));
  const Nanoseconds begin = cluster_->simulator().now();
  bool ended = false;
  file->write({{0, data}}, [&](const Result<std::size_t>& result) { ended = result.has_value(); });
  for (std::size_t i = 0; i < 3; ++i)
    cluster_->simulator().at(begin + 10'000'000, [&, i] { cluster_->node(i).process().set_clock_error(-1h); });
  run_until([&] { return ended; });
  EXPECT_LT(cluster_->simulator().now() - begin, 2'000'000'000);
}

// The page cache outlives connections and the process, but not the machine.
TEST_F(SimulatedWorld, UnsyncedWritesAreLostOnlyWithTheMachine) {
  start();
  const auto file = open("x");
  const auto data = bytes(400'000, 15);
  ASSERT_TRUE(write(*file, 0, data));
  cluster_->network().forget_connections(client_->process());
  ASSERT_TRUE(fsync(*file)) << "after a lost connection";
  ASSERT_TRUE(write(*file, 0, data));
  cluster_->node(1).kill();
  cluster_->node(1).start();
  ASSERT_TRUE(fsync(*file)) << "after a restart of the process";
  ASSERT_TRUE(write(*file, 0, data));
  cluster_->node(1).kill();
  cluster_->volume().cut_power(cluster_->node(1).process());
  cluster_->node(1).start();
  const auto lost = fsync(*file);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().system, EIO);
  ASSERT_TRUE(write(*file, 0, data));
  ASSERT_TRUE(fsync(*file)) << "the loss is reported once";
  for (std::size_t i = 0; i < 3; ++i) cluster_->volume().cut_power(cluster_->node(i).process());
  std::vector<std::byte> back(data.size());
  ASSERT_EQ(read(*file, 0, back).value_or(0), back.size());
  EXPECT_EQ(back, data);
}

TEST_F(SimulatedWorld, APowerCutLosesUnsyncedData) {
  start();
  const auto file = open("x");
  const auto old = bytes(300'000, 4), fresh = bytes(300'000, 5);
  ASSERT_TRUE(write(*file, 0, old));
  ASSERT_TRUE(fsync(*file));
  ASSERT_TRUE(write(*file, 0, fresh));
  for (std::size_t i = 0; i < 3; ++i) cluster_->volume().cut_power(cluster_->node(i).process());
  std::vector<std::byte> back(old.size());
  ASSERT_TRUE(read(*file, 0, back));
  EXPECT_EQ(back, old);
}

}  // namespace
}  // namespace tutti::sim

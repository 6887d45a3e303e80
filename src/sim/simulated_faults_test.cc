// SPDX-License-Identifier: Apache-2.0
// Faults of the simulated disks, networks, clients and gates.
#include <gmock/gmock.h>

#include <cerrno>

#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using namespace literals;

class SimulatedFaults : public testing::Test {
 protected:
  SimulatedFaults() {
    SimulatedCluster::Options options;
    options.nodes = 2;
    options.clients = 2;
    options.content = true;
    options.cluster.stripe_size = 8_KiB;
    options.cluster.request_timeout = 5s;
    options.faults = [this](std::size_t, const Operation& operation) {
      return rule_ ? rule_(operation) : std::nullopt;
    };
    cluster_ = std::make_unique<SimulatedCluster>(options);
    client_ = &cluster_->add_client("client");
    client_->start([](const Result<void>&) {});
    open();
  }

  void run_until(const std::function<bool()>& done) {
    const Nanoseconds end = now() + 600'000'000'000;
    while (!done() && now() < end && cluster_->simulator().run_next()) {
    }
    ASSERT_TRUE(done());
  }
  void run_for(Duration time) {
    const Nanoseconds end = now() + time.count();
    cluster_->simulator().at(end, [] {});
    while (now() < end && cluster_->simulator().run_next()) {
    }
  }
  void open() {
    file_ = nullptr;
    client_->async().open("x", {.write = true, .create = true},
                          [&](Result<std::shared_ptr<OpenFile>> opened) { file_ = opened.value_or(nullptr); });
    run_until([&] { return file_ != nullptr; });
  }
  // Starts a write of one block. ended_ counts.
  void write(std::uint64_t block, char content) {
    memory_.emplace_back(Inode::kBlock, static_cast<std::byte>(content));
    file_->write({{block * Inode::kBlock, memory_.back()}}, [&](const Result<std::size_t>& done) { end(done); });
  }
  void sync() {
    file_->fsync(false, [&](const Result<std::size_t>& done) { end(done); });
  }
  void end(const Result<std::size_t>& done) {
    ++ended_;
    if (!done) error_ = done.error();
  }
  void wait() {
    run_until([&] { return ended_ > 0; });
    ended_ = 0;
  }
  Nanoseconds now() const { return cluster_->simulator().now(); }
  char content(std::uint64_t block) {
    const auto inode = cluster_->volume().find("x");
    return inode->data.contains(block) ? static_cast<char>(inode->data[block][0]) : '0';
  }
  Process& node(std::size_t number) { return cluster_->node(number).process(); }

  DiskRule rule_;
  std::deque<std::vector<std::byte>> memory_;
  std::unique_ptr<SimulatedCluster> cluster_;
  SimulatedClient* client_ = nullptr;
  std::shared_ptr<OpenFile> file_;
  int ended_ = 0;
  std::optional<Error> error_;
};

TEST_F(SimulatedFaults, AnOperationCanFailAfterAPartOfItsData) {
  rule_ = [](const Operation&) { return DiskFault{.error = ENOSPC, .at_most = Inode::kBlock}; };
  const std::vector<std::byte> data(2 * Inode::kBlock, std::byte{'a'});
  file_->write({{0, data}}, [&](const Result<std::size_t>& done) { end(done); });
  wait();
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->system, ENOSPC);
  EXPECT_EQ(content(0), 'a');
  EXPECT_EQ(content(1), '0');
}

TEST_F(SimulatedFaults, ACopyIsRepeatedOnAStandInAndSynced) {
  for (std::uint64_t block = 0; block < 8; ++block) write(block, static_cast<char>('a' + block));
  run_until([&] { return ended_ == 8; });
  std::shared_ptr<OpenFile> copy;
  client_->async().open("y", {.write = true, .create = true},
                        [&](Result<std::shared_ptr<OpenFile>> opened) { copy = opened.value_or(nullptr); });
  run_until([&] { return copy != nullptr; });
  node(1).pause();
  std::size_t copied = 0;
  ended_ = 0;
  copy->copy_from(*file_, {.source_offset = 4096, .offset = 0, .length = 1 << 20},
                  [&](const Result<std::size_t>& done) {
                    copied = done.value_or(0);
                    end(done);
                  });
  run_for(1s);
  EXPECT_EQ(ended_, 0);
  cluster_->node(1).kill();
  wait();
  EXPECT_FALSE(error_) << error_->message;
  EXPECT_EQ(copied, 7u * 4096) << "up to the end of the source";
  copy->fsync(false, [&](const Result<std::size_t>& done) { end(done); });
  wait();
  EXPECT_FALSE(error_) << error_->message;
  cluster_->volume().cut_power(node(0));
  const auto inode = cluster_->volume().find("y");
  EXPECT_EQ(inode->size, 7u * 4096);
  for (std::uint64_t block = 0; block < 7; ++block)
    EXPECT_EQ(static_cast<char>(inode->data[block][0]), static_cast<char>('b' + block));
}

TEST_F(SimulatedFaults, ASlowSyncTakesEffectAtItsEnd) {
  write(0, 'a');
  wait();
  rule_ = [](const Operation&) { return DiskFault{.delay = 3s}; };
  sync();
  run_for(2s);
  EXPECT_EQ(ended_, 0);
  for (std::size_t i = 0; i < 2; ++i) cluster_->volume().cut_power(node(i));
  EXPECT_EQ(content(0), '0');
  wait();
  write(0, 'b');
  wait();
  sync();
  wait();
  EXPECT_FALSE(error_);
  for (std::size_t i = 0; i < 2; ++i) cluster_->volume().cut_power(node(i));
  EXPECT_EQ(content(0), 'b');
}

// One node has acknowledged its part and loses it, the other one is slow. The fsync in between does not cover the
// write.
TEST_F(SimulatedFaults, ASyncFailsIfAPartOfAWriteWasLostBeforeTheWriteCompleted) {
  const std::size_t lost = locate(file_->layout(), 0).target;
  node(1 - lost).pause();
  const std::vector<std::byte> data(4 * Inode::kBlock, std::byte{'a'});
  file_->write({{0, data}}, [&](const Result<std::size_t>& done) { end(done); });
  run_for(100ms);
  EXPECT_EQ(content(0), 'a');
  cluster_->node(lost).kill();
  cluster_->volume().cut_power(node(lost));
  cluster_->node(lost).start();
  run_for(1500ms);
  int syncs = 0;
  file_->fsync(false, [&](const Result<std::size_t>&) { ++syncs; });
  run_until([&] { return syncs == 1; });
  node(1 - lost).resume();
  wait();
  EXPECT_FALSE(error_);
  EXPECT_EQ(content(0), '0');
  sync();
  wait();
  EXPECT_TRUE(error_) << "the application must write again";
}

TEST_F(SimulatedFaults, HeldMessagesArriveInOrderAfterThePartition) {
  for (std::size_t i = 0; i < 2; ++i) cluster_->network().hold(client_->process(), node(i));
  write(0, 'a');
  write(0, 'b');
  run_for(2s);
  EXPECT_EQ(content(0), '0');
  for (std::size_t i = 0; i < 2; ++i) cluster_->network().heal(client_->process(), node(i));
  run_until([&] { return ended_ == 2; });
  EXPECT_EQ(content(0), 'b');
}

// The node gets the write after the client has given the connection up and its stand-in has written.
TEST_F(SimulatedFaults, HeldWritesThatArriveTooLateAreNotApplied) {
  const std::size_t owner = locate(file_->layout(), 0).target;
  cluster_->network().hold(client_->process(), node(owner));
  write(0, 'a');
  run_until([&] { return ended_ == 1; });
  write(0, 'b');
  run_until([&] { return ended_ == 2; });
  memory_.clear();
  cluster_->network().heal(client_->process(), node(owner));
  run_for(10s);
  EXPECT_EQ(content(0), 'b');
}

TEST_F(SimulatedFaults, AConnectionThatLostAMessageLosesAllLaterOnes) {
  for (std::size_t i = 0; i < 2; ++i) cluster_->network().cut(client_->process(), node(i));
  write(0, 'a');
  run_for(1s);
  for (std::size_t i = 0; i < 2; ++i) cluster_->network().heal(client_->process(), node(i));
  EXPECT_GT(cluster_->network().census().half_open, 0u);
  run_for(1s);
  EXPECT_EQ(ended_, 0) << "the client reconnects after its timeout";
  wait();
  EXPECT_FALSE(error_);
  run_for(1s);
  const auto census = cluster_->network().census();
  EXPECT_EQ(census.established, 2u);
  EXPECT_EQ(census.queued + census.in_transit, 0u);
}

TEST_F(SimulatedFaults, AClientCanBeKilledAndStartedAgain) {
  write(0, 'a');
  file_ = nullptr;
  client_->kill();
  EXPECT_EQ(ended_, 1) << "kStopped";
  run_for(1s);
  EXPECT_EQ(cluster_->node(0).service().statistics().connections, 0u);
  client_->create();
  client_->start([](const Result<void>&) {});
  open();
  ended_ = 0;
  error_.reset();
  write(1, 'b');
  wait();
  EXPECT_FALSE(error_);
  EXPECT_EQ(content(1), 'b');
}

// The file system gives the block to the machine that writes it last, and first makes the other's data stable.
TEST_F(SimulatedFaults, ABlockThatAnotherMachineOverwritesIsStableFirst) {
  const std::size_t owner = locate(file_->layout(), 0).target;
  write(0, 'a');
  wait();
  cluster_->node(owner).kill();
  write(0, 'b');
  wait();
  cluster_->volume().cut_power(node(1 - owner));
  EXPECT_EQ(content(0), 'a');
}

// One after the other would take the request timeout and the fence time for each node.
TEST(HalfOpenConnections, OfAllNodesAreFoundTogether) {
  constexpr Duration kRequestTimeout = 5s, kFence = 2s;
  SimulatedCluster::Options options;
  options.nodes = 6;
  options.clients = 1;
  options.cluster.request_timeout = kRequestTimeout;
  options.cluster.fence_time = kFence;
  SimulatedCluster cluster(options);
  SimulatedClient& client = cluster.add_client("client");
  client.start([](const Result<void>&) {});
  const auto run_until = [&](const std::function<bool()>& done) {
    while (!done() && cluster.simulator().run_next()) {
    }
  };
  std::shared_ptr<OpenFile> file;
  client.async().open("x", {.write = true, .create = true},
                      [&](Result<std::shared_ptr<OpenFile>> opened) { file = opened.value_or(nullptr); });
  run_until([&] { return file != nullptr; });
  ASSERT_TRUE(file);

  for (std::size_t node = 0; node < options.nodes; ++node)
    cluster.network().forget_connections(cluster.node(node).process());
  const std::vector<std::byte> data(4096);
  const Nanoseconds begin = cluster.simulator().now();
  bool written = false;
  file->write({{0, data}}, [&](const Result<std::size_t>& done) { written = done.has_value(); });
  run_until([&] { return written; });
  const Duration took(cluster.simulator().now() - begin);
  EXPECT_GE(took, kRequestTimeout + kFence) << "the write may have reached its node";
  EXPECT_LE(took, 2 * kRequestTimeout + kFence);
}

// A job with a low limit, at nodes with little memory. If it has several processes, most of its writes wait in sockets,
// and with them what its clients send to renew their deadlines.
class LimitedJob : public testing::Test {
 protected:
  static constexpr std::uint64_t kStripe = 64 << 10;

  void start(const std::string& limits, std::size_t clients = 8) {
    SimulatedCluster::Options options;
    options.nodes = 3;
    options.clients = clients;
    options.cluster.request_timeout = 5s;
    options.cluster.stripe_size = Bytes(kStripe);
    options.node.node.write_buffers = 4_MiB;
    options.node.node.policy = "fair";
    options.node.node.policy_options = {{"limits", limits}};
    cluster_ = std::make_unique<SimulatedCluster>(options);
    for (std::size_t i = 0; i < clients; ++i) {
      client_ = &cluster_->add_client({.application = 7, .name = "job"}, i);
      client_->start([](const Result<void>&) {});
      client_->async().open("x", {.write = true, .create = true}, [&](const Result<std::shared_ptr<OpenFile>>& opened) {
        if (opened) files_.push_back(*opened);
      });
      run_until([&] { return files_.size() > i; });
    }
  }
  ~LimitedJob() override { files_.clear(); }
  void run_until(const std::function<bool()>& done) {
    while (!done() && cluster_->simulator().run_next()) {
    }
  }
  void run_for(Duration time) {
    const Nanoseconds end = cluster_->simulator().now() + time.count();
    cluster_->simulator().at(end, [] {});
    run_until([&] { return cluster_->simulator().now() >= end; });
  }
  void write(std::size_t node, std::size_t count) {
    for (std::uint64_t offset = 0; count > 0; offset += kStripe) {
      if (locate(files_[0]->layout(), offset).target != node) continue;
      files_[--count % files_.size()]->write({{offset, data_}},
                                             [&](const Result<std::size_t>& done) { ++(done ? written_ : failed_); });
    }
  }
  Duration wait_for_writes(std::size_t count) {
    const Nanoseconds begin = cluster_->simulator().now();
    run_until([&] { return written_ + failed_ == count; });
    return Duration(cluster_->simulator().now() - begin);
  }

  const std::vector<std::byte> data_ = std::vector<std::byte>(kStripe);
  std::unique_ptr<SimulatedCluster> cluster_;
  SimulatedClient* client_ = nullptr;
  std::vector<std::shared_ptr<OpenFile>> files_;  // the same one, of each client
  std::size_t written_ = 0, failed_ = 0;
};

// Those that wait in a socket at their deadline are refused at once, and sent again.
TEST_F(LimitedJob, WritesThatExpireInASocketDoNotUseTheLimit) {
  start("*=10/s");
  write(1, 250);
  EXPECT_LT(wait_for_writes(250), 30s);
  EXPECT_EQ(failed_, 0u);
}

// The writes that have memory wait longer than the request timeout.
TEST_F(LimitedJob, WritesThatExpireInTheQueueDoNotUseTheLimit) {
  start("*=3/s");
  write(1, 100);
  EXPECT_LT(wait_for_writes(100), 45s);
  EXPECT_EQ(failed_, 0u);
}

// Else they would wait in the socket behind the writes, without an end: those expire and are sent again.
TEST_F(LimitedJob, NamesDoNotWaitBehindWrites) {
  start("*=3/s", 1);
  write(1, 100);
  std::size_t created = 0, refused = 0;
  for (int i = 0; i < 9; ++i)  // at all nodes
    client_->async().open(std::to_string(i), {.write = true, .create = true, .exclusive = true},
                          [&](const Result<std::shared_ptr<OpenFile>>& done) { ++(done ? created : refused); });
  run_for(100ms);
  EXPECT_EQ(created, 9u);
  EXPECT_EQ(refused, 0u);
  EXPECT_LT(wait_for_writes(100), 45s);
  EXPECT_EQ(failed_, 0u);
}

// Names of one connection are changed one after another: here for 10 s, with a request timeout of 5 s.
TEST_F(LimitedJob, NamesMayWaitForOthersLongerThanTheRequestTimeout) {
  start("*=100/s", 1);
  for (std::size_t node = 0; node < 3; ++node) cluster_->node(node).process().delay_workers(100ms);
  std::size_t created = 0;
  std::string error;
  for (int i = 0; i < 300; ++i)
    client_->async().open(std::to_string(i), {.write = true, .create = true, .exclusive = true},
                          [&](const Result<std::shared_ptr<OpenFile>>& done) {
                            if (!done) error = done.error().message;
                            ++created;
                          });
  run_until([&] { return created == 300; });
  EXPECT_EQ(error, "");
}

TEST_F(LimitedJob, ASyncOfADirectoryMayTakeLongerThanTheRequestTimeout) {
  start("*=100/s", 1);
  for (std::size_t node = 0; node < 3; ++node) cluster_->node(node).process().stall_workers(7s);
  std::optional<Result<void>> synced;
  const Nanoseconds begin = cluster_->simulator().now();
  client_->async().sync_directory("", [&](const Result<void>& done) { synced = done; });
  run_until([&] { return synced.has_value(); });
  EXPECT_TRUE(*synced) << synced->error().message;
  EXPECT_LT(Duration(cluster_->simulator().now() - begin), 8s) << "it is sent once";
}

// A ping waits in the socket behind the writes.
TEST_F(LimitedJob, ABusyNodeIsNotLostBecauseOfAPing) {
  start("*=3/s");
  cluster_->network().forget_connections(cluster_->node(0).process());
  write(0, 1);
  run_for(4200ms);
  write(1, 5);
  run_for(700ms);
  write(1, 100);
  wait_for_writes(106);
  EXPECT_EQ(failed_, 0u);
  EXPECT_LE(cluster_->node(2).service().statistics({}).batches, 1u) << "a stand-in got writes of the busy node";
}

}  // namespace
}  // namespace tutti::sim

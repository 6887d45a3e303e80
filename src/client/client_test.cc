// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tutti/client.h>
#include <tutti/tutti_client.h>

#include <atomic>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/prng.h"
#include "client/fake_node.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::vector<std::byte> random_bytes(Prng& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class ClientTest : public testing::Test {
 protected:
  void start(std::size_t nodes, Duration timeout = 20s, wire::Limits limits = {}) {
    static std::atomic<int> serial{0};
    const auto prefix = "client-test-" + std::to_string(serial++);
    Cluster cluster;
    for (std::size_t i = 0; i < nodes; ++i) {
      const auto name = prefix + "-" + std::to_string(i);
      nodes_.push_back(std::make_unique<FakeNode>(disk_, name, limits));
      cluster.nodes.push_back({name, "local:" + name, {static_cast<TargetId>(i)}});
    }
    cluster.stripe_size = Bytes(1000);
    cluster.request_timeout = timeout;
    cluster.fence_time = 100ms;
    options_ = {.cluster = cluster, .application = 77, .job = "test", .give_up = 20s};
  }
  void connect() {
    auto client = Client::connect(options_);
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
  }
  std::shared_ptr<File> open(const std::string& path) {
    auto file = client_->open(path, {.read = true, .write = true, .create = true});
    EXPECT_TRUE(file) << file.error().message;
    return file ? *file : nullptr;
  }
  std::vector<std::byte> content(const std::string& path) {
    std::lock_guard lock(disk_.mutex);
    return disk_.files[path];
  }
  std::size_t writes_seen() {
    std::size_t count = 0;
    for (auto& node : nodes_) {
      for (const auto& seen : node->seen()) count += seen.type == wire::Type::kWrite ? 1 : 0;
    }
    return count;
  }

  FakeDisk disk_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, ReadsItsWritesThroughManyNodes) {
  start(4);
  options_.checksums = true;
  connect();
  auto file = open("//a/./file");
  EXPECT_EQ(file->path(), "a/file");
  Prng random(5);
  std::vector<std::byte> model;
  for (int round = 0; round < 200; ++round) {
    const auto offset = random.below(20000);
    auto bytes = random_bytes(random, random.below(6000));
    if (random.chance(0.5)) {
      ASSERT_EQ(file->write(offset, bytes).value(), bytes.size());
      if (!bytes.empty()) model.resize(std::max<std::size_t>(model.size(), offset + bytes.size()));
      std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
    } else {
      const auto expected = offset >= model.size() ? 0 : std::min(bytes.size(), model.size() - offset);
      ASSERT_EQ(file->read(offset, bytes).value(), expected);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(expected),
                             model.begin() + static_cast<std::ptrdiff_t>(std::min(offset, model.size()))));
    }
  }
  EXPECT_EQ(content("a/file"), model);
  EXPECT_GT(file->time_spent().queued, 0ms);
  for (auto& node : nodes_) EXPECT_FALSE(node->seen().empty()) << "a node got nothing";
}

TEST_F(ClientTest, ListIoIsOneOperation) {
  start(4);
  connect();
  auto file = open("list");
  Prng random(6);
  const auto bytes = random_bytes(random, 9000);
  const std::span<const std::byte> all(bytes);
  std::vector<WritePart> writes;
  for (std::size_t i = 0; i < 9; ++i) writes.push_back({i * 2000, all.subspan(i * 1000, 1000)});
  ASSERT_EQ(file->write_list(writes).value(), 9000u);
  std::vector<std::byte> back(9000);
  std::vector<ReadPart> reads;
  for (std::size_t i = 9; i-- > 0;) reads.push_back({i * 2000, std::span(back).subspan(i * 1000, 1000)});
  ASSERT_EQ(file->read_list(reads).value(), 9000u);
  EXPECT_EQ(back, bytes);
  std::set<std::uint64_t> operations;
  std::size_t messages = 0;
  for (auto& node : nodes_) {
    for (const auto& seen : node->seen()) {
      operations.insert(seen.stamp.operation);
      ++messages;
    }
  }
  EXPECT_EQ(operations.size(), 2u);
  EXPECT_LE(messages, 8u) << "one message per target is enough";
}

TEST_F(ClientTest, StampsContainTheBytesOfTheBusiestTarget) {
  start(2);
  connect();
  auto file = open("stamped");
  ASSERT_TRUE(client_->begin_phase({.total = Bytes(20000)}));
  ASSERT_TRUE(file->write(0, std::vector<std::byte>(3000)));
  ASSERT_TRUE(file->write(3000, std::vector<std::byte>(1000)));
  client_->end_phase();
  ASSERT_TRUE(file->write(0, std::vector<std::byte>(1000)));
  std::map<std::uint64_t, Stamp> stamps;
  for (auto& node : nodes_) {
    for (const auto& seen : node->seen()) stamps[seen.stamp.operation] = seen.stamp;
  }
  ASSERT_EQ(stamps.size(), 3u);
  auto it = stamps.begin();
  const Stamp first = (it++)->second, second = (it++)->second, third = it->second;
  EXPECT_EQ(first.application, 77u);
  EXPECT_EQ(first.bottleneck.count(), 1500u) << "3000 of 20000 bytes, over two targets";
  EXPECT_EQ(first.attained.count(), 0u);
  EXPECT_EQ(first.phase_total.count(), 10000u);
  EXPECT_EQ(second.attained.count(), 1500u);
  EXPECT_EQ(second.phase, first.phase);
  EXPECT_EQ(third.phase, first.phase + 1);
  EXPECT_EQ(third.phase_total.count(), 2000u) << "learned from the phase before";
}

// Two processes of a job, each with half of the announced bytes: nodes see one phase of that size, also the second
// time.
TEST_F(ClientTest, ProcessesOfAnApplicationStampTheSamePhase) {
  start(2);
  options_.processes = 2;
  std::vector<std::unique_ptr<Client>> processes;
  for (int i = 0; i < 2; ++i) processes.push_back(std::move(*Client::connect(options_)));
  for (int phase = 1; phase <= 2; ++phase) {
    for (std::size_t i = 0; i < processes.size(); ++i) {
      auto file = *processes[i]->open("shared", {.write = true, .create = true});
      ASSERT_TRUE(processes[i]->begin_phase({.total = Bytes(8000)}));
      ASSERT_TRUE(file->write(i * 4000, std::vector<std::byte>(2000)));
      ASSERT_TRUE(file->write(i * 4000 + 2000, std::vector<std::byte>(2000)));
      processes[i]->end_phase();
    }
  }
  std::size_t seen_in_all = 0;
  for (auto& node : nodes_)
    for (const auto& seen : node->seen()) {
      EXPECT_EQ(seen.stamp.phase_total.count(), 4000u) << "phase " << seen.stamp.phase;
      EXPECT_EQ(seen.stamp.bottleneck.count(), 2000u);
      EXPECT_LE(seen.stamp.attained.count(), 2000u);
      ++seen_in_all;
    }
  EXPECT_EQ(seen_in_all, 16u);
}

// A file on one of eight targets: its node gets all announced bytes.
TEST_F(ClientTest, AFileOnOneTargetAnnouncesAllOfItsBytesThere) {
  start(8);
  options_.cluster.stripe_count = 1;
  connect();
  auto file = open("narrow");
  const FileLayout layout = file->layout();
  EXPECT_EQ(layout.stripe_count, 1u);
  EXPECT_EQ(layout.stripe_size.count(), 1000u);
  EXPECT_EQ(layout.source, "cluster configuration");
  ASSERT_EQ(layout.targets.size(), 1u);
  for (int phase = 1; phase <= 2; ++phase) {
    ASSERT_TRUE(client_->begin_phase({.total = Bytes(8000)}));
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(file->write(i * 2000, std::vector<std::byte>(2000)));
    client_->end_phase();
  }
  const auto seen = nodes_[layout.targets[0]]->seen();
  ASSERT_EQ(seen.size(), 8u);
  for (const auto& request : seen) EXPECT_EQ(request.stamp.phase_total.count(), 8000u) << request.stamp.phase;
  EXPECT_EQ(seen.back().stamp.attained.count(), 6000u);
  EXPECT_EQ(client_->begin_phase({.total = Bytes(~std::uint64_t{0})}).error().code, ErrorCode::kInvalid);
}

// Probe data is written only to the targets of the file's layout and removed afterwards.
TEST_F(ClientTest, ProbesTheTargetsOfAnOpenFile) {
  start(4);
  options_.cluster.stripe_count = 2;
  connect();
  const auto file = open("probed");
  const auto quiet = client_->probe(*file);
  ASSERT_TRUE(quiet) << quiet.error().message;
  EXPECT_TRUE(*quiet) << "nothing is known yet: the first round passes";
  const auto targets = file->layout().targets;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool of_file = std::ranges::find(targets, static_cast<TargetId>(i)) != targets.end();
    EXPECT_EQ(nodes_[i]->seen().size() > 0, of_file) << "node " << i;
  }
  for (const auto& [path, bytes] : disk_.files) EXPECT_EQ(path, "probed");
  auto other = std::move(*Client::connect(options_));
  EXPECT_EQ(other->probe(*file).error().code, ErrorCode::kInvalid);
}

// The other open file is not part of the phase.
TEST_F(ClientTest, APhaseOnOneOpenFileCountsItsLayoutOnly) {
  start(8);
  connect();
  const auto wide = open("wide");
  options_.cluster.stripe_count = 1;
  auto other = std::move(*Client::connect(options_));
  const auto narrow = *other->open("narrow", {.write = true, .create = true});
  const auto second = *other->open("second", {.write = true, .create = true});
  std::promise<Result<void>> begun;
  other->begin_phase_async({.total = Bytes(8000)}, narrow.get(), [&](auto result) { begun.set_value(result); });
  ASSERT_TRUE(begun.get_future().get());
  ASSERT_TRUE(narrow->write(0, std::vector<std::byte>(2000)));
  EXPECT_EQ(nodes_[narrow->layout().targets[0]]->seen().back().stamp.phase_total.count(), 8000u);
  EXPECT_EQ(other->begin_phase({.total = Bytes(8000)}, wide.get()).error().code, ErrorCode::kInvalid);
}

TEST_F(ClientTest, ProcessesCarryOutAnOperationTogetherWithOneStamp) {
  start(2);
  options_.processes = 2;
  std::vector<std::unique_ptr<Client>> processes;
  for (int i = 0; i < 2; ++i) processes.push_back(std::move(*Client::connect(options_)));
  std::vector<std::shared_ptr<File>> files;
  for (auto& process : processes) files.push_back(*process->open("shared", {.write = true, .create = true}));
  ASSERT_TRUE(processes[0]->begin_phase({.total = Bytes(4000)}));
  const TargetShare all[] = {{0, Bytes(2000)}, {1, Bytes(2000)}};
  const Stamp stamp = processes[0]->stamp_together(all);
  EXPECT_EQ(stamp.bottleneck.count(), 2000u);
  const std::vector<std::byte> bytes(2000);
  for (std::size_t i = 0; i < 2; ++i) {
    std::promise<Result<std::size_t>> done;
    files[i]->write_async({{i * 2000, bytes}}, stamp, [&](auto result) { done.set_value(std::move(result)); });
    EXPECT_EQ(done.get_future().get().value(), 2000u);
  }
  std::vector<std::byte> back(4000);
  std::promise<Result<std::size_t>> done;
  files[1]->read_async({{0, back}}, stamp, [&](auto result) { done.set_value(std::move(result)); });
  EXPECT_EQ(done.get_future().get().value(), 4000u);
  std::size_t seen_in_all = 0;
  for (auto& node : nodes_)
    for (const auto& seen : node->seen()) {
      EXPECT_EQ(seen.stamp.operation, stamp.operation);
      EXPECT_EQ(seen.stamp.issued, stamp.issued);
      EXPECT_EQ(seen.stamp.phase_total.count(), 2000u);
      ++seen_in_all;
    }
  EXPECT_EQ(seen_in_all, 6u);
}

TEST_F(ClientTest, TheGatesVariablesAreUsedAndAPhaseWithoutATurnIsReported) {
  start(1);
  options_.gate = testing::TempDir() + "tutti-no-gate.sock";
  for (const char* name : {"TUTTI_GATE_ANSWER", "TUTTI_GATE_MAX_WAIT"})
    for (const char* wrong : {"soon", "0s"}) {
      if (name == std::string("TUTTI_GATE_MAX_WAIT") && wrong == std::string("0s")) continue;  // never wait
      ::setenv(name, wrong, 1);
      const auto refused = Client::connect(options_);
      ::unsetenv(name);
      ASSERT_FALSE(refused) << name << " " << wrong;
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
    }
  testing::internal::CaptureStderr();
  {
    const auto client = Client::connect(options_);
    ASSERT_TRUE(client) << client.error().message;
    EXPECT_TRUE((*client)->begin_phase({.total = Bytes(1)}, nullptr));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("proceeding without a turn"));
}

TEST_F(ClientTest, AWrongEnvironmentIsAnError) {
  start(1);
  options_.application.reset();
  ::setenv("TUTTI_PROCESSES", "many", 1);
  const auto refused = Client::connect(options_);
  ::unsetenv("TUTTI_PROCESSES");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("TUTTI_PROCESSES: 'many'"));
  options_.cluster.order_ids = {1234, 1234};
  connect();
  auto file = open("ordered");
  ASSERT_TRUE(file->write(0, std::vector<std::byte>(1)));
  EXPECT_EQ(nodes_[0]->seen().back().stamp.order, 1234u);
}

TEST_F(ClientTest, OperationsInFlightStayWithinTheNodesLimits) {
  start(2, 20s, {.requests = 3, .bytes = 1 << 20});
  connect();
  auto file = open("async");
  for (auto& node : nodes_) node->stall();
  std::vector<std::byte> bytes(100, std::byte{7});
  std::atomic<int> left{100};
  std::promise<void> all;
  for (std::uint64_t i = 0; i < 100; ++i) {
    file->write_async({{i * 100, bytes}}, [&](const Result<std::size_t>& result) {
      EXPECT_EQ(result.value(), 100u);
      if (--left == 0) all.set_value();
    });
  }
  while (nodes_[0]->held() + nodes_[1]->held() < 6) std::this_thread::sleep_for(1ms);
  for (auto& node : nodes_) node->go_on();
  ASSERT_EQ(all.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_LE(std::max(nodes_[0]->most_held(), nodes_[1]->most_held()), 3u);
  EXPECT_EQ(content("async").size(), 10000u);
}

TEST_F(ClientTest, ThePathIsSentAgainToANodeThatForgotAFile) {
  start(1);
  connect();
  auto file = open("forgotten");
  const std::vector<std::byte> bytes(10, std::byte{3});
  ASSERT_TRUE(file->write(0, bytes));
  nodes_[0]->forget_files();
  ASSERT_TRUE(file->write(10, bytes));
  EXPECT_EQ(content("forgotten").size(), 20u);
  const auto seen = nodes_[0]->seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].path, "forgotten");
  EXPECT_EQ(seen[1].path, "");
  EXPECT_EQ(seen[2].path, "forgotten");
}

TEST_F(ClientTest, ErrorsOfTheFileSystemKeepTheirErrno) {
  start(2);
  connect();
  EXPECT_EQ(client_->open("nothing", {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(client_->status("nothing").error().system, ENOENT);
  open("something");
  EXPECT_EQ(client_->open("something", {.write = true, .create = true, .exclusive = true}).error().system, EEXIST);
  EXPECT_EQ(client_->open("a/../b", {}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(client_->make_directory("x").error().system, ENOTSUP);
  auto file = open("something");
  std::vector<std::byte> one(1);
  EXPECT_EQ(file->write(std::uint64_t{1} << 63, one).error().system, EFBIG);
}

TEST_F(ClientTest, AWriteFromBadMemoryFailsAtOnceAndAlone) {
  start(1);
  connect();
  auto bad = open("bad"), good = open("good");
  void* const memory = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::span<const std::byte> unreadable(static_cast<const std::byte*>(memory), 1000);
  const std::vector<std::byte> bytes(1000, std::byte{7});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bad->write(0, unreadable).error().system, EFAULT);
    EXPECT_EQ(good->write(0, bytes).value(), 1000u);
  }
  EXPECT_EQ(bad->write(0, bytes).value(), 1000u);
  EXPECT_EQ(content("bad"), bytes);
  ::munmap(memory, 4096);
}

TEST_F(ClientTest, AReadIntoBadMemoryFailsAtOnceAndAlone) {
  start(1);
  connect();
  auto file = open("f");
  const std::vector<std::byte> bytes(100'000, std::byte{7});
  ASSERT_TRUE(file->write(0, bytes));
  auto* const memory = static_cast<std::byte*>(::mmap(nullptr, 100'000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (const std::size_t size : {std::size_t{1000}, bytes.size()}) {
    EXPECT_EQ(file->read(0, {memory, size}).error().system, EFAULT);
    std::vector<std::byte> good(size);
    EXPECT_EQ(file->read(0, good).value(), size);
    EXPECT_EQ(good.back(), std::byte{7});
  }
  ::munmap(memory, 100'000);
}

TEST_F(ClientTest, AnotherNodeServesForADeadNode) {
  start(3, 200ms);
  connect();
  auto file = open("standin");
  std::vector<std::byte> bytes(6000, std::byte{1});
  ASSERT_TRUE(file->write(0, bytes));
  nodes_[1]->die();
  std::fill(bytes.begin(), bytes.end(), std::byte{2});
  ASSERT_EQ(file->write(0, bytes).value(), 6000u);
  EXPECT_EQ(content("standin"), bytes);
  std::vector<std::byte> back(6000);
  ASSERT_EQ(file->read(0, back).value(), 6000u);
  EXPECT_EQ(back, bytes);
  EXPECT_TRUE(file->fsync(false));
  // The owner is used again after its restart.
  nodes_[1]->start();
  const auto before = nodes_[1]->seen().size();
  for (int i = 0; i < 400 && nodes_[1]->seen().size() == before; ++i) {
    ASSERT_TRUE(file->read(0, back));
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GT(nodes_[1]->seen().size(), before);
}

TEST_F(ClientTest, ASyncMayTakeLongWhileItsNodeReportsProgress) {
  start(1, 300ms);
  options_.give_up = 500ms;
  connect();
  auto file = open("slow");
  nodes_[0]->stall();
  std::promise<Result<std::size_t>> promise;
  auto synced = promise.get_future();
  file->fsync_async(false, [&](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  for (int i = 0; i < 60; ++i) {
    nodes_[0]->report({.syncing = true});
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(synced.wait_for(0s), std::future_status::timeout) << "it waits beyond give_up";
  EXPECT_EQ(nodes_[0]->held(), 1u) << "it is sent once";
  nodes_[0]->go_on();
  EXPECT_TRUE(synced.get());
}

TEST_F(ClientTest, ASyncEndsAfterItsTimeoutAndLeavesTheConnectionOpen) {
  start(1, 10s);
  options_.sync_timeout = 200ms;
  connect();
  auto file = open("limited");
  ASSERT_TRUE(file->write(0, std::vector<std::byte>(10)));
  nodes_[0]->stall();
  EXPECT_EQ(file->fsync(false).error().code, ErrorCode::kTimeout);
  nodes_[0]->go_on();
  ASSERT_TRUE(file->write(0, std::vector<std::byte>(10)));
  EXPECT_EQ(nodes_[0]->seen().back().path, "") << "the node knows the file: the connection is the same";
}

// The stand-in must not get a write before the deadline that was renewed last, plus the fence time.
TEST_F(ClientTest, WritesInAQueueThatMovesAreRenewed) {
  start(2, 400ms);
  connect();
  auto file = open("queued");
  const std::vector<std::byte> bytes(1000);
  const std::uint64_t first = file->layout().targets.front() == 0 ? 0 : 1000;  // a stripe of node 0
  nodes_[0]->stall();
  std::promise<Result<std::size_t>> promise;
  auto written = promise.get_future();
  file->write_async({{first, bytes}}, [&](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  while (nodes_[0]->held() == 0) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 50; ++i) {
    nodes_[0]->report({.moving = true});
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(nodes_[0]->held(), 1u) << "it is sent once";
  nodes_[0]->die();
  ASSERT_TRUE(written.get());
  ASSERT_FALSE(nodes_[1]->seen().empty());
  EXPECT_GE(nodes_[1]->seen().back().at, nodes_[0]->renewed() + 100ms);
  EXPECT_GT(nodes_[0]->renewed(), TimePoint{});
}

// The sync waits at the client for the limits of its node. Then the machine of that node is lost with its page cache.
TEST_F(ClientTest, ASyncIsNotMovedToAnotherMachine) {
  start(2, 5s, {.requests = 2});
  for (std::uint8_t i = 0; i < 2; ++i) {
    nodes_[i]->die();
    nodes_[i]->start(i + 1);
  }
  options_.give_up = 30s;
  connect();
  auto file = open("machines");
  const std::uint64_t first = file->layout().targets.front() == 0 ? 0 : 1000;  // a stripe of node 0
  const std::vector<std::byte> bytes(1000, std::byte{1});
  ASSERT_TRUE(file->write(first, bytes));
  nodes_[0]->stall();
  std::promise<bool> written[2];
  for (std::uint64_t i = 0; i < 2; ++i)
    file->write_async({{first + 2000 * (i + 1), bytes}},
                      [&, i](const Result<std::size_t>& result) { written[i].set_value(result.has_value()); });
  while (nodes_[0]->held() < 2) std::this_thread::sleep_for(1ms);
  std::promise<Result<std::size_t>> promise;
  file->fsync_async(false, [&](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  nodes_[0]->die();
  nodes_[0]->start(3);  // after a boot
  const auto synced = promise.get_future().get();
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().system, EIO);
  EXPECT_THAT(synced.error().message, HasSubstr("write them again"));
  for (const auto& seen : nodes_[1]->seen()) EXPECT_NE(seen.type, wire::Type::kFsync);
  nodes_[0]->go_on();
  for (auto& one : written) EXPECT_TRUE(one.get_future().get());
  EXPECT_TRUE(file->fsync(false)) << "the loss is reported once";
}

TEST_F(ClientTest, AWriteIsSentToAnotherNodeOnlyWhenThePausedNodeCanNoLongerApplyIt) {
  start(2, 300ms);
  connect();
  auto file = open("fenced");
  const std::vector<std::byte> old_bytes(4000, std::byte{1}), new_bytes(4000, std::byte{2});
  ASSERT_TRUE(file->write(0, old_bytes));
  ASSERT_TRUE(file->write(0, old_bytes));  // the nodes know the path
  nodes_[0]->stall();
  const auto seen_before = nodes_[1]->seen().size();
  const auto start = net::steady_now();
  ASSERT_TRUE(file->write(0, old_bytes));
  // Timeout plus fence time have passed before the other node got the requests of the paused node.
  const auto seen = nodes_[1]->seen();
  ASSERT_GE(seen.size(), seen_before + 2);
  EXPECT_GE(seen.back().at - start, 300ms + 100ms);
  EXPECT_EQ(seen.back().target, nodes_[0]->seen().front().target) << "it is the other node's stripe";
  // The application continues. Then the paused node resumes and must not apply its old requests.
  ASSERT_TRUE(file->write(0, new_bytes));
  nodes_[0]->go_on();
  EXPECT_EQ(content("fenced"), new_bytes);
}

TEST_F(ClientTest, TheLongerFenceTimeOfNodeAndClientIsUsed) {
  start(2, 300ms);
  nodes_[0]->die();
  nodes_[0]->start({}, 700ms);
  connect();
  auto file = open("longer");
  const std::vector<std::byte> bytes(4000);
  ASSERT_TRUE(file->write(0, bytes));
  nodes_[0]->stall();
  const auto begin = net::steady_now();
  ASSERT_TRUE(file->write(0, bytes));
  EXPECT_GE(nodes_[1]->seen().back().at - begin, 300ms + 700ms);
  nodes_[0]->go_on();
}

// Without the deadline the late write would overwrite the newer one.
TEST_F(ClientTest, ANodeThatIgnoredDeadlinesWouldDamageTheFile) {
  start(2, 200ms);
  connect();
  auto file = open("unfenced");
  const std::vector<std::byte> old_bytes(4000, std::byte{1}), new_bytes(4000, std::byte{2});
  ASSERT_TRUE(file->write(0, old_bytes));
  nodes_[0]->ignore_deadlines();
  nodes_[0]->stall();
  ASSERT_TRUE(file->write(0, old_bytes));
  ASSERT_TRUE(file->write(0, new_bytes));
  nodes_[0]->go_on();
  EXPECT_NE(content("unfenced"), new_bytes);
}

TEST_F(ClientTest, AfterTheTimeLimitThereIsAnError) {
  start(2, 100ms);
  options_.give_up = 500ms;
  connect();
  auto file = open("silent");
  for (auto& node : nodes_) node->stall();
  const auto start = net::steady_now();
  const std::vector<std::byte> bytes(2000);
  auto result = file->write(0, bytes);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTimeout);
  EXPECT_LT(net::steady_now() - start, 15s);
  for (auto& node : nodes_) node->go_on();
}

TEST_F(ClientTest, RequestsThatAreNotIdempotentAreNotRepeated) {
  start(2, 200ms);
  connect();
  open("victim");
  for (auto& node : nodes_) node->stall();
  auto result = client_->unlink("victim");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnreachable);
  EXPECT_THAT(result.error().message, HasSubstr("may or may not"));
  // The other node may have got a ping.
  EXPECT_EQ(nodes_[0]->held(wire::Type::kUnlink) + nodes_[1]->held(wire::Type::kUnlink), 1u);
  for (auto& node : nodes_) node->go_on();
}

TEST_F(ClientTest, SaysWhatOperationsWaitFor) {
  start(2);
  connect();
  auto file = open("slow");
  std::vector<std::byte> bytes(2000);
  ASSERT_TRUE(file->write(0, bytes));
  EXPECT_EQ(client_->waiting_for(0s), "");
  for (auto& node : nodes_) node->stall();
  std::promise<Result<std::size_t>> promise;
  file->read_async({{0, bytes}}, [&](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  EXPECT_THAT(client_->waiting_for(0s),
              HasSubstr("has not answered for 0 s; after 20 s its requests are sent to another node"));
  EXPECT_EQ(client_->waiting_for(1h), "");
  for (auto& node : nodes_) node->go_on();
  EXPECT_TRUE(promise.get_future().get());
  for (auto& node : nodes_) node->stall();
  file.reset();  // closes the file; the replies are not waited for
  EXPECT_EQ(client_->waiting_for(0s), "");
  for (auto& node : nodes_) node->go_on();
}

TEST_F(ClientTest, ClosingTheClientFailsOperationsInFlight) {
  start(2);
  connect();
  auto file = open("closing");
  for (auto& node : nodes_) node->stall();
  std::promise<Result<std::size_t>> promise;
  std::vector<std::byte> bytes(2000);
  file->read_async({{0, bytes}}, [&](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  client_.reset();
  EXPECT_FALSE(promise.get_future().get());
  EXPECT_EQ(file->read(0, bytes).error().code, ErrorCode::kStopped);
  for (auto& node : nodes_) node->go_on();
}

TEST_F(ClientTest, TheCApiWorks) {
  start(2);
  const auto path = testing::TempDir() + "tutti-c-api.toml";
  Cluster saved = options_.cluster;
  saved.stripe_size = Bytes(4096);
  ASSERT_TRUE(save_cluster(saved, path));
  tutti_client* client = nullptr;
  ASSERT_EQ(tutti_client_connect("/does/not/exist.toml", &client), -ENOENT);
  EXPECT_THAT(tutti_client_error(), HasSubstr("exist.toml"));
  ASSERT_EQ(tutti_client_connect(path.c_str(), &client), 0) << tutti_client_error();
  tutti_file* file = nullptr;
  EXPECT_EQ(tutti_client_open(client, "c", O_RDWR, 0644, &file), -ENOENT);
  EXPECT_EQ(tutti_client_open(client, "c", O_RDWR | O_APPEND, 0644, &file), -EINVAL);
  ASSERT_EQ(tutti_client_open(client, "c", O_RDWR | O_CREAT, 0644, &file), 0);
  std::string text(3000, 'x');
  EXPECT_EQ(tutti_client_begin_phase(client, ~UINT64_C(0), 1), -EINVAL);
  EXPECT_EQ(tutti_client_begin_phase_files(client, 3000, 1, 2), -EINVAL);
  EXPECT_EQ(tutti_client_begin_phase_files(client, 3000, 1, TUTTI_ONE_FILE_PER_PROCESS), 0);
  EXPECT_EQ(tutti_client_begin_phase_on(client, file, 3000, 1, TUTTI_SHARED_FILES), 0);
  EXPECT_EQ(tutti_file_write(file, text.data(), text.size(), 0), 3000);
  EXPECT_EQ(tutti_file_sync(file, 0), 0);
  tutti_client_end_phase(client);
  std::string back(4000, ' ');
  const tutti_part parts[] = {{0, back.data(), 1000}, {1000, back.data() + 1000, 3000}};
  EXPECT_EQ(tutti_file_read_list(file, parts, 2), 3000);
  EXPECT_EQ(back.substr(0, 3000), text);
  std::promise<ssize_t> promise;
  tutti_file_read_async(
      file, parts, 1,
      [](void* context, ssize_t result) { static_cast<std::promise<ssize_t>*>(context)->set_value(result); }, &promise);
  EXPECT_EQ(promise.get_future().get(), 1000);
  struct stat status {};
  ASSERT_EQ(tutti_client_stat(client, "c", 1, &status), 0);
  EXPECT_EQ(status.st_size, 3000);
  EXPECT_EQ(tutti_client_unlink(client, "c"), 0);
  EXPECT_EQ(tutti_client_stat(client, "c", 1, &status), -ENOENT);
  EXPECT_EQ(tutti_file_close(file), 0);
  tutti_client_close(client);
  std::remove(path.c_str());
}

TEST_F(ClientTest, TheUmaskIsAppliedToModes) {
  start(1);
  const auto before = ::umask(027);
  connect();
  ::umask(before);
  ASSERT_TRUE(client_->open("masked", {.write = true, .create = true, .mode = 0666}));
  EXPECT_EQ(client_->status("masked")->mode & 0777, 0640u);
}

TEST_F(ClientTest, NoReachableNodeIsAnError) {
  options_.cluster.nodes = {{"x", "local:no-such-node", {0}}};
  auto client = Client::connect(options_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, ErrorCode::kUnreachable);
}

TEST_F(ClientTest, ThreadsShareAClient) {
  start(3);
  connect();
  auto file = open("threads");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::byte> bytes(2500, static_cast<std::byte>(t + 1));
      for (std::size_t i = 0; i < 20; ++i) ASSERT_TRUE(file->write((i * 4 + t) * 2500, bytes));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto all = content("threads");
  ASSERT_EQ(all.size(), 200000u);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::byte>(i / 2500 % 4 + 1));
}

}  // namespace
}  // namespace tutti

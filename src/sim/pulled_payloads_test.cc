// SPDX-License-Identifier: Apache-2.0
// Writes beyond the credit of a connection: the node pulls their payloads.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using namespace literals;

class PulledPayloads : public testing::Test {
 protected:
  struct Job {
    SimulatedClient* client = nullptr;
    std::shared_ptr<OpenFile> file{};
    std::vector<std::byte> data{};
    std::size_t done = 0;
    std::size_t failed = 0;
    Duration longest{};  // of its writes
  };

  void start(Bytes write_buffers, const DeviceFigures& device = FixedFigures{.latency = 1ms, .bandwidth = 1e9}) {
    options_.content = true;
    options_.cluster.stripe_size = 64_MiB;
    options_.cluster.request_timeout = request_timeout_;
    options_.node.device.figures = device;
    options_.node.node.write_buffers = write_buffers;
    options_.faults = [this](std::size_t, const Operation& operation) {
      if (operation.kind == Operation::Kind::kWrite) written(operation);
      return std::optional<DiskFault>();
    };
    cluster_ = std::make_unique<SimulatedCluster>(options_);
  }
  void written(const Operation& operation) { writes_ += static_cast<const char*>(operation.memory[0].iov_base)[0]; }

  Job& add(const std::string& name, std::size_t size, ApplicationId application = 0) {
    Job& job = jobs_.emplace_back();
    job.data.assign(size, static_cast<std::byte>(name[0]));
    job::Identity identity{.name = name};
    if (application != 0) identity.application = application;
    job.client = &cluster_->add_client(identity, jobs_.size() - 1);
    job.client->start([](const Result<void>&) {});
    job.client->async().open(name, {.write = true, .create = true},
                             [&](Result<std::shared_ptr<OpenFile>> opened) { job.file = opened.value_or(nullptr); });
    run_until([&] { return job.file != nullptr; });
    run_for(1ms);  // its credit has arrived
    return job;
  }
  void write(Job& job, std::uint64_t offset = 0) {
    job.file->write({{offset, job.data}}, [this, &job, begun = now()](const Result<std::size_t>& done) {
      ++job.done;
      if (!done) ++job.failed, error_ = done.error();
      job.longest = std::max(job.longest, Duration(now() - begun));
    });
  }
  // A write after the other.
  void write_again_and_again(Job& job, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t before = job.done;
      write(job);
      run_until([&] { return job.done > before; });
    }
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
  Nanoseconds now() const { return cluster_->simulator().now(); }
  NodeService& service() { return cluster_->node(0).service(); }
  bool settled() {
    const auto statistics = service().statistics();
    return service().idle() && statistics.buffer_bytes == 0 && statistics.waiting == 0 && statistics.in_flight == 0;
  }
  char content(const std::string& name) {
    const auto inode = cluster_->volume().find(name);
    return inode->data.contains(0) ? static_cast<char>(inode->data[0][0]) : '0';
  }
  Process& node() { return cluster_->node(0).process(); }

  SimulatedCluster::Options options_;
  Duration request_timeout_ = 5s;
  std::deque<Job> jobs_;
  std::string writes_;  // jobs, in the order in which the device gets their writes
  std::optional<Error> error_;
  std::unique_ptr<SimulatedCluster> cluster_;  // destroyed first: its clients complete their writes then
};

TEST_F(PulledPayloads, DataArrivesWithAndWithoutCredit) {
  start(64_MiB);
  Job& job = add("a", 48 << 20);  // its credit is 32 MiB
  write(job);
  run_until([&] { return job.done == 1; });
  EXPECT_EQ(job.failed, 0u);
  const auto inode = cluster_->volume().find("a");
  EXPECT_EQ(inode->size, job.data.size());
  for (const auto& [block, bytes] : inode->data) ASSERT_EQ(static_cast<char>(bytes[17]), 'a') << block;
  EXPECT_TRUE(settled());
}

// Within credits there is no additional round trip, and none of them costs others their credit.
TEST_F(PulledPayloads, WritesWithinTheCreditTakeOneRoundTrip) {
  options_.network.latency = 10ms;
  start(64_MiB, FixedFigures{.latency = 0s, .bandwidth = 0});
  Job& job = add("a", 4 << 20);
  write_again_and_again(job, 3);
  EXPECT_LT(job.longest, 25ms);
  jobs_.clear();
  start(8_MiB, FixedFigures{.latency = 0s, .bandwidth = 0});
  Job& other = add("a", 4 << 20);  // has no credit
  write_again_and_again(other, 3);
  EXPECT_GT(other.longest, 39ms);
  EXPECT_LT(other.longest, 45ms);
}

TEST_F(PulledPayloads, SilentClientsDoNotDelayOthers) {
  start(32_MiB);
  for (int i = 0; i < 4; ++i) add("s" + std::to_string(i), 16 << 20);
  Job& small = add("a", 1 << 20);
  Job& large = add("b", 8 << 20);
  write_again_and_again(small, 10);
  write_again_and_again(large, 10);
  const Duration alone_small = small.longest, alone_large = large.longest;
  for (int i = 0; i < 4; ++i) {
    write(jobs_[i]);
    jobs_[i].client->process().pause();  // nothing that is pulled from it will come
  }
  run_for(1ms);
  small.longest = large.longest = {};
  write_again_and_again(small, 10);
  write_again_and_again(large, 10);
  EXPECT_LT(small.longest, 2 * alone_small);
  EXPECT_LT(large.longest, alone_large + 4 * node::DataPath::kPullPatience);
  EXPECT_EQ(small.failed + large.failed, 0u);
}

// The payloads of the silent clients are pulled first, and each of them is as large as the memory.
TEST_F(PulledPayloads, ASilentClientHoldsNoMemoryAndIsDisconnected) {
  start(8_MiB);
  Job& silent = add("s", 16 << 20);
  Job& job = add("a", 4 << 20);
  write(silent);
  silent.client->process().pause();
  run_for(100ms);
  EXPECT_EQ(service().statistics().buffer_bytes, 0u);
  write_again_and_again(job, 1);
  EXPECT_LT(job.longest, 100ms);
  EXPECT_EQ(cluster_->network().census().established, 2u);
  run_for(20s);  // 10 s and 4 s for 4 MiB
  EXPECT_EQ(cluster_->network().census().established, 1u);
  EXPECT_TRUE(settled());
  silent.client->process().resume();
  run_until([&] { return silent.done == 1; });
  EXPECT_EQ(silent.failed, 0u) << "it is written through a new connection";
  EXPECT_EQ(content("s"), 's');
}

// Ten batches of a silent client are dispatched, although only one may be in flight.
TEST_F(PulledPayloads, BatchesOfLateClientsDoNotUseTheQueueDepth) {
  options_.node.node.depth = 1;
  start(8_MiB);
  Job& silent = add("s", 40 << 20);
  Job& job = add("a", 4 << 20);
  write(silent);
  silent.client->process().pause();
  run_for(1ms);
  write_again_and_again(job, 5);
  EXPECT_LT(job.longest, 10 * node::DataPath::kPullPatience);
  EXPECT_EQ(job.failed, 0u);
}

// Each of them could delay others for kPullPatience.
TEST_F(PulledPayloads, ManySilentClientsDoNotTakeTurnsInTheQueueDepth) {
  options_.node.node.depth = 1;
  start(8_MiB);
  constexpr int kSilent = 40;
  for (int i = 0; i < kSilent; ++i) add("s" + std::to_string(i), 128 << 10);
  Job& job = add("a", 4096);
  for (int i = 0; i < kSilent; ++i) {
    write(jobs_[i]);
    jobs_[i].client->process().pause();
  }
  run_for(1ms);
  write_again_and_again(job, 5);
  EXPECT_LT(job.longest, 3 * node::DataPath::kPullPatience);
  EXPECT_EQ(job.failed, 0u);
}

// The extents of a list are batches, which wait for one payload: all lists are asked for theirs at once.
TEST_F(PulledPayloads, TheBatchesOfAListTakeOnePlaceOfTheQueueDepth) {
  constexpr std::size_t kLists = 4, kExtents = 32;
  options_.node.node.depth = kLists;
  options_.node.node.policy = "fifo";
  options_.network.latency = 20ms;
  start(8_MiB, FixedFigures{.latency = 100us, .bandwidth = 0});
  for (std::size_t i = 0; i < kLists; ++i) add(std::string(1, static_cast<char>('a' + i)), 1 << 20);
  Job& small = add("s", 4096);
  for (std::size_t i = 0; i < kLists; ++i) {
    Job& job = jobs_[i];
    std::vector<WritePart> parts;
    const std::size_t length = job.data.size() / kExtents;
    for (std::size_t part = 0; part < kExtents; ++part)
      parts.push_back({2 * part * length, std::span<const std::byte>(job.data).subspan(part * length, length)});
    job.file->write(parts, [&job](const Result<std::size_t>& done) { job.done += done.has_value(); });
  }
  run_for(1ms);
  write_again_and_again(small, 1);
  EXPECT_LT(small.longest, 100ms) << "it waited for one list after the other";
  run_until([&] { return std::ranges::all_of(jobs_, [](const Job& job) { return job.done == 1; }); });
  EXPECT_TRUE(settled());
}

// Each write has two extents, and policy `hbrr` serves the first one of each file before the second ones. The memory is
// enough for four writes. They hold it until their second extents are served, behind writes that get no memory.
TEST_F(PulledPayloads, WritesThatHoldMemoryAreNotStuckBehindThoseThatWaitForIt) {
  options_.node.node.depth = 1;
  options_.node.node.policy = "hbrr";
  options_.node.node.policy_options = {{"quantum", "1"}};
  start(8_MiB, FixedFigures{.latency = 20ms, .bandwidth = 0});
  Job& first = add("z", 4 << 10);
  for (int i = 0; i < 8; ++i) add(std::string(1, static_cast<char>('a' + i)), 4 << 20);
  write(first);
  run_for(1ms);
  for (std::size_t i = 1; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    const std::span<const std::byte> data(job.data);
    const std::size_t half = data.size() / 2;
    job.file->write({{0, data.first(half)}, {32 << 20, data.subspan(half)}},
                    [this, &job, begun = now()](const Result<std::size_t>& done) {
                      ++job.done;
                      job.failed += !done;
                      job.longest = Duration(now() - begun);
                    });
  }
  run_until([&] { return std::ranges::all_of(jobs_, [](const Job& job) { return job.done == 1; }); });
  for (std::size_t i = 1; i < jobs_.size(); ++i) {
    EXPECT_EQ(jobs_[i].failed, 0u);
    EXPECT_LT(jobs_[i].longest, 2s);
  }
  EXPECT_EQ(writes_.size(), 17u) << "none was repeated: " << writes_;
}

// Its memory was given to others, who want all that becomes free.
TEST_F(PulledPayloads, APayloadThatWasLateGetsMemoryBeforeNewOnes) {
  start(8_MiB, FixedFigures{.latency = 5ms, .bandwidth = 0});
  Job& late = add("l", 4 << 20);
  for (int i = 0; i < 8; ++i) add(std::string(1, static_cast<char>('a' + i)), 4 << 20);
  bool streaming = true;
  std::function<void(Job&)> stream = [&](Job& job) {
    job.file->write({{0, job.data}}, [&](const Result<std::size_t>&) {
      if (streaming) stream(job);
    });
  };
  cluster_->network().hold(node(), late.client->process());
  write(late);
  run_for(10ms);  // the node has sent its Pull
  cluster_->network().hold(late.client->process(), node());
  cluster_->network().heal(node(), late.client->process());
  for (std::size_t i = 1; i < jobs_.size(); ++i)
    for (int k = 0; k < 3; ++k) stream(jobs_[i]);
  run_for(500ms);
  EXPECT_EQ(late.done, 0u);
  cluster_->network().heal(late.client->process(), node());
  const Nanoseconds healed = now();
  run_until([&] { return late.done == 1; });
  EXPECT_LT(now() - healed, Duration(1s).count());
  EXPECT_EQ(late.failed, 0u);
  EXPECT_EQ(std::ranges::count(writes_, 'l'), 1) << "not repeated";
  streaming = false;
  run_for(5s);
}

TEST_F(PulledPayloads, AClientThatDiesBeforeItsTurnLeavesNothing) {
  options_.node.node.depth = 1;
  start(8_MiB, FixedFigures{.latency = 1s, .bandwidth = 0});
  Job& first = add("a", 4 << 20);
  Job& killed = add("k", 64 << 20);
  for (int i = 0; i < 40; ++i) write(first, static_cast<std::uint64_t>(i) << 22);
  run_for(10ms);
  write(killed);
  run_for(10ms);
  killed.file = nullptr;
  killed.client->kill();
  cluster_->network().kill_connections(killed.client->process());
  run_until([&] { return first.done == 40; });
  run_for(20s);
  EXPECT_TRUE(settled());
  EXPECT_EQ(first.failed, 0u);
  EXPECT_EQ(cluster_->volume().find("k")->size, 0u);
}

// 8 MiB of memory, 100 MiB in the queue. Policy `window` serves the application with the lowest number first.
TEST_F(PulledPayloads, ThePolicyOrdersMoreThanTheMemoryHolds) {
  options_.node.node.policy = "window";
  options_.node.node.policy_options = {{"width", "1000s"}};
  options_.node.node.depth = 2;
  start(8_MiB, FixedFigures{.latency = 100ms, .bandwidth = 0});
  for (ApplicationId application = 5; application >= 1; --application)
    add(std::string(1, static_cast<char>('0' + application)), 20 << 20, application);
  for (Job& job : jobs_) write(job);
  run_until([&] { return std::ranges::all_of(jobs_, [](const Job& job) { return job.done == 1; }); });
  for (const Job& job : jobs_) EXPECT_EQ(job.failed, 0u);
  // The first ones are dispatched before the others have arrived; those that are dispatched at the same time are
  // written in any order.
  constexpr std::size_t kDispatched = 2 + node::DataPath::kPulledAhead;
  ASSERT_EQ(writes_.size(), 25u) << "messages of 4 MiB";
  for (std::size_t i = kDispatched; i < writes_.size(); ++i)
    for (std::size_t j = i + kDispatched; j < writes_.size(); ++j) EXPECT_LE(writes_[i], writes_[j]) << writes_;
}

// The deadline of a write begins when its payload is sent, however long it was queued before.
TEST_F(PulledPayloads, AWriteMayWaitForItsTurnLongerThanTheRequestTimeout) {
  options_.node.node.depth = 1;
  start(8_MiB, FixedFigures{.latency = 2s, .bandwidth = 0});
  Job& first = add("a", 4 << 20);
  Job& second = add("b", 4 << 20);
  for (int i = 0; i < 10; ++i) write(first, static_cast<std::uint64_t>(i) << 22);
  run_for(10ms);
  write(second);
  run_until([&] { return first.done == 10 && second.done == 1; });
  EXPECT_EQ(first.failed + second.failed, 0u) << error_->message;
  EXPECT_EQ(writes_.size(), 11u) << "none was refused and repeated";
  EXPECT_EQ(service().statistics().refused, 0u);
}

// A connection at its limit of requests still sends Renew, and the payloads behind it.
TEST_F(PulledPayloads, RenewalsDoNotStopThePayloadsBehindThem) {
  options_.node.node.limits.requests = 4;
  start(8_MiB, FixedFigures{.latency = 0s, .bandwidth = 4 << 20});
  Job& first = add("a", 4 << 20);
  Job& second = add("b", 4 << 20);
  for (std::uint64_t i = 0; i < 4; ++i) write(first, i << 22);
  for (std::uint64_t i = 0; i < 4; ++i) write(second, i << 22);
  run_until([&] { return first.done == 4 && second.done == 4; });
  EXPECT_EQ(first.failed + second.failed, 0u);
  EXPECT_LT(std::max(first.longest, second.longest), 9s);  // each write takes one second
}

// The payload arrives after its deadline: it is refused, and the client sends it again.
TEST_F(PulledPayloads, APayloadThatArrivesTooLateIsNotApplied) {
  start(8_MiB);
  Job& job = add("a", 4 << 20);
  cluster_->network().hold(node(), job.client->process());
  write(job);
  run_for(10ms);  // the node has sent its Pull
  cluster_->network().hold(job.client->process(), node());
  cluster_->network().heal(node(), job.client->process());
  run_for(1s);
  EXPECT_EQ(writes_.size(), 0u);
  run_for(6s);  // request timeout
  cluster_->network().heal(job.client->process(), node());
  run_until([&] { return job.done == 1; });
  EXPECT_EQ(job.failed, 0u);
  EXPECT_EQ(service().statistics().refused, 1u);
  run_for(20s);
  EXPECT_EQ(writes_.size(), 1u) << "only the repeated one";
  EXPECT_TRUE(settled());
}

// A write that was never pulled cannot have been applied, so it need not wait for the fence.
TEST_F(PulledPayloads, AWriteThatWasNotPulledIsRepeatedAtOnceAfterALoss) {
  options_.node.node.depth = 1;
  request_timeout_ = 30s;
  start(8_MiB, FixedFigures{.latency = 1s, .bandwidth = 0});
  Job& job = add("a", 4 << 20);
  for (int i = 0; i < 8; ++i) write(job, static_cast<std::uint64_t>(i) << 22);
  run_for(100ms);
  const Nanoseconds lost = now();
  cluster_->node(0).kill();
  cluster_->node(0).start();
  run_until([&] { return job.done >= 1; });
  EXPECT_LT(now() - lost, Duration(4s).count());
  run_until([&] { return job.done == 8; });
  EXPECT_EQ(job.failed, 0u);
}

TEST_F(PulledPayloads, ThePolicyCanBeSwitchedAndTheNodeStoppedWhilePayloadsArePulled) {
  options_.network.latency = 20ms;
  start(8_MiB, FixedFigures{.latency = 10ms, .bandwidth = 0});
  Job& job = add("a", 40 << 20);
  write(job);
  run_for(50ms);
  ASSERT_TRUE(service().set_policy("fifo", {}));
  run_for(50ms);
  service().stop(Scheduler::Stop::kDrain);
  run_until([&] { return service().idle(); });
  EXPECT_TRUE(settled());
  EXPECT_EQ(writes_.size(), 10u) << "all were waiting, so they are served";
}

TEST_F(PulledPayloads, RequestsDroppedByAStopAreAnsweredAfterTheirPayloads) {
  options_.network.latency = 20ms;
  options_.node.node.depth = 1;
  start(8_MiB, FixedFigures{.latency = 10ms, .bandwidth = 0});
  Job& job = add("a", 40 << 20);
  write(job);
  run_for(50ms);  // some are pulled
  service().stop(Scheduler::Stop::kDrop);
  run_until([&] { return service().idle(); });
  EXPECT_TRUE(settled());
  EXPECT_GT(writes_.size(), 0u);
  EXPECT_LT(writes_.size(), 10u);
}

// A client that does not read its replies leaves as much read memory as it holds.
TEST_F(PulledPayloads, ASlowReaderDoesNotStopTheReadsOfOthers) {
  start(64_MiB);
  for (const char* name : {"s", "a"}) {
    Job& job = add(name, 4 << 20);
    for (std::uint64_t i = 0; i < 16; ++i) write(job, i << 22);
    run_until([&] { return job.done == 16; });
  }
  Job &slow = jobs_[0], &job = jobs_[1];
  cluster_->network().set_receiver(slow.client->process(), {.bytes_per_second = 1e6, .window = 64 << 10});
  for (std::uint64_t k = 0; k < 16; ++k) slow.file->read({{k << 22, slow.data}}, [](const Result<std::size_t>&) {});
  run_for(1s);
  EXPECT_GT(service().statistics().buffer_bytes, 16u << 20);
  Duration longest{};
  for (std::uint64_t k = 0; k < 16; ++k) {
    const Nanoseconds begun = now();
    bool done = false;
    job.file->read({{k << 22, job.data}}, [&](const Result<std::size_t>& read) { done = read.has_value(); });
    run_until([&] { return done; });
    longest = std::max(longest, Duration(now() - begun));
    run_for(500ms);  // the slow client goes on
  }
  EXPECT_LT(longest, 100ms);
}

// Its share does not depend on the job numbers that it states.
TEST_F(PulledPayloads, ASlowReaderThatStatesManyJobsDoesNotStopTheReadsOfOthers) {
  options_.node.node.read_buffers = 32_MiB;
  start(64_MiB);
  for (const char* name : {"s", "a"}) {
    Job& job = add(name, 4 << 20);
    for (std::uint64_t i = 0; i < 8; ++i) write(job, i << 22);
    run_until([&] { return job.done == 8; });
  }
  Job &slow = jobs_[0], &job = jobs_[1];
  cluster_->network().set_receiver(slow.client->process(), {.bytes_per_second = 1e5, .window = 64 << 10});
  for (std::uint64_t k = 0; k < 8; ++k) {
    const Stamp stamp{.application = static_cast<ApplicationId>(100 + k)};
    slow.file->read(
        {{k << 22, slow.data}}, [](const Result<std::size_t>&) {}, &stamp);
  }
  run_for(1s);
  EXPECT_LE(service().statistics().buffer_bytes, 16u << 20);
  const Nanoseconds begun = now();
  bool done = false;
  job.file->read({{0, job.data}}, [&](const Result<std::size_t>& read) { done = read.has_value(); });
  run_until([&] { return done; });
  EXPECT_LT(now() - begun, Duration(100ms).count());
}

// Clients come and go; the sum of their credits is what the node has.
TEST_F(PulledPayloads, ManyClientsShareTheMemory) {
  start(64_MiB);
  for (int i = 0; i < 20; ++i) add(std::string(1, static_cast<char>('a' + i)), 2 << 20);
  for (int round = 0; round < 3; ++round)
    for (Job& job : jobs_) write(job, static_cast<std::uint64_t>(round) << 21);
  run_until([&] { return std::ranges::all_of(jobs_, [](const Job& job) { return job.done == 3; }); });
  for (Job& job : jobs_) EXPECT_EQ(job.failed, 0u);
  EXPECT_TRUE(settled());
}

}  // namespace
}  // namespace tutti::sim

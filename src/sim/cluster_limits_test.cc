// SPDX-License-Identifier: Apache-2.0
// Limits of `fair` on four production nodes in the simulated world: they hold for the cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using namespace literals;

constexpr std::size_t kNodes = 4;
constexpr Duration kBegin = 3s;  // after the start of the nodes, whose own shares count after two seconds

// What was served, and when.
struct Served {
  Nanoseconds when;
  double amount;
};

struct Extremes {
  double least = 1e300, most = 0;
};

// The amounts of all windows of one second between `from` and `to`.
Extremes windows(std::vector<Served> served, Duration from, Duration to) {
  std::ranges::sort(served, {}, &Served::when);
  Extremes result;
  for (Nanoseconds begin = from.count(); begin + 1'000'000'000 <= to.count(); begin += 5'000'000) {
    double sum = 0;
    for (const Served& one : served)
      if (one.when >= begin && one.when < begin + 1'000'000'000) sum += one.amount;
    result.least = std::min(result.least, sum);
    result.most = std::max(result.most, sum);
  }
  return result;
}

class ClusterLimitsTest : public testing::Test {
 protected:
  // A process that writes all the time: `depth` writes of `size` bytes at once, each to one of the nodes that `nodes`
  // returns at that time.
  struct Writer {
    SimulatedClient* client = nullptr;
    std::shared_ptr<OpenFile> file{};
    std::size_t size = 0, depth = 0;
    std::function<std::vector<std::size_t>(Nanoseconds)> nodes{};
    std::vector<std::byte> data{};
    std::uint64_t count = 0;
    std::vector<Served> served{};
    std::size_t waiting = 0;
    bool stopped = false;
  };

  void start(const std::string& limits, PolicyOptions more = {}, std::uint64_t seed = 1) {
    SimulatedCluster::Options options;
    options.seed = seed;
    options.nodes = kNodes;
    options.cluster.stripe_size = 64_KiB;
    options.cluster.stripe_count = kNodes;
    options.cluster.request_timeout = 5s;
    options.node.node.policy = "fair";
    options.node.node.policy_options = std::move(more);
    options.node.node.policy_options["limits"] = limits;
    options.network.latency = 50us;
    options.network.jitter = 20us;
    cluster_ = std::make_unique<SimulatedCluster>(options);
  }
  ~ClusterLimitsTest() override { end(); }
  // Writes in flight fail when the cluster ends, and report that to their writer.
  void end() {
    for (auto& writer : writers_) {
      writer->stopped = true;
      writer->file.reset();
    }
    cluster_.reset();
    writers_.clear();
  }
  Simulator& simulator() { return cluster_->simulator(); }
  void run_until(Duration when) {
    while (simulator().now() < when.count() && simulator().run_next()) {
    }
  }

  // Until then, the largest sum of the shares that count at the nodes that run.
  std::size_t most_shares_until(Duration end) {
    std::size_t most = 0;
    while (simulator().now() < end.count()) {
      run_until(Duration(simulator().now()) + 1ms);
      std::size_t sum = 0;
      for (std::size_t node = 0; node < kNodes; ++node)
        if (cluster_->node(node).running()) sum += cluster_->node(node).service().limits().shares;
      most = std::max(most, sum);
    }
    return most;
  }
  void cut(std::size_t one, std::size_t other) {
    cluster_->network().cut(cluster_->node(one).process(), cluster_->node(other).process());
    cluster_->network().cut(cluster_->node(other).process(), cluster_->node(one).process());
  }

  Writer& add_writer(ApplicationId application, std::size_t size, std::size_t depth,
                     std::function<std::vector<std::size_t>(Nanoseconds)> nodes, const std::string& name = "job") {
    auto& writer = *writers_.emplace_back(std::make_unique<Writer>());
    writer.client = &cluster_->add_client(
        {.number = application, .application = application, .order = application, .name = name}, writers_.size() - 1);
    writer.size = size;
    writer.depth = depth;
    writer.nodes = std::move(nodes);
    writer.data.resize(size);
    const std::string path = "file" + std::to_string(writers_.size());
    writer.client->start([&writer, path](const Result<void>& started) {
      ASSERT_TRUE(started);
      writer.client->async().open(path, {.write = true, .create = true},
                                  [&writer](Result<std::shared_ptr<OpenFile>> opened) {
                                    ASSERT_TRUE(opened) << opened.error().message;
                                    writer.file = *opened;
                                  });
    });
    return writer;
  }

  void fill(Writer& writer) {
    while (!writer.stopped && writer.waiting < writer.depth) {
      const auto nodes = writer.nodes(simulator().now());
      if (nodes.empty()) return;
      const std::uint64_t number = writer.count++;
      const auto& targets = writer.file->layout().targets;  // each node has one
      const auto target = std::ranges::find(targets, static_cast<TargetId>(nodes[number % nodes.size()]));
      const std::uint64_t stripe = number * kNodes + static_cast<std::uint64_t>(target - targets.begin());
      ++writer.waiting;
      writer.file->write({{stripe * 65536, writer.data}}, [this, &writer](const Result<std::size_t>& done) {
        --writer.waiting;
        if (done) writer.served.push_back({simulator().now(), static_cast<double>(*done)});
        fill(writer);
      });
    }
  }

  // Lets all writers write until `end`.
  void run_writers(Duration begin, Duration end, const std::function<void()>& halfway = {}) {
    run_until(begin);
    for (auto& writer : writers_) {
      ASSERT_TRUE(writer->file);
      fill(*writer);
    }
    if (halfway) {
      run_until(begin + (end - begin) / 2);
      halfway();
    }
    run_until(end);
    for (auto& writer : writers_) writer->stopped = true;
  }

  // One job with 16 writes of 32 KiB at once on `nodes`, with a limit of 10 MB/s.
  void expect_limit_of_one_job(const std::function<std::vector<std::size_t>(Nanoseconds)>& nodes) {
    start("7=10MB/s");
    Writer& writer = add_writer(7, 32768, 16, nodes);
    run_writers(kBegin, kBegin + 6s);
    const Extremes all = windows(writer.served, kBegin, kBegin + 6s);
    const Extremes later = windows(writer.served, kBegin + 1s, kBegin + 6s);
    EXPECT_LE(all.most, 11e6);  // from the first moment on
    EXPECT_GE(later.least, 9e6);
    RecordProperty("most", std::to_string(all.most / 10e6));
    RecordProperty("least", std::to_string(later.least / 10e6));
  }

  std::unique_ptr<SimulatedCluster> cluster_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

TEST_F(ClusterLimitsTest, HoldForAJobOnOneNode) {
  expect_limit_of_one_job([](Nanoseconds) { return std::vector<std::size_t>{2}; });
}
TEST_F(ClusterLimitsTest, HoldForAJobOnTheNodeThatDistributes) {
  expect_limit_of_one_job([](Nanoseconds) { return std::vector<std::size_t>{0}; });
}
TEST_F(ClusterLimitsTest, HoldForAJobOnTwoNodes) {
  expect_limit_of_one_job([](Nanoseconds) { return std::vector<std::size_t>{1, 3}; });
}
TEST_F(ClusterLimitsTest, HoldForAJobOnAllNodes) {
  expect_limit_of_one_job([](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
}
TEST_F(ClusterLimitsTest, HoldForAJobThatMoves) {
  expect_limit_of_one_job(
      [](Nanoseconds now) { return std::vector<std::size_t>{static_cast<std::size_t>(now / 300'000'000) % kNodes}; });
}

TEST_F(ClusterLimitsTest, HoldForEachOfTwoJobs) {
  start("7=10MB/s, 8=30MB/s");
  Writer& first = add_writer(7, 32768, 16, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  Writer& second = add_writer(8, 65536, 16, [](Nanoseconds) { return std::vector<std::size_t>{1, 2}; });
  run_writers(kBegin, kBegin + 4s);
  EXPECT_LE(windows(first.served, kBegin, kBegin + 4s).most, 11e6);
  EXPECT_GE(windows(first.served, kBegin + 1s, kBegin + 4s).least, 9e6);
  EXPECT_LE(windows(second.served, kBegin, kBegin + 4s).most, 33e6);
  EXPECT_GE(windows(second.served, kBegin + 1s, kBegin + 4s).least, 27e6);
}

TEST_F(ClusterLimitsTest, HoldInRequestsPerSecond) {
  start("*=400/s");
  Writer& writer = add_writer(7, 4096, 32, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  run_writers(kBegin, kBegin + 4s);
  EXPECT_LE(windows(writer.served, kBegin, kBegin + 4s).most / 4096, 440);
  EXPECT_GE(windows(writer.served, kBegin + 1s, kBegin + 4s).least / 4096, 360);
}

// 24 jobs, each on one of the nodes, together have the limit of their user, and two that have the same name that of the
// name.
TEST_F(ClusterLimitsTest, HoldForUsersAndNames) {
  const UserId user = own_credentials().uid;
  start("user:" + std::to_string(user) + "=20MB/s, name:slow=2MB/s");
  for (ApplicationId job = 1; job <= 24; ++job)
    add_writer(
        job, 16384, 4, [job](Nanoseconds) { return std::vector<std::size_t>{job % kNodes}; },
        job <= 2 ? "slow" : "job");
  run_writers(kBegin, kBegin + 4s);
  std::vector<Served> all, slow;
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    const auto& served = writers_[i]->served;
    all.insert(all.end(), served.begin(), served.end());
    if (i < 2) slow.insert(slow.end(), served.begin(), served.end());
  }
  EXPECT_LE(windows(all, kBegin, kBegin + 4s).most, 22e6);
  EXPECT_GE(windows(all, kBegin + 1s, kBegin + 4s).least, 18e6);
  EXPECT_LE(windows(slow, kBegin, kBegin + 4s).most, 2.2e6);
}

// A job below its limit is not delayed: with one write at a time it is as fast as without the limit.
TEST_F(ClusterLimitsTest, DoNotSlowAJobThatIsBelowThem) {
  double bytes[2];
  for (const bool limited : {false, true}) {
    end();
    start(limited ? "7=1GB/s" : "8=1GB/s");
    Writer& writer = add_writer(7, 16384, 1, [](Nanoseconds) { return std::vector<std::size_t>{1, 2}; });
    run_writers(kBegin, kBegin + 2s);
    bytes[limited] = windows(writer.served, kBegin, kBegin + 2s).least;
    writer.file.reset();
  }
  EXPECT_GE(bytes[1], 0.95 * bytes[0]);
}

// Requests that are larger than a burst of the limit are served one by one, and no node waits for ever.
TEST_F(ClusterLimitsTest, ServeRequestsThatAreLargerThanABurst) {
  start("7=5MB/s");
  Writer& writer = add_writer(7, 65536, 8, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  run_writers(kBegin, kBegin + 4s);
  EXPECT_LE(windows(writer.served, kBegin, kBegin + 4s).most, 5.5e6 + 65536);
  EXPECT_GE(windows(writer.served, kBegin + 1s, kBegin + 4s).least, 4.5e6);
}

TEST_F(ClusterLimitsTest, HoldAtMostFromTheStartOfTheNodesOn) {
  start("7=10MB/s");
  Writer& writer = add_writer(7, 32768, 16, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  run_writers(50ms, 6s);
  EXPECT_LE(windows(writer.served, 0s, 6s).most, 11e6);
  EXPECT_GE(windows(writer.served, 3s, 6s).least, 9e6);  // shares count after two seconds
}

// A dead node: its share counts at the node that distributes, also if that one has died.
TEST_F(ClusterLimitsTest, HoldIfANodeDies) {
  for (const std::size_t dead : {0, 2}) {
    end();
    start("7=10MB/s");
    Writer& writer = add_writer(7, 32768, 16, [&, dead](Nanoseconds now) {
      return now < (kBegin + 3s).count() ? std::vector<std::size_t>{dead, 1, 3} : std::vector<std::size_t>{1, 3};
    });
    run_writers(kBegin, kBegin + 8s, [&] { cluster_->node(dead).kill(); });
    EXPECT_LE(windows(writer.served, kBegin, kBegin + 8s).most, 11e6);
    EXPECT_GE(windows(writer.served, kBegin + 6s, kBegin + 8s).least, 9e6);
    writer.file.reset();
  }
}

// A node that the others do not reach has its own share, the others have the rest.
TEST_F(ClusterLimitsTest, HoldAtMostIfANodeIsPartitionedFromTheOthers) {
  for (const std::size_t lost : {0, 3}) {
    end();
    start("7=10MB/s");
    Writer& writer = add_writer(7, 32768, 32, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
    run_writers(kBegin, kBegin + 10s, [&] {
      for (std::size_t node = 0; node < kNodes; ++node) {
        if (node != lost) cut(node, lost);
      }
    });
    EXPECT_LE(windows(writer.served, kBegin, kBegin + 10s).most, 11e6) << lost;
    EXPECT_GE(windows(writer.served, kBegin + 7s, kBegin + 10s).least, 2.2e6) << lost;
    writer.file.reset();
  }
}

// Node 3 has ended. Nodes 0 and 1 do not reach each other, and both distribute; both see that node 3 has ended. Its
// share counts at node 0, which also has that of node 2.
TEST_F(ClusterLimitsTest, CountTheShareOfAnEndedNodeOnceIfOthersArePartitioned) {
  start("7=10MB/s");
  Writer& one = add_writer(7, 32768, 16, [](Nanoseconds) { return std::vector<std::size_t>{0, 2}; });
  Writer& two = add_writer(7, 32768, 16, [](Nanoseconds) { return std::vector<std::size_t>{1}; });
  run_until(kBegin);
  fill(one);
  fill(two);
  cluster_->node(3).kill();
  cut(0, 1);
  EXPECT_EQ(most_shares_until(kBegin + 8s), kNodes);
  EXPECT_EQ(cluster_->node(0).service().limits().shares, 3u);
  EXPECT_EQ(cluster_->node(1).service().limits().shares, 1u);
  std::vector<Served> all = one.served;
  all.insert(all.end(), two.served.begin(), two.served.end());
  EXPECT_LE(windows(all, kBegin, kBegin + 8s).most, 11e6);
  EXPECT_GE(windows(all, kBegin + 4s, kBegin + 8s).least, 9e6);
}

// The others do not reach the node that distributes, and find another one. Until their leases have ended, their shares
// count at the old one.
TEST_F(ClusterLimitsTest, CountAShareAtAnotherNodeOnlyAfterItsLease) {
  start("7=10MB/s");
  Writer& writer = add_writer(7, 32768, 32, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  run_until(kBegin);
  fill(writer);
  EXPECT_EQ(most_shares_until(kBegin + 1s), kNodes);
  for (std::size_t node = 1; node < kNodes; ++node) cut(0, node);
  EXPECT_EQ(most_shares_until(kBegin + 4s), kNodes);
  EXPECT_EQ(cluster_->node(0).service().limits().shares, 1u);
  EXPECT_EQ(cluster_->node(1).service().limits().shares, 3u);
}

// Messages that arrive seconds late neither give a share twice nor bring old grants.
TEST_F(ClusterLimitsTest, HoldAtMostIfMessagesArriveLate) {
  start("7=10MB/s");
  Writer& writer = add_writer(7, 32768, 32, [](Nanoseconds) { return std::vector<std::size_t>{0, 1, 2, 3}; });
  for (int i = 0; i < 4; ++i) {
    const Duration begin = kBegin + i * 3s;
    if (i == 0) run_until(begin), fill(writer);
    Process& one = cluster_->node(0).process();
    Process& two = cluster_->node(2).process();
    cluster_->network().hold(one, two);
    cluster_->network().hold(two, one);
    run_until(begin + 2s);
    cluster_->network().heal(one, two);
    cluster_->network().heal(two, one);
    run_until(begin + 3s);
  }
  writer.stopped = true;
  EXPECT_LE(windows(writer.served, kBegin, kBegin + 12s).most, 11e6);
}

// Keeps the status of a reply.
struct StatusHandler final : net::Handler {
  std::optional<std::int32_t> status{};
  void received(const net::ConnectionPointer&, net::Incoming message) override {
    if (!message.header.reply) return;
    const auto head = wire::decode_head(message.body);
    if (head) status = head->status;
  }
  void closed(const net::ConnectionPointer&, const Error&) override {}
};

// An ordinary user can neither take grants nor give the shares of nodes away.
TEST_F(ClusterLimitsTest, AreSharedOnlyWithNodes) {
  start("7=10MB/s");
  Process process(simulator(), "user");
  const auto transport = cluster_->network().make_transport(process, {.number = 0});
  for (const auto& [user, expected] : {std::pair<UserId, std::int32_t>{4711, EPERM}, {own_credentials().uid, 0}}) {
    StatusHandler handler;
    transport->connect(*net::parse_endpoint(cluster_->description().nodes[0].endpoint),
                       {.claim = wire::Identity{.uid = user, .gid = user}}, handler,
                       [](const Result<net::ConnectionPointer>& connection) {
                         ASSERT_TRUE(connection);
                         const wire::LimitShareRequest request{.node = "node1"};
                         (*connection)->send({.frame = wire::encode(request, {.tag = 1})});
                       });
    run_until(Duration(simulator().now()) + 100ms);
    EXPECT_EQ(handler.status, expected);
    cluster_->network().kill_connections(process);
  }
}

}  // namespace
}  // namespace tutti::sim

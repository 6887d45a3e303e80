// SPDX-License-Identifier: Apache-2.0
// Simulated connections are bound to jobs by the same code as live ones (net/job_check.h).
#include <gtest/gtest.h>

#include "engine/credentials.h"
#include "sim/simulated_cluster.h"
#include "sim/simulated_network.h"
#include "sim/simulator.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

// Job n belongs to user n / 10.
class Batch final : public net::BatchSystem {
 public:
  Result<bool> owns(UserId user, ApplicationId job) override { return job / 10 == user; }
};

struct Ends : net::Handler {
  void connected(const net::ConnectionPointer& connection) override { clients.push_back(connection); }
  void received(const net::ConnectionPointer&, net::Incoming) override {}
  void closed(const net::ConnectionPointer&, const Error&) override {}
  std::vector<net::ConnectionPointer> clients;
};

TEST(SimulatedJobs, AreCheckedWhenAClientConnects) {
  Ends node, here;
  Simulator simulator(1);
  SimulatedNetwork network(simulator, {.size = {.clients = 1, .stations = 1}});
  Process server(simulator, "server"), client(simulator, "client");
  auto listening = network.make_transport(server, {.station = true});
  auto connecting = network.make_transport(client, {});
  const auto endpoint = *net::parse_endpoint("tcp:node:1");
  net::ListenOptions options;
  options.jobs = std::make_shared<net::JobCheck>(net::JobCheck::Options{
      .batch = std::make_shared<Batch>(), .own_user = 77, .now = [&] { return server.clock().steady(); }});
  const auto listener = listening->listen(endpoint, options, node);
  ASSERT_TRUE(listener);
  std::string refused;
  for (const net::JobClaim claim : {net::JobClaim{10001, true}, {20001, true}, {5, false}})
    connecting->connect(endpoint, {.claimed_job = claim, .claim = wire::Identity{.uid = 1000}}, here, [&](auto made) {
      if (!made) refused = made.error().message;
    });
  while (simulator.run_next()) continue;
  ASSERT_EQ(node.clients.size(), 2u);
  EXPECT_EQ(node.clients[0]->peer().application, 10001u);
  EXPECT_EQ(node.clients[1]->peer().application, 0u);
  EXPECT_NE(refused.find("job 20001 is not a running job of user 1000"), std::string::npos) << refused;
}

struct ProvenJobs : SchedulerObserver {
  void arrived(std::span<const WaitingRequest> requests) override {
    for (const WaitingRequest& waiting : requests) proven.push_back(waiting.request.job_proven);
  }
  void ended(std::span<const Request>, TimePoint, bool) override {}
  void named(FileId, std::string_view) override {}
  std::vector<bool> proven;
};

// The scheduler of a node learns whether the job of a request is proven.
TEST(SimulatedJobs, RequestsOfUncheckedNumbersAreNotProven) {
  const UserId own = own_credentials().uid;
  const UserId user = own == 0 ? 1000 : own;  // a node that is not root serves its own user only
  for (const bool bound : {true, false}) {
    ProvenJobs seen;
    SimulatedCluster::Options options;
    options.node.observer = &seen;
    const std::shared_ptr<Batch> batch = bound ? std::make_shared<Batch>() : nullptr;
    options.node.jobs = std::make_shared<net::JobCheck>(
        net::JobCheck::Options{.batch = batch, .own_user = user + 1, .now = [] { return TimePoint(1h); }});
    SimulatedCluster cluster(std::move(options));
    Process process(cluster.simulator(), "client");
    Ends here;
    auto transport = cluster.network().make_transport(process, {});
    net::ConnectionPointer connection;
    transport->connect(*net::parse_endpoint(cluster.description().nodes[0].endpoint),
                       {.claimed_job = {user * 10 + 1, true}, .claim = wire::Identity{.uid = user, .gid = 0}}, here,
                       [&](auto made) {
                         if (made) connection = *made;
                       });
    const auto next = [&] { return cluster.simulator().now() < 60'000'000'000 && cluster.simulator().run_next(); };
    while (!connection && next()) continue;
    ASSERT_TRUE(connection);
    const std::vector<std::byte> payload(4096);
    wire::WriteRequest write;
    write.data.file = {1, "f", 0};
    write.extents = {{0, payload.size()}};
    connection->send({.frame = wire::encode(wire::CreateRequest{.path = "f"}, {.tag = 1})});
    net::Outgoing out;
    out.frame = wire::encode(write, {.tag = 2, .payload = payload});
    out.borrowed = {payload};
    cluster.simulator().at(cluster.simulator().now() + 1'000'000'000, [&] { connection->send(std::move(out)); });
    while (seen.proven.empty() && next()) continue;
    EXPECT_EQ(seen.proven, std::vector<bool>{bound});
    connection->close({ErrorCode::kStopped, "done"});
  }
}

}  // namespace
}  // namespace tutti::sim

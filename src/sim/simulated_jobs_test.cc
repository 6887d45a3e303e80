// SPDX-License-Identifier: Apache-2.0
// Simulated connections are bound to jobs by the same code as live ones (net/job_check.h).
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti::sim

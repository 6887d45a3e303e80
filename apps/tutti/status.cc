// SPDX-License-Identifier: Apache-2.0
// tutti status: the nodes of a cluster, and why some do not answer.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <set>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cluster.h"
#include "command.h"

namespace tutti::cli {
namespace {

struct NodeState {
  NodeAddress address;
  Result<wire::HealthReply> health;
  Result<wire::StatisticsReply> statistics;
  Result<wire::PolicyReply> policy;
  bool policy_differs = false;  // from that of most nodes
};

NodeState ask(const Cluster& cluster, const NodeAddress& node) {
  auto control = connect_to(cluster, node, std::chrono::seconds(2));
  if (!control) return {node, Failure(control.error()), Failure(control.error()), Failure(control.error())};
  auto health = (*control)->health();
  if (!health) return {node, health, Failure(health.error()), Failure(health.error())};
  return {node, std::move(health), (*control)->statistics(), (*control)->policy()};
}

std::string policy_text(const wire::PolicyReply& reply) {
  std::string text = reply.policy;
  for (const auto& [name, value] : reply.options) text += fmt::format(" {}={}", name, value);
  return text;
}

// Marks nodes whose policy or options differ from those of most nodes.
void compare_policies(std::vector<NodeState>& states) {
  std::map<std::string, std::size_t> counts;
  for (const NodeState& state : states)
    if (state.policy) ++counts[policy_text(*state.policy)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (NodeState& state : states) state.policy_differs = state.policy && policy_text(*state.policy) != most->first;
}

// Asks all nodes at the same time, so that those that do not answer cost the time only once.
std::vector<NodeState> ask_all(const Cluster& cluster) {
  std::vector<std::future<NodeState>> answers;
  for (const NodeAddress& node : cluster.nodes)
    answers.push_back(std::async(std::launch::async, [&] { return ask(cluster, node); }));
  std::vector<NodeState> states;
  for (auto& answer : answers) states.push_back(answer.get());
  compare_policies(states);
  return states;
}

Json to_json(const NodeState& state) {
  Json json{{"node", state.address.name}, {"endpoint", state.address.endpoint}, {"targets", state.address.targets}};
  json["up"] = state.health.has_value();
  if (!state.health) {
    json["error"] = state.health.error().message;
    return json;
  }
  json.update({{"process", state.health->process},
               {"root", state.health->root},
               {"engine", state.health->engine},
               {"policy", state.health->policy},
               {"policy_differs", state.policy_differs},
               {"job_check", state.health->job_check},
               {"cluster_key", state.health->key},
               {"stopping", state.health->stopping},
               {"uptime_seconds", std::chrono::duration<double>(state.health->uptime).count()}});
  if (!state.statistics) return json;
  const wire::StatisticsReply& statistics = *state.statistics;
  json.update({{"connections", statistics.connections},
               {"waiting", statistics.waiting},
               {"waiting_bytes", statistics.waiting_bytes},
               {"in_flight", statistics.in_flight},
               {"batches", statistics.batches},
               {"requests", statistics.batched_requests},
               {"refused", statistics.refused},
               {"buffer_bytes", statistics.buffer_bytes}});
  return json;
}

std::ptrdiff_t count_up(const std::vector<NodeState>& states) {
  return std::count_if(states.begin(), states.end(), [](const NodeState& state) { return state.health.has_value(); });
}

void print_states(const std::vector<NodeState>& states) {
  Table table({"node", "state", "process", "engine", "policy", "uptime", "clients", "waiting", "in flight", "served"});
  for (const NodeState& state : states) {
    if (!state.health || !state.statistics) {
      table.add({state.address.name, "no answer", "", "", "", "", "", "", "", ""});
      continue;
    }
    table.add({state.address.name, state.health->stopping ? "stopping" : "up", std::to_string(state.health->process),
               state.health->engine, state.health->policy, format(state.health->uptime),
               std::to_string(state.statistics->connections), std::to_string(state.statistics->waiting),
               std::to_string(state.statistics->in_flight), std::to_string(state.statistics->batched_requests)});
  }
  fmt::print("{}\n{} of {} up\n", table.text(), count_up(states), states.size());
  for (const NodeState& state : states)
    if (!state.health)
      fmt::print("{}: {}\n", state.address.name, state.health.error().message);
    else if (!state.statistics)
      fmt::print("{}: {}\n", state.address.name, state.statistics.error().message);
  std::set<std::string> texts;
  for (const NodeState& state : states)
    if (state.health) texts.insert(identity_text(state.health->job_check, state.health->key));
  for (const std::string& text : texts) fmt::print("{}\n", text);
}

void warn_about_policies(const std::vector<NodeState>& states) {
  for (const NodeState& state : states)
    if (state.policy_differs)
      fmt::print(stderr,
                 "tutti: warning: {} has the policy '{}', which differs from that of the other nodes. 'tutti policy "
                 "set' sets it on all nodes; [defaults] in cluster.toml sets it for restarts.\n",
                 state.address.name, policy_text(*state.policy));
}

int run_status(const ClusterChoice& choice, bool json) {
  const auto cluster = choice.load();
  if (!cluster) return report(cluster.error());
  const auto states = ask_all(*cluster);
  if (json) {
    auto list = Json::array();
    for (const NodeState& state : states) list.push_back(to_json(state));
    fmt::print("{}\n", list.dump(2));
  } else {
    print_states(states);
  }
  warn_about_policies(states);
  return count_up(states) == std::ssize(states) ? kDone : kFailed;
}

}  // namespace

Command status_command() {
  return {"status", "Show the nodes of a cluster and why some do not answer", [](CommandLine& line) {
            auto choice = std::make_shared<ClusterChoice>();
            auto json = std::make_shared<bool>(false);
            choice->define(line);
            line.json(*json);
            line.action([choice, json] { return run_status(*choice, *json); });
          }};
}

}  // namespace tutti::cli

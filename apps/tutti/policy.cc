// SPDX-License-Identifier: Apache-2.0
// tutti policy show | set: shows or changes the policy of a running cluster.
#include <fmt/format.h>

#include "base/json.h"
#include "base/table.h"
#include "cluster.h"
#include "command.h"

namespace tutti::cli {
namespace {

struct PolicyArguments {
  ClusterChoice cluster;
  bool json = false;
  std::string policy;
  PolicyOptions options;
};

std::string joined(const PolicyOptions& options) {
  std::string text;
  for (const auto& [name, value] : options) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

// Nothing: the policy has no limits.
std::string limits_text(const wire::LimitsReply& limits) {
  if (!limits.limited) return {};
  if (limits.nodes == 1) return "limits hold for this node";
  if (limits.shares == 0) return fmt::format("limits hold for the cluster; {} distributes them", limits.distributor);
  return fmt::format("limits hold for the cluster; this node distributes the shares of {} of {} nodes", limits.shares,
                     limits.nodes);
}

int show(const PolicyArguments& arguments) {
  const auto cluster = arguments.cluster.load();
  if (!cluster) return report(cluster.error());
  auto list = Json::array();
  Table table({"node", "policy", "options", "limits"});
  int status = kDone;
  for (const NodeAddress& node : cluster->nodes) {
    auto control = connect_to(*cluster, node);
    const auto policy = control ? (*control)->policy() : Result<wire::PolicyReply>(Failure(control.error()));
    if (!policy) {
      status = report({policy.error().code, node.name + ": " + policy.error().message});
      continue;
    }
    const auto limits = (*control)->limits();  // nodes of earlier versions do not know them
    const std::string text = limits ? limits_text(*limits) : std::string();
    list.push_back({{"node", node.name}, {"policy", policy->policy}, {"options", policy->options}, {"limits", text}});
    table.add({node.name, policy->policy, joined(policy->options), text});
  }
  if (arguments.json)
    fmt::print("{}\n", list.dump(2));
  else
    fmt::print("{}", table.text());
  return status;
}

// Nodes that refuse the change or are down are reported. The other nodes keep the new policy.
int set(const PolicyArguments& arguments) {
  const auto cluster = arguments.cluster.load();
  if (!cluster) return report(cluster.error());
  int status = kDone;
  for (const NodeAddress& node : cluster->nodes) {
    auto control = connect_to(*cluster, node);
    const auto done =
        control ? (*control)->set_policy(arguments.policy, arguments.options) : Result<void>(Failure(control.error()));
    if (!done) status = report({done.error().code, node.name + ": " + done.error().message});
  }
  return status;
}

}  // namespace

Command policy_command() {
  return {"policy", "Show or change the policy of a running cluster", [](CommandLine& line) {
            auto arguments = std::make_shared<PolicyArguments>();
            CommandLine& showing = line.subcommand("show", "Show the policy of each node");
            arguments->cluster.define(showing);
            showing.json(arguments->json);
            showing.action([arguments] { return show(*arguments); });
            CommandLine& setting = line.subcommand("set", "Change the policy of all nodes; waiting requests are kept");
            arguments->cluster.define(setting);
            setting.option("policy", arguments->policy, "Name of the policy (see 'tutti policies')").required();
            setting.option("-o,--option", arguments->options, "Option of the policy; may be repeated");
            setting.action([arguments] { return set(*arguments); });
          }};
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tutti/client.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/config.h"
#include "base/units.h"
#include "net/endpoint.h"

namespace tutti {
namespace {

constexpr TargetId kMostTargets = 65536;

bool parse_number(std::string_view text, TargetId& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value < kMostTargets;
}

// "0-3,8"
std::optional<std::vector<TargetId>> parse_targets(std::string_view text) {
  std::vector<TargetId> targets;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const auto part = text.substr(0, end);
    const auto dash = part.find('-');
    TargetId first = 0, last = 0;
    if (!parse_number(part.substr(0, dash), first)) return std::nullopt;
    last = first;
    if (dash != part.npos && !parse_number(part.substr(dash + 1), last)) return std::nullopt;
    if (last < first) return std::nullopt;
    for (TargetId target = first; target <= last; ++target) targets.push_back(target);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return targets;
}

std::string resolve(const std::filesystem::path& base, const std::string& path) {
  return path.empty() || path.front() == '/' ? path : (base / path).string();
}

NodeAddress read_node(Section section, const std::filesystem::path& base, std::size_t index) {
  NodeAddress node{.name = section.text("name", fmt::format("node{}", index)),
                   .endpoint = section.text("endpoint", ""),
                   .targets = {}};
  constexpr std::string_view kUnix = "unix:";
  if (node.endpoint.starts_with(kUnix)) node.endpoint = "unix:" + resolve(base, node.endpoint.substr(kUnix.size()));
  auto targets = parse_targets(section.text("targets", ""));
  if (!targets) section.mistake("targets", "must be numbers and ranges, such as \"0-3,8\"");
  node.targets = targets.value_or(std::vector<TargetId>{});
  return node;
}

}  // namespace

std::string default_cluster_file() {
  const char* given = std::getenv("TUTTI_CLUSTER");
  return given != nullptr && *given != '\0' ? given : "tutti-data/cluster.toml";
}

Result<void> check_cluster(const Cluster& cluster) {
  if (cluster.nodes.empty()) return fail(ErrorCode::kInvalid, "a cluster needs at least one [[node]]");
  std::map<TargetId, std::string> owners;
  std::set<std::string> names;
  for (const auto& node : cluster.nodes) {
    if (!names.insert(node.name).second) {
      return fail(ErrorCode::kInvalid, fmt::format("two nodes have the name \"{}\"", node.name));
    }
    if (auto endpoint = net::parse_endpoint(node.endpoint); !endpoint) return Failure(endpoint.error());
    for (const auto target : node.targets) {
      const auto [owner, fresh] = owners.emplace(target, node.name);
      if (!fresh) {
        return fail(ErrorCode::kInvalid,
                    fmt::format("target {} is owned by {} and by {}", target, owner->second, node.name));
      }
    }
  }
  if (owners.empty()) return fail(ErrorCode::kInvalid, "no node of the cluster owns a target");
  if (cluster.stripe_size.count() == 0) return fail(ErrorCode::kInvalid, "a stripe size of 0");
  if (cluster.stripe_count > owners.size()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("stripe_count is {}, but there are {} targets", cluster.stripe_count, owners.size()));
  }
  return {};
}

Result<Cluster> load_cluster(const std::string& path) {
  auto config = Config::load(path);
  if (!config) return Failure(config.error());
  std::error_code ignored;
  const auto base = std::filesystem::absolute(path, ignored).parent_path();
  auto root = config->root();
  Cluster cluster;
  cluster.stripe_size = root.bytes("stripe_size", cluster.stripe_size);
  cluster.stripe_count = static_cast<std::uint32_t>(root.integer("stripe_count", 0, {0, kMostTargets}));
  cluster.key_file = resolve(base, root.text("key_file", ""));
  cluster.munge = root.boolean("munge", false);
  cluster.discover_layouts = root.boolean("discover_layouts", false);
  cluster.request_timeout = root.duration("request_timeout", cluster.request_timeout);
  cluster.lease = root.duration("lease", cluster.lease);
  std::size_t index = 0;
  for (auto& section : root.sections("node")) cluster.nodes.push_back(read_node(section, base, index++));
  if (auto done = config->finish(); !done) return Failure(done.error());
  if (auto fine = check_cluster(cluster); !fine) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: {}", path, fine.error().message));
  }
  return cluster;
}

Result<void> save_cluster(const Cluster& cluster, const std::string& path) {
  std::string text = "# A Tutti cluster: who serves what. Every client reads this file.\n";
  text += fmt::format("stripe_size = {}\nstripe_count = {}\n", cluster.stripe_size.count(), cluster.stripe_count);
  if (!cluster.key_file.empty()) text += fmt::format("key_file = '{}'\n", cluster.key_file);
  if (cluster.munge) text += "munge = true\n";
  if (cluster.discover_layouts) text += "discover_layouts = true\n";
  text += fmt::format("request_timeout = \"{}ns\"\nlease = \"{}ns\"\n", cluster.request_timeout.count(),
                      cluster.lease.count());
  for (const auto& node : cluster.nodes) {
    text += fmt::format("\n[[node]]\nname = '{}'\nendpoint = '{}'\ntargets = \"{}\"\n", node.name, node.endpoint,
                        fmt::join(node.targets, ","));
  }
  const auto temporary = path + ".new";
  std::ofstream(temporary) << text;
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) return fail(ErrorCode::kIo, fmt::format("cannot write {}: {}", path, error.message()), error.value());
  return {};
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <tutti/client.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/config.h"
#include "base/print_error.h"
#include "base/units.h"
#include "client/cluster_file.h"
#include "job/identity.h"
#include "net/endpoint.h"

namespace tutti {
namespace {

constexpr Duration kLeastTimeout = std::chrono::seconds(1), kLeastFence = std::chrono::milliseconds(100);

constexpr TargetId kMostTargets = 65536;
constexpr std::uint64_t kPage = 4096;

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

std::optional<std::uint32_t> owner_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_uid;
}

// The user with this name or number.
std::optional<std::uint32_t> find_user(const std::string& text) {
  std::uint32_t uid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  if (error == std::errc{} && end == text.data() + text.size()) return uid;
  char memory[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(text.c_str(), &entry, memory, sizeof memory, &found) != 0 || found == nullptr) return std::nullopt;
  return found->pw_uid;
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

NodeSettings read_defaults(Section section, const std::filesystem::path& base) {
  NodeSettings settings;
  settings.directory = resolve(base, section.text("directory", ""));
  settings.policy = section.text("policy", "");
  auto options = section.section("policy_options");
  for (const auto& key : options.keys()) settings.policy_options[key] = options.scalar(key, "");
  settings.engine = section.text("engine", "");
  settings.direct = section.boolean("direct", false);
  settings.device = section.text("device", "");
  settings.device_class = section.text("device_class", "");
  settings.depth = static_cast<std::size_t>(section.integer("depth", 0, {1, kMostDepth}));
  settings.buffers = section.bytes("buffers", Bytes{});
  settings.job_check = section.text("job_check", "");
  if (!settings.job_check.empty() && settings.job_check != "cgroup" && settings.job_check != "slurm")
    section.mistake("job_check", "must be \"cgroup\" or \"slurm\"");
  settings.job_command = section.text("job_command", "");
  settings.trace = resolve(base, section.text("trace", ""));
  settings.trace_limit = section.bytes("trace_limit", Bytes{});
  settings.predict = resolve(base, section.text("predict", ""));
  return settings;
}

std::string toml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string defaults_text(const NodeSettings& settings) {
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format("{} = {}\n", key, toml_text(value));
  };
  add("directory", settings.directory);
  add("policy", settings.policy);
  add("engine", settings.engine);
  if (settings.direct) text += "direct = true\n";
  add("device", settings.device);
  add("device_class", settings.device_class);
  if (settings.depth != 0) text += fmt::format("depth = {}\n", settings.depth);
  if (settings.buffers != Bytes{}) text += fmt::format("buffers = {}\n", settings.buffers.count());
  add("job_check", settings.job_check);
  add("job_command", settings.job_command);
  add("trace", settings.trace);
  add("predict", settings.predict);
  if (settings.trace_limit != Bytes{}) text += fmt::format("trace_limit = {}\n", settings.trace_limit.count());
  if (!settings.policy_options.empty()) text += "[defaults.policy_options]\n";
  for (const auto& [name, value] : settings.policy_options)
    text += fmt::format("{} = {}\n", toml_text(name), toml_text(value));
  return text.empty() ? text : "\n[defaults]\n" + text;
}

Result<void> write_whole_file(const std::string& path, const std::string& text) {
  const auto temporary = path + ".new";
  std::ofstream file(temporary);
  file << text;
  file.close();
  std::error_code error;
  if (file)
    std::filesystem::rename(temporary, path, error);
  else
    error.assign(errno, std::generic_category());
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return fail(ErrorCode::kIo, fmt::format("cannot write {}: {}", path, error.message()), error.value());
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
  if (cluster.stripe_size.count() == 0) return fail(ErrorCode::kInvalid, "stripe_size must not be 0");
  if (cluster.stripe_count > owners.size()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("stripe_count is {}, but there are {} targets", cluster.stripe_count, owners.size()));
  }
  return {};
}

std::string cluster_file(const std::string& path) {
  std::error_code ignored;
  const bool directory =
      std::filesystem::exists(path, ignored) ? std::filesystem::is_directory(path, ignored) : !path.ends_with(".toml");
  return directory ? (std::filesystem::path(path) / "cluster.toml").string() : path;
}

Result<void> check_stripe_size(Bytes size) {
  if (size.count() != 0 && size.count() % kPage == 0) return {};
  return fail(ErrorCode::kInvalid,
              fmt::format("a stripe size of {} is not possible: it must be a multiple of 4KiB", format(size)));
}

Result<ClusterFile> load_cluster_file(const std::string& given) {
  const std::string path = cluster_file(given);
  auto config = Config::load(path);
  if (!config) return Failure(config.error());
  std::error_code ignored;
  const auto base = std::filesystem::absolute(path, ignored).parent_path();
  auto root = config->root();
  ClusterFile file;
  Cluster& cluster = file.cluster;
  cluster.stripe_size = root.bytes("stripe_size", cluster.stripe_size);
  if (auto fine = check_stripe_size(cluster.stripe_size); !fine) root.mistake("stripe_size", fine.error().message);
  cluster.stripe_count = static_cast<std::uint32_t>(root.integer("stripe_count", 0, {0, kMostTargets}));
  cluster.key_file = resolve(base, root.text("key_file", ""));
  cluster.munge = root.boolean("munge", false);
  const auto user = root.scalar("node_user", "");
  cluster.node_user = user.empty() ? owner_of(path) : find_user(user);
  if (!user.empty() && !cluster.node_user) root.mistake("node_user", "must be the name or number of a user");
  cluster.discover_layouts = root.boolean("discover_layouts", false);
  if (const auto text = root.text("order_ids", ""); !text.empty()) {
    const auto order_ids = job::parse_order_range(text);
    if (!order_ids) root.mistake("order_ids", order_ids.error().message);
    cluster.order_ids = order_ids.value_or(OrderRange{});
  }
  cluster.request_timeout = root.duration("request_timeout", cluster.request_timeout);
  cluster.fence_time = root.duration("fence_time", cluster.fence_time);
  if (const auto old = root.duration("lease", Duration{0}); old != Duration{0}) {
    print_error("tutti: {}: `lease` is called `fence_time` now\n", path);
    cluster.fence_time = old;
  }
  if (cluster.request_timeout < kLeastTimeout)
    root.mistake("request_timeout", "must be at least 1s; nodes report once per second that they are at work");
  if (cluster.fence_time < kLeastFence)
    root.mistake("fence_time", "must be at least 100ms; a node that is stopped for longer ends");
  file.written_by_up = root.boolean("written_by_up", false);
  file.defaults = read_defaults(root.section("defaults"), base);
  std::size_t index = 0;
  for (auto& section : root.sections("node")) cluster.nodes.push_back(read_node(section, base, index++));
  if (auto done = config->finish(); !done) return Failure(done.error());
  if (auto fine = check_cluster(cluster); !fine) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: {}", path, fine.error().message));
  }
  return file;
}

Result<Cluster> load_cluster(const std::string& path) {
  return load_cluster_file(path).map([](ClusterFile&& file) { return std::move(file.cluster); });
}

Result<void> save_cluster(const Cluster& cluster, const std::string& path) {
  return save_cluster_file({.cluster = cluster}, path);
}

Result<void> save_cluster_file(const ClusterFile& file, const std::string& path) {
  const Cluster& cluster = file.cluster;
  std::string text = "# A Tutti cluster: its nodes and their targets. Every client reads this file.\n";
  if (file.written_by_up) text += "written_by_up = true  # 'tutti up' may change this file\n";
  text += fmt::format("stripe_size = {}\nstripe_count = {}\n", cluster.stripe_size.count(), cluster.stripe_count);
  if (!cluster.key_file.empty()) text += fmt::format("key_file = '{}'\n", cluster.key_file);
  if (cluster.munge) text += "munge = true\n";
  if (cluster.node_user) text += fmt::format("node_user = \"{}\"\n", *cluster.node_user);
  if (cluster.discover_layouts) text += "discover_layouts = true\n";
  text += fmt::format("order_ids = \"{}-{}\"\n", cluster.order_ids.low, cluster.order_ids.high);
  text += fmt::format("request_timeout = \"{}ns\"\nfence_time = \"{}ns\"\n", cluster.request_timeout.count(),
                      cluster.fence_time.count());
  text += defaults_text(file.defaults);
  for (const auto& node : cluster.nodes) {
    text += fmt::format("\n[[node]]\nname = '{}'\nendpoint = '{}'\ntargets = \"{}\"\n", node.name, node.endpoint,
                        fmt::join(node.targets, ","));
  }
  return write_whole_file(path, text);
}

}  // namespace tutti

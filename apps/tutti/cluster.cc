// SPDX-License-Identifier: Apache-2.0
// tutti up | down | status: a cluster on this machine in one command.
#include "cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "command.h"
#include "node/pid_file.h"
#include "node_options.h"

namespace tutti::cli {

namespace fs = std::filesystem;
void ClusterChoice::define(CommandLine& line) {
  line.option("--cluster", file, "The cluster's description");
}

Result<Cluster> ClusterChoice::load() const {
  return load_cluster(file);
}

Result<std::unique_ptr<Control>> connect_to(const Cluster& cluster, const NodeAddress& node, Duration timeout) {
  return Control::connect(
      {.endpoint = node.endpoint, .key_file = cluster.key_file, .munge = cluster.munge, .timeout = timeout});
}

namespace {

struct Up {
  std::string directory = "tutti-data";
  std::string root;
  std::size_t nodes = 4;
  Bytes stripe_size{1 << 20};
  Duration lease = std::chrono::seconds(2);
  NodeSettings settings;
};

// Paths of Unix sockets are at most 107 bytes long; a deep directory gets a short one beside it.
Result<std::string> socket_directory(const LocalCluster& local) {
  const std::string run = fs::absolute(local.run()).lexically_normal().string();
  if (run.size() + sizeof "/node1000.sock" < 100) return run;
  std::string pattern = "/tmp/tutti-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return fail(ErrorCode::kIo, pattern + ": " + std::strerror(errno), errno);
  chmod(pattern.c_str(), 0755);
  return pattern;
}

Result<Cluster> describe(const Up& up, const LocalCluster& local) {
  auto sockets = socket_directory(local);
  if (!sockets) return Failure(sockets.error());
  Cluster cluster;
  cluster.stripe_size = up.stripe_size;
  cluster.lease = up.lease;
  for (std::size_t i = 0; i < up.nodes; ++i)
    cluster.nodes.push_back(
        {fmt::format("node{}", i), fmt::format("unix:{}/node{}.sock", *sockets, i), {static_cast<TargetId>(i)}});
  return cluster;
}

std::vector<std::string> names_with_pid_files(const LocalCluster& local) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(local.run(), error))
    if (entry.path().extension() == ".pid") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> make_directories(const Up& up, const LocalCluster& local) {
  std::error_code error;
  fs::create_directories(local.run(), error);
  if (error) return fail(ErrorCode::kIo, local.run() + ": " + error.message(), error.value());
  if (!up.root.empty()) return {};
  const std::string files = local.directory + "/files";
  if (fs::create_directory(files, error) && geteuid() == 0)
    chmod(files.c_str(), 01777);  // everybody's, like /tmp, when everybody is served
  if (error) return fail(ErrorCode::kIo, files + ": " + error.message(), error.value());
  return {};
}

// Starts `tutti node` in a session of its own, its output in the log.
Result<pid_t> start_node(const Up& up, const LocalCluster& local, const std::string& name) {
  const std::string root = up.root.empty() ? local.directory + "/files" : up.root;
  std::vector<std::string> words{"tutti", "node",  "--cluster", local.description(), "--name",
                                 name,    "--dir", root,        "--pid-file",        local.pid_file(name)};
  for (std::string& word : up.settings.to_arguments()) words.push_back(std::move(word));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log = open(local.log_file(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return fail(ErrorCode::kIo, local.log_file(name) + ": " + std::strerror(errno), errno);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  close(log);
  if (child < 0) return fail(ErrorCode::kIo, std::string("fork: ") + std::strerror(errno), errno);
  return child;
}

std::string last_line(const std::string& path) {
  std::ifstream stream(path);
  std::string line, last;
  while (std::getline(stream, line))
    if (!line.empty()) last = line;
  return last;
}

Result<void> wait_until_healthy(const Cluster& cluster, const NodeAddress& node, pid_t child,
                                const LocalCluster& local) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    if (waitpid(child, nullptr, WNOHANG) == child)
      return fail(ErrorCode::kIo, fmt::format("{} did not start: {}", node.name, last_line(local.log_file(node.name))));
    auto control = connect_to(cluster, node, std::chrono::seconds(2));
    if (control && (*control)->health()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return fail(ErrorCode::kTimeout, fmt::format("{} does not answer; see {}", node.name, local.log_file(node.name)));
}

// Asks every running node to stop and waits; those that do not obey in time are killed.
std::size_t stop_nodes(const LocalCluster& local, bool at_once, Duration patience) {
  std::size_t running = 0;
  const auto names = names_with_pid_files(local);
  for (const std::string& name : names)
    if (const auto holder = PidFile::holder(local.pid_file(name))) {
      ++running;
      kill(*holder, at_once ? SIGINT : SIGTERM);
    }
  const auto until = std::chrono::steady_clock::now() + patience;
  for (const std::string& name : names) {
    while (std::chrono::steady_clock::now() < until && PidFile::holder(local.pid_file(name))) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (const auto holder = PidFile::holder(local.pid_file(name))) {
      fmt::print(stderr, "tutti: {} does not stop and is killed\n", name);
      kill(*holder, SIGKILL);
    }
    std::error_code ignored;
    fs::remove(local.pid_file(name), ignored);
  }
  return running;
}

Result<Cluster> bring_up(const Up& up, const LocalCluster& local) {
  if (auto options = up.settings.to_options(); !options) return Failure(options.error());
  for (const std::string& name : names_with_pid_files(local))
    if (const auto holder = PidFile::holder(local.pid_file(name)))
      return fail(ErrorCode::kDuplicate,
                  fmt::format("{} is up already ({} is process {}); tutti down --dir {} stops it", local.directory,
                              name, *holder, local.directory));
  if (auto made = make_directories(up, local); !made) return Failure(made.error());
  auto cluster = describe(up, local);
  if (!cluster) return cluster;
  if (auto saved = save_cluster(*cluster, local.description()); !saved) return Failure(saved.error());
  std::vector<pid_t> children;
  for (const NodeAddress& node : cluster->nodes) {
    auto child = start_node(up, local, node.name);
    if (!child) return Failure(child.error());
    children.push_back(*child);
  }
  for (std::size_t i = 0; i < children.size(); ++i)
    if (auto healthy = wait_until_healthy(*cluster, cluster->nodes[i], children[i], local); !healthy) {
      stop_nodes(local, true, std::chrono::seconds(5));
      return Failure(healthy.error());
    }
  return cluster;
}

int run_up(const Up& up) {
  const LocalCluster local{fs::absolute(up.directory).lexically_normal().string()};
  const auto cluster = bring_up(up, local);
  if (!cluster) return report(cluster.error());
  fmt::print("{} nodes serve {} with policy {}{}\n", cluster->nodes.size(),
             up.root.empty() ? local.directory + "/files" : up.root, up.settings.policy,
             up.settings.device.empty() ? "" : ", each with the timing of a device: " + up.settings.device);
  fmt::print("use it:   export TUTTI_CLUSTER={}\n          tutti put FILE NAME; tutti ls; tutti top\n",
             local.description());
  fmt::print("stop it:  tutti down --dir {}\n", up.directory);
  return kDone;
}

int run_down(const std::string& directory, bool at_once) {
  const LocalCluster local{fs::absolute(directory).lexically_normal().string()};
  if (!fs::exists(local.description()))
    return report({ErrorCode::kNotFound, fmt::format("{}: no cluster was ever up here", directory)});
  const std::size_t stopped = stop_nodes(local, at_once, std::chrono::seconds(35));
  fmt::print("{}\n", stopped == 0 ? "nothing was running" : fmt::format("{} nodes stopped", stopped));
  return kDone;
}

struct NodeState {
  NodeAddress address;
  Result<wire::HealthReply> health;
  Result<wire::StatisticsReply> statistics;
};

std::vector<NodeState> ask_all(const Cluster& cluster) {
  std::vector<NodeState> states;
  for (const NodeAddress& node : cluster.nodes) {
    auto control = connect_to(cluster, node, std::chrono::seconds(2));
    if (!control) {
      states.push_back({node, Failure(control.error()), Failure(control.error())});
      continue;
    }
    auto health = (*control)->health();
    states.push_back({node, std::move(health), (*control)->statistics()});
  }
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

void print_states(const std::vector<NodeState>& states) {
  Table table({"node", "state", "process", "engine", "policy", "uptime", "clients", "waiting", "in flight", "served"});
  for (const NodeState& state : states) {
    if (!state.health || !state.statistics) {
      table.add({state.address.name, "down", "", "", "", "", "", "", "", ""});
      continue;
    }
    table.add({state.address.name, state.health->stopping ? "stopping" : "up", std::to_string(state.health->process),
               state.health->engine, state.health->policy, format(state.health->uptime),
               std::to_string(state.statistics->connections), std::to_string(state.statistics->waiting),
               std::to_string(state.statistics->in_flight), std::to_string(state.statistics->batched_requests)});
  }
  fmt::print("{}", table.text());
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
  const bool all = std::all_of(states.begin(), states.end(), [](const NodeState& s) { return s.health.has_value(); });
  return all ? kDone : kFailed;
}

}  // namespace

Command up_command() {
  return {"up", "Start a cluster on this machine", [](CommandLine& line) {
            auto up = std::make_shared<Up>();
            line.option("--dir", up->directory, "Where the cluster lives");
            line.option("--root", up->root, "What it serves; DIR/files unless given");
            line.option("--nodes", up->nodes, "How many, one target each").between(1, 1000);
            line.option("--stripe-size", up->stripe_size, "Of files");
            line.option("--lease", up->lease, "A node that has not run for so long is dead");
            up->settings.define(line);
            line.action([up] { return run_up(*up); });
          }};
}

Command down_command() {
  return {"down", "Stop a cluster on this machine", [](CommandLine& line) {
            auto directory = std::make_shared<std::string>("tutti-data");
            auto at_once = std::make_shared<bool>(false);
            line.option("--dir", *directory, "Where the cluster lives");
            line.flag("--now", *at_once, "Drop what waits instead of finishing it");
            line.action([directory, at_once] { return run_down(*directory, *at_once); });
          }};
}

Command status_command() {
  return {"status", "Show the nodes of a cluster and whether they answer", [](CommandLine& line) {
            auto choice = std::make_shared<ClusterChoice>();
            auto json = std::make_shared<bool>(false);
            choice->define(line);
            line.json(*json);
            line.action([choice, json] { return run_status(*choice, *json); });
          }};
}

}  // namespace tutti::cli

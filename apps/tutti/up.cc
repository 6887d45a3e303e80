// SPDX-License-Identifier: Apache-2.0
// tutti up | down | restart: the nodes of a cluster on this machine.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/print_error.h"
#include "base/replace_file.h"
#include "base/units.h"
#include "command.h"
#include "local_cluster.h"
#include "net/endpoint.h"
#include "node/pid_file.h"
#include "node_options.h"
#include "stop_signals.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kDefaultNodes = 4;
constexpr Duration kStartTimeout = 20s;
constexpr Duration kStopTimeout = 35s;  // a node itself drops what it could not serve within 30 s

// Options that are not given are zero or empty.
struct Up {
  ClusterChoice cluster;
  std::size_t nodes = 0;
  Bytes stripe_size{};
  Duration fence_time{};
  NodeSettings settings;

  bool any_given() const {
    const NodeSettings& s = settings;
    return nodes != 0 || stripe_size != Bytes{} || fence_time != Duration{} || !s.directory.empty() ||
           !s.policy.empty() || !s.policy_options.empty() || !s.engine.empty() || s.direct || !s.device.empty() ||
           !s.device_class.empty() || s.depth != 0 || s.buffers != Bytes{} || !s.trace.empty() || !s.predict.empty() ||
           s.trace_limit != Bytes{};
  }
};

// What a start has created, to remove it if the start fails. Directories are removed only if they are empty.
class Created {
 public:
  ~Created() {
    std::error_code ignored;
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path)
      if (path->pid_file.empty() || !PidFile::holder(path->pid_file).held) fs::remove(path->name, ignored);
  }
  // Creates the directory and those above it.
  Result<void> directory(const std::string& path) {
    std::error_code error;
    const fs::path above = fs::path(path).parent_path();
    if (!above.empty() && !fs::exists(above, error))
      if (auto made = directory(above.string()); !made) return made;
    if (fs::create_directory(path, error)) add(path);
    if (error) return fail(ErrorCode::kIo, path + ": " + error.message(), error.value());
    return {};
  }
  void add(const std::string& path) { paths_.push_back({path, {}}); }
  // The files that the node will create, except those that exist. They are not removed while another process runs it.
  void add_files_of(const NodeAddress& node, const LocalCluster& local) {
    std::vector<std::string> files{local.pid_file(node.name), local.log_file(node.name)};
    const auto endpoint = net::parse_endpoint(node.endpoint);
    if (endpoint && endpoint->kind == net::Endpoint::Kind::kUnix) files.push_back(endpoint->name);
    std::error_code error;
    for (const std::string& file : files)
      if (fs::symlink_status(file, error).type() == fs::file_type::not_found)
        paths_.push_back({file, local.pid_file(node.name)});
  }
  void keep() { paths_.clear(); }

 private:
  struct Path {
    std::string name;
    std::string pid_file;  // of its node; empty: the file belongs to no node
  };
  std::vector<Path> paths_;
};

std::string content_of(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The path of a Unix socket is limited to 107 bytes. If the cluster's directory is too long, the sockets are in /tmp.
Result<std::string> socket_directory(const LocalCluster& local, Created& created) {
  if (local.run().size() + sizeof "/node1000.sock" < 100) return local.run();
  std::string pattern = "/tmp/tutti-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return fail(ErrorCode::kIo, pattern + ": " + std::strerror(errno), errno);
  created.add(pattern);
  chmod(pattern.c_str(), 0755);
  return pattern;
}

// The description of a cluster that is not running: the options, else what `file` says, else the defaults.
Result<void> describe(const Up& up, const LocalCluster& local, Created& created, ClusterFile& file) {
  file.written_by_up = true;
  Cluster& cluster = file.cluster;
  cluster.node_user.reset();  // the owner of the file
  if (up.stripe_size != Bytes{}) cluster.stripe_size = up.stripe_size;
  if (up.fence_time != Duration{}) cluster.fence_time = up.fence_time;
  file.defaults = complete(up.settings, file.defaults);
  if (!up.settings.trace.empty()) file.defaults.trace = fs::absolute(up.settings.trace).lexically_normal().string();
  if (!up.settings.predict.empty())
    file.defaults.predict = fs::absolute(up.settings.predict).lexically_normal().string();
  if (file.defaults.directory.empty()) file.defaults.directory = local.directory + "/files";
  const auto sockets = socket_directory(local, created);
  if (!sockets) return Failure(sockets.error());
  const std::size_t nodes = up.nodes != 0 ? up.nodes : cluster.nodes.empty() ? kDefaultNodes : cluster.nodes.size();
  cluster.nodes.clear();
  for (std::size_t i = 0; i < nodes; ++i)
    cluster.nodes.push_back(
        {fmt::format("node{}", i), fmt::format("unix:{}/node{}.sock", *sockets, i), {static_cast<TargetId>(i)}});
  return {};
}

Result<void> make_served_directory(const std::string& directory, const LocalCluster& local, Created& created) {
  if (directory != local.directory + "/files" || fs::exists(directory)) return {};
  if (auto made = created.directory(directory); !made) return made;
  if (geteuid() == 0) chmod(directory.c_str(), 01777);  // nodes of root serve all users: writable for all, like /tmp
  return {};
}

// Has the child ended? It stays a zombie, so that no other process gets its id.
bool has_ended(pid_t child) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child;
}

Result<void> wait_until_healthy(const Cluster& cluster, const NodeAddress& node, pid_t child, const LocalCluster& local,
                                const StopSignals& signals) {
  const auto until = std::chrono::steady_clock::now() + kStartTimeout;
  std::string why;
  while (std::chrono::steady_clock::now() < until) {
    if (signals.number() != 0) return fail(ErrorCode::kStopped, "stopped by a signal; the nodes are ended");
    if (has_ended(child))
      return fail(ErrorCode::kIo, fmt::format("{} did not start: {}", node.name, last_line(local.log_file(node.name))));
    auto control = connect_to(cluster, node, 2s);
    if (control && (*control)->health()) return {};
    why = control ? "does not answer" : control.error().message;
    std::this_thread::sleep_for(20ms);
  }
  return fail(ErrorCode::kTimeout,
              fmt::format("{} does not answer within {} ({}). The last line of its log: {}", node.name,
                          format(kStartTimeout), why, last_line(local.log_file(node.name))));
}

// Ends the nodes that this process has started, also those that have no pid file yet.
void end_children(const std::vector<pid_t>& children) {
  for (const pid_t child : children) kill(child, SIGINT);
  const auto until = std::chrono::steady_clock::now() + 5s;
  for (const pid_t child : children) {
    while (!has_ended(child) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(5ms);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

// Starts all these nodes or none, also if this process is killed meanwhile.
Result<void> start_nodes(const LocalCluster& local, const Cluster& cluster, const std::vector<NodeAddress>& nodes,
                         StopSignals& signals) {
  signals.protect();
  std::vector<pid_t> children;
  Result<void> done;
  auto pipe = StartPipe::create();
  if (!pipe) return Failure(pipe.error());
  for (const NodeAddress& node : nodes) {
    const auto child = start_node(local, node.name, *pipe);
    if (!child) {
      done = Failure(child.error());
      break;
    }
    children.push_back(*child);
  }
  for (std::size_t i = 0; i < children.size() && done; ++i)
    done = wait_until_healthy(cluster, nodes[i], children[i], local, signals);
  if (done)
    pipe->release(children.size());
  else
    end_children(children);
  return done;
}

bool is_running(const LocalCluster& local, const Cluster& cluster, const NodeAddress& node) {
  return PidFile::holder(local.pid_file(node.name)).held || connect_to(cluster, node, 2s).has_value();
}

std::string names(const std::vector<NodeAddress>& nodes) {
  std::string text;
  for (const NodeAddress& node : nodes) text += (text.empty() ? "" : ", ") + node.name;
  return text;
}

// The nodes of a cluster by what `up` can do for them.
struct Inventory {
  std::vector<NodeAddress> running, missing, elsewhere;
};

Inventory take_inventory(const LocalCluster& local, const Cluster& cluster) {
  Inventory inventory;
  for (const NodeAddress& node : cluster.nodes) {
    if (is_running(local, cluster, node))
      inventory.running.push_back(node);
    else
      (is_local(node.endpoint) ? inventory.missing : inventory.elsewhere).push_back(node);
  }
  return inventory;
}

// Options change only a description that `up` wrote, and only while no node uses it.
Result<void> check_options(const Up& up, const LocalCluster& local, const ClusterFile& file,
                           const Inventory& inventory) {
  if (!up.any_given()) return {};
  if (!file.written_by_up)
    return fail(ErrorCode::kInvalid,
                fmt::format("{} was not written by 'tutti up'. Change it instead of giving options; "
                            "settings of nodes are in [defaults]",
                            local.description));
  if (inventory.running.empty()) return {};
  return fail(ErrorCode::kDuplicate,
              fmt::format("{} of {}: running. Options take effect when the cluster is down: tutti down --cluster {}",
                          names(inventory.running), local.description, local.directory));
}

struct Started {
  ClusterFile file;
  Inventory before;
};

Result<Started> bring_up(const Up& up, const LocalCluster& local, StopSignals& signals) {
  if (auto possible = to_options(up.settings); !possible) return Failure(possible.error());
  if (up.stripe_size != Bytes{})
    if (auto possible = check_stripe_size(up.stripe_size); !possible) return Failure(possible.error());
  Created folders;  // removed after the lock file in them
  if (auto made = folders.directory(local.directory); !made) return Failure(made.error());
  const auto lock = local.lock();
  if (!lock) return Failure(lock.error());
  Created created;
  Started started;
  const bool exists = fs::exists(local.description);
  if (exists) {
    auto file = load_cluster_file(local.description);
    if (!file) return Failure(file.error());
    started.before = take_inventory(local, file->cluster);
    started.file = std::move(*file);
    if (auto fine = check_options(up, local, started.file, started.before); !fine) return Failure(fine.error());
    if (started.before.missing.empty() && !started.before.running.empty())
      return fail(ErrorCode::kDuplicate, fmt::format("{} is up already ({}); tutti down --cluster {} stops it",
                                                     local.directory, names(started.before.running), local.directory));
    if (started.before.missing.empty())
      return fail(ErrorCode::kInvalid, fmt::format("all nodes of {} are on other machines ({}); start them there",
                                                   local.description, names(started.before.elsewhere)));
  }
  std::string replaced;  // content of the description before this start
  const bool describes = !exists || (started.file.written_by_up && started.before.running.empty());
  if (auto made = created.directory(local.run()); !made) return Failure(made.error());
  if (describes)
    if (auto described = describe(up, local, created, started.file); !described) return Failure(described.error());
  const std::string served = started.file.defaults.directory;
  if (served.empty())
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: set the directory to serve: directory = \"...\" in [defaults]", local.description));
  if (auto made = make_served_directory(served, local, created); !made) return Failure(made.error());
  if (describes) {
    if (exists) replaced = content_of(local.description);
    if (auto saved = save_cluster_file(started.file, local.description); !saved) return Failure(saved.error());
    if (!exists) created.add(local.description);
    started.before.missing = started.file.cluster.nodes;
  }
  for (const NodeAddress& node : started.before.missing) created.add_files_of(node, local);
  if (auto up_now = start_nodes(local, started.file.cluster, started.before.missing, signals); !up_now) {
    if (replaced.empty()) return Failure(up_now.error());
    if (auto restored = replace_file(local.description, replaced); !restored)
      return fail(ErrorCode::kIo, fmt::format("{}. The description keeps the new options: {}", up_now.error().message,
                                              restored.error().message));
    return Failure(up_now.error());
  }
  created.keep();
  folders.keep();
  return started;
}

int run_up(const Up& up) {
  StopSignals signals;
  const LocalCluster local(up.cluster.file());
  const auto started = bring_up(up, local, signals);
  if (!started) {
    const int status = report(started.error());
    signals.end_process();
    return status;
  }
  const NodeSettings& settings = started->file.defaults;
  fmt::print("{} nodes serve {} with policy {}{}\n", started->before.missing.size(), settings.directory,
             settings.policy.empty() ? NodeOptions{}.policy : settings.policy,
             settings.device.empty() ? "" : ", each with the timing of a device: " + settings.device);
  if (!started->before.running.empty()) fmt::print("running before: {}\n", names(started->before.running));
  if (!started->before.elsewhere.empty())
    fmt::print("on other machines: {}; start them there\n", names(started->before.elsewhere));
  fmt::print("use it:   export TUTTI_CLUSTER={}\n          tutti put FILE NAME; tutti ls; tutti top\n",
             local.directory);
  fmt::print("stop it:  tutti down --cluster {}\n", local.directory);
  return kDone;
}

// Removes what nodes leave that were killed, and the directory of sockets in /tmp.
void clean_up(const LocalCluster& local, const ClusterFile& file, const NodeStop& stop) {
  if (stop.state() == NodeStop::State::kRemains || PidFile::holder(local.pid_file(stop.name())).held) return;
  std::error_code ignored;
  fs::remove(local.pid_file(stop.name()), ignored);
  for (const NodeAddress& node : file.cluster.nodes) {
    const auto endpoint = net::parse_endpoint(node.endpoint);
    if (node.name != stop.name() || !endpoint || endpoint->kind != net::Endpoint::Kind::kUnix) continue;
    if (fs::is_socket(endpoint->name, ignored)) fs::remove(endpoint->name, ignored);
    const fs::path folder = fs::path(endpoint->name).parent_path();
    if (file.written_by_up && folder != local.run()) fs::remove(folder, ignored);  // if it is empty
  }
}

void print_problem(const NodeStop& stop) {
  if (stop.why().empty()) return;
  print_error("tutti: {}{} {}\n", stop.name(), stop.state() == NodeStop::State::kRemains ? " may still run:" : "",
              stop.why());
}

// Reports nodes that were killed or may still run. Returns the exit status.
int report_stops(const LocalCluster& local, const ClusterFile& file, const std::vector<NodeStop>& stops) {
  int status = kDone;
  for (const NodeStop& stop : stops) {
    print_problem(stop);
    if (stop.state() == NodeStop::State::kRemains) status = kFailed;
    clean_up(local, file, stop);
  }
  return status;
}

struct Down {
  ClusterChoice cluster;
  bool at_once = false;
  Duration timeout = kStopTimeout;
};

int run_down(const Down& down) {
  const LocalCluster local(down.cluster.file());
  const auto lock = local.lock();
  // Other failures, such as a full disk or no right to write there, do not keep nodes from being stopped.
  if (!lock && lock.error().code == ErrorCode::kDuplicate) return report(lock.error());
  const auto file = down.cluster.load_file();
  if (!file) return report(file.error());
  const auto stops = stop_nodes(local, file->cluster, file->cluster.nodes, down.at_once, down.timeout);
  const int status = report_stops(local, *file, stops);
  const auto ended = std::count_if(stops.begin(), stops.end(), [](const NodeStop& stop) {
    return stop.state() == NodeStop::State::kStopped || stop.state() == NodeStop::State::kKilled;
  });
  const auto left = std::count_if(stops.begin(), stops.end(),
                                  [](const NodeStop& stop) { return stop.state() == NodeStop::State::kRemains; });
  if (left > 0)
    fmt::print("{} of {} nodes stopped, {} may still run\n", ended, stops.size(), left);
  else
    fmt::print("{}\n", ended == 0 ? "nothing was running" : fmt::format("{} nodes stopped", ended));
  return status;
}

struct Restart {
  ClusterChoice cluster;
  std::vector<std::string> nodes;
};

Result<std::vector<NodeAddress>> find_nodes(const Cluster& cluster, const std::vector<std::string>& wanted) {
  std::vector<NodeAddress> found;
  for (const std::string& name : wanted) {
    const auto named = [&](const NodeAddress& address) { return address.name == name; };
    if (std::any_of(found.begin(), found.end(), named)) continue;
    const auto node = std::find_if(cluster.nodes.begin(), cluster.nodes.end(), named);
    if (node == cluster.nodes.end())
      return fail(ErrorCode::kInvalid,
                  fmt::format("the cluster has no node '{}'; its nodes: {}", name, names(cluster.nodes)));
    if (!is_local(node->endpoint))
      return fail(ErrorCode::kInvalid,
                  fmt::format("{} ({}) is on another machine; restart it there", name, node->endpoint));
    found.push_back(*node);
  }
  return found;
}

int run_restart(const Restart& restart) {
  StopSignals signals;
  const LocalCluster local(restart.cluster.file());
  auto lock = local.lock();
  if (!lock && lock.error().system != ENOENT) return report(lock.error());
  const auto file = restart.cluster.load_file();
  if (!file) return report(file.error());
  const auto nodes = find_nodes(file->cluster, restart.nodes);
  if (!nodes) return report(nodes.error());
  if (file->defaults.directory.empty())
    return report({ErrorCode::kInvalid, fmt::format("{}: set the directory to serve: directory = \"...\" in [defaults]",
                                                    restart.cluster.file())});
  std::error_code error;
  fs::create_directories(local.run(), error);
  signals.protect();  // nodes that were stopped are started again
  const auto stops = stop_nodes(local, file->cluster, *nodes, false, kStopTimeout);
  std::vector<NodeAddress> ended;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    print_problem(stops[i]);
    if (stops[i].state() != NodeStop::State::kRemains) ended.push_back((*nodes)[i]);
  }
  const auto started = start_nodes(local, file->cluster, ended, signals);
  if (!started) {
    const int status = report(started.error());
    if (lock) lock->reset();
    signals.end_process();
    return status;
  }
  for (const NodeStop& stop : stops)
    if (stop.state() != NodeStop::State::kRemains)
      fmt::print("{} {}\n", stop.name(), stop.was_running() ? "restarted" : "started; it was not running");
  return ended.size() == stops.size() ? kDone : kFailed;
}

}  // namespace

Command up_command() {
  return {
      "up", "Start the nodes of a cluster that belong to this machine and do not run", [](CommandLine& line) {
        auto up = std::make_shared<Up>();
        up->cluster.define(line, "--dir,--cluster");
        line.option("--root", up->settings.directory, "Directory or mount to serve (default: DIR/files)");
        line.option("--nodes", up->nodes, "Number of nodes; each node has one target (default: 4)").between(1, 1000);
        line.option("--stripe-size", up->stripe_size,
                    "Stripe size of files, a multiple of 4KiB; consecutive stripes are on different targets "
                    "(default: 1MiB)")
            .at_least(Bytes(4096));
        line.option("--fence-time", up->fence_time,
                    "A node that was stopped for longer than this never runs again; adds this time to "
                    "the takeover of a lost node's requests (default: 2s)")
            .at_least(1ms);
        define_settings(line, up->settings);
        line.action([up] { return run_up(*up); });
      }};
}

Command down_command() {
  return {"down", "Stop all nodes of a cluster and verify that they have ended", [](CommandLine& line) {
            auto down = std::make_shared<Down>();
            down->cluster.define(line, "--dir,--cluster");
            line.flag("--now", down->at_once, "Drop waiting requests instead of serving them first");
            line.option("--timeout", down->timeout, "After this time, nodes that 'tutti up' started are killed")
                .at_least(1ms);
            line.action([down] { return run_down(*down); });
          }};
}

Command restart_command() {
  return {"restart", "Stop nodes of this machine, if they run, and start them", [](CommandLine& line) {
            auto restart = std::make_shared<Restart>();
            restart->cluster.define(line, "--dir,--cluster");
            line.option("node", restart->nodes, "Names of the nodes").required();
            line.action([restart] { return run_restart(*restart); });
          }};
}

}  // namespace tutti::cli

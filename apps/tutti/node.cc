// SPDX-License-Identifier: Apache-2.0
// tutti node: one data node in the foreground.
#include "node/node.h"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tutti/client.h>

#include <algorithm>
#include <thread>

#include "base/units.h"
#include "command.h"
#include "net/watchdog.h"
#include "node/pid_file.h"
#include "node_options.h"

namespace tutti::cli {
namespace {

struct Arguments {
  NodeSettings settings;
  std::string cluster, name = "node0", directory, pid_file;
};

// Endpoint, targets, key and stripes come from the cluster's description.
Result<Duration> apply_cluster(const Arguments& arguments, NodeOptions& options) {
  auto cluster = load_cluster(arguments.cluster);
  if (!cluster) return Failure(cluster.error());
  const auto node = std::find_if(cluster->nodes.begin(), cluster->nodes.end(),
                                 [&](const NodeAddress& address) { return address.name == arguments.name; });
  if (node == cluster->nodes.end())
    return fail(ErrorCode::kInvalid, fmt::format("{}: no [[node]] named {}", arguments.cluster, arguments.name));
  std::size_t targets = 0;
  for (const NodeAddress& address : cluster->nodes) targets += address.targets.size();
  options.listen = {node->endpoint};
  options.targets = node->targets;
  options.key_file = cluster->key_file;
  options.munge = cluster->munge;
  if (options.model) {
    options.model->stripe_size = cluster->stripe_size;
    options.model->stripe_count = cluster->stripe_count != 0 ? cluster->stripe_count : targets;
    options.model->seed = static_cast<std::uint64_t>(node - cluster->nodes.begin());
  }
  return cluster->lease;
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// SIGTERM finishes what waits, SIGINT drops it. Blocked in all threads and taken by one.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  Scheduler::Stop wait() {
    int taken = 0;
    sigwait(&set_, &taken);
    return taken == SIGTERM ? Scheduler::Stop::kDrain : Scheduler::Stop::kDrop;
  }
  void wake() { kill(getpid(), SIGTERM); }

 private:
  sigset_t set_{};
};

int serve(const Arguments& arguments) {
  Signals signals;
  auto options = arguments.settings.to_options();
  if (!options) return report(options.error());
  options->name = arguments.name;
  options->directory = arguments.directory;
  const auto lease = apply_cluster(arguments, *options);
  if (!lease) return report(lease.error());
  std::unique_ptr<PidFile> pid_file;
  if (!arguments.pid_file.empty()) {
    auto taken = PidFile::take(arguments.pid_file);
    if (!taken) return report(taken.error());
    pid_file = std::move(*taken);
  }
  umask(0);  // modes come from clients, who have applied their own
  raise_file_limit();
  auto node = Node::start(*options);
  if (!node) return report(node.error());
  auto watchdog = net::Watchdog::start(*lease);
  if (!watchdog) return report(watchdog.error());
  for (const std::string& endpoint : (*node)->endpoints())
    spdlog::info("{} serves {} at {} with policy {}", options->name, options->directory, endpoint, options->policy);
  std::thread listener([&] { (*node)->interrupt(signals.wait()); });
  const Scheduler::Stop how = (*node)->wait_for_stop();
  signals.wake();
  listener.join();
  spdlog::info("{} stops, {} what waits", options->name, how == Scheduler::Stop::kDrain ? "finishing" : "dropping");
  const bool finished = (*node)->stop(how);
  spdlog::info("{} has stopped", options->name);
  return finished ? kDone : kFailed;
}

}  // namespace

Command node_command() {
  return {"node", "Run one data node in the foreground", [](CommandLine& line) {
            auto arguments = std::make_shared<Arguments>();
            line.option("--cluster", arguments->cluster, "The cluster's description").required();
            line.option("--name", arguments->name, "Which [[node]] of it this is");
            line.option("--dir", arguments->directory, "The directory or mount to serve").required();
            line.option("--pid-file", arguments->pid_file, "Locked while the node runs");
            arguments->settings.define(line);
            line.action([arguments] { return serve(*arguments); });
          }};
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// tutti node: runs one data node in the foreground.
#include "node/node.h"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <tutti/client.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/descriptor.h"
#include "base/units.h"
#include "cluster.h"
#include "command.h"
#include "net/watchdog.h"
#include "node/pid_file.h"
#include "node_options.h"

namespace tutti::cli {
namespace {

struct NodeArguments {
  ClusterChoice cluster;
  NodeSettings settings;
  std::string name = "node0", pid_file;
  std::size_t start_pipe = 0;  // 0: none
};

// The options of the command line, completed by the cluster description: settings, endpoint, key and stripes.
Result<NodeOptions> read_options(const NodeArguments& arguments) {
  auto file = arguments.cluster.load_file();
  if (!file) return Failure(file.error());
  const Cluster& cluster = file->cluster;
  auto made = to_options(complete(arguments.settings, file->defaults));
  if (!made) return Failure(made.error());
  NodeOptions& options = *made;
  const auto node = std::find_if(cluster.nodes.begin(), cluster.nodes.end(),
                                 [&](const NodeAddress& address) { return address.name == arguments.name; });
  if (node == cluster.nodes.end())
    return fail(ErrorCode::kInvalid, fmt::format("{}: no [[node]] named {}", arguments.cluster.file(), arguments.name));
  if (options.directory.empty())
    return fail(ErrorCode::kInvalid, fmt::format("which directory? Give --dir, or set directory in [defaults] of {}",
                                                 arguments.cluster.file()));
  options.name = arguments.name;
  std::size_t targets = 0;
  for (const NodeAddress& address : cluster.nodes) targets += address.targets.size();
  options.listen = {node->endpoint};
  for (const NodeAddress& address : cluster.nodes) options.cluster.push_back({address.name, address.endpoint});
  options.node_user = cluster.node_user;
  options.key_file = cluster.key_file;
  options.munge = cluster.munge;
  if (options.model) {
    options.model->stripe_size = cluster.stripe_size;
    options.model->stripe_count = cluster.stripe_count != 0 ? cluster.stripe_count : targets;
    options.model->seed = static_cast<std::uint64_t>(node - cluster.nodes.begin());
  }
  options.fence_time = cluster.fence_time;
  return made;
}

// SIGTERM: serve the waiting requests, then stop. SIGINT: drop them. Blocked in all threads; wait() receives them.
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

// Ends this process if the pipe is closed before a byte arrives: `tutti up`, which started it, has died before it had
// started all nodes. SIGINT lets the node remove its socket; a node that hangs is ended after a while.
void follow_starter(int pipe) {
  std::thread([pipe] {
    char byte = 0;
    ssize_t got = 0;
    while ((got = read(pipe, &byte, 1)) < 0 && errno == EINTR) continue;
    close(pipe);
    if (got == 1) return;
    kill(getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(10));
    _exit(kFailed);
  }).detach();
}

int serve(const NodeArguments& arguments) {
  raise_descriptor_limit();
  reserve_descriptors(16 << 10);
  (void)spdlog::default_logger();  // made before there are threads that log
  Signals signals;
  if (arguments.start_pipe != 0) follow_starter(static_cast<int>(arguments.start_pipe));
  auto options = read_options(arguments);
  if (!options) return report(options.error());
  std::unique_ptr<PidFile> pid_file;
  if (!arguments.pid_file.empty()) {
    auto taken = PidFile::take(arguments.pid_file);
    if (!taken) return report(taken.error());
    pid_file = std::move(*taken);
  }
  options->exclusive = pid_file != nullptr;
  umask(0);  // clients have already applied their umask
  auto node = Node::start(*options);
  if (!node) return report(node.error());
  auto watchdog = net::Watchdog::start(options->fence_time);
  if (!watchdog) return report(watchdog.error());
  for (const std::string& endpoint : (*node)->endpoints())
    spdlog::info("{} serves {} at {} with policy {}", options->name, options->directory, endpoint, options->policy);
  std::thread listener([&] { (*node)->interrupt(signals.wait()); });
  const Scheduler::Stop how = (*node)->wait_for_stop();
  signals.wake();
  listener.join();
  spdlog::info("{} stops, {} waiting requests", options->name,
               how == Scheduler::Stop::kDrain ? "serving the" : "dropping the");
  const bool finished = (*node)->stop(how);
  spdlog::info("{} has stopped", options->name);
  return finished ? kDone : kFailed;
}

}  // namespace

Command node_command() {
  return {"node", "Run one data node in the foreground", [](CommandLine& line) {
            auto arguments = std::make_shared<NodeArguments>();
            arguments->cluster.define(line);
            line.option("--name", arguments->name, "Name of this node's [[node]] entry in the description");
            line.option("--dir", arguments->settings.directory,
                        "Directory or mount to serve (default: directory in [defaults] of the description)");
            line.option("--pid-file", arguments->pid_file,
                        "File that names the process; locked while the node runs (default: none)");
            line.option("--start-pipe", arguments->start_pipe,
                        "Descriptor of a pipe, set by 'tutti up': the node ends if the pipe is closed before a byte "
                        "arrives (default: none)");
            define_settings(line, arguments->settings);
            line.action([arguments] { return serve(*arguments); });
          }};
}

}  // namespace tutti::cli

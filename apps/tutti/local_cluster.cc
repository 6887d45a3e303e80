// SPDX-License-Identifier: Apache-2.0
#include "local_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/descriptor.h"
#include "base/units.h"
#include "net/endpoint.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

// "user 0", the owner of a process.
std::string owner_of(pid_t process) {
  struct stat status {};
  if (stat(fmt::format("/proc/{}", process).c_str(), &status) != 0) return "another user";
  return fmt::format("user {}", status.st_uid);
}

}  // namespace

LocalCluster::LocalCluster(const std::string& cluster_file)
    : description(fs::absolute(cluster_file).lexically_normal().string()),
      directory(fs::path(description).parent_path().string()) {}

Result<std::unique_ptr<PidFile>> LocalCluster::lock() const {
  auto taken = PidFile::take(directory + "/tutti.lock");
  if (taken || taken.error().code != ErrorCode::kDuplicate) return taken;
  return fail(ErrorCode::kDuplicate, "another tutti up, down or restart is running in " + directory);
}

bool is_local(const std::string& text) {
  const auto endpoint = net::parse_endpoint(text);
  if (!endpoint || endpoint->kind != net::Endpoint::Kind::kTcp) return true;
  std::string host = endpoint->name;
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    // The kernel binds sockets only to addresses of this machine. Port 0: any free one.
    const Descriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0) return true;
  }
  return false;
}

Result<StartPipe> StartPipe::create() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno), errno);
  StartPipe made;
  made.reading_ = Descriptor(ends[0]);
  made.writing_ = Descriptor(ends[1]);
  return made;
}

// This process has the reading end, too, so that it gets no SIGPIPE. Every node reads one byte.
void StartPipe::release(std::size_t nodes) {
  const std::string bytes(nodes, 's');
  while (write(writing_.get(), bytes.data(), bytes.size()) < 0 && errno == EINTR) continue;
}

Result<pid_t> start_node(const LocalCluster& local, const std::string& name, const StartPipe& pipe) {
  constexpr int kPipe = 3;  // its descriptor in the node
  std::vector<std::string> words{"tutti", "node",       "--cluster",          local.description, "--name",
                                 name,    "--pid-file", local.pid_file(name), "--start-pipe",    std::to_string(kPipe)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Descriptor log(open(local.log_file(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return fail(ErrorCode::kIo, local.log_file(name) + ": " + std::strerror(errno), errno);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log.get(), 1);
    dup2(log.get(), 2);
    if (pipe.reading_end() == kPipe)
      fcntl(kPipe, F_SETFD, 0);
    else
      dup2(pipe.reading_end(), kPipe);
    close_range(kPipe + 1, ~0U, 0);  // such as a lock that the caller of `tutti up` holds
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
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

NodeStop::NodeStop(const LocalCluster& local, const Cluster& cluster, const NodeAddress& node)
    : cluster_(cluster), node_(node), pid_file_(local.pid_file(node.name)) {}

void NodeStop::fail_because(std::string why) {
  state_ = State::kRemains;
  why_ = std::move(why);
}

void NodeStop::signal(int number) {
  if (syscall(SYS_pidfd_send_signal, holder_.handle.get(), number, nullptr, 0) == 0 || errno == ESRCH) return;
  fail_because(errno == EPERM
                   ? fmt::format("no permission to stop process {} of {}", holder_.process, owner_of(holder_.process))
                   : fmt::format("process {}: {}", holder_.process, std::strerror(errno)));
}

void NodeStop::begin(bool at_once) {
  holder_ = PidFile::holder(pid_file_);
  if (holder_.process > 0) {
    state_ = State::kStopping;
    return signal(at_once ? SIGINT : SIGTERM);
  }
  auto control = connect_to(cluster_, node_, 2s);
  if (!control) {
    const int error = control.error().system;
    if (holder_.held)
      return fail_because(fmt::format("no process got a signal: {}. It cannot be asked to stop: {}", holder_.not_here,
                                      control.error().message));
    if (error == ECONNREFUSED || error == ENOENT) return;  // no process listens there
    return fail_because("cannot be asked to stop: " + control.error().message);
  }
  control_ = std::move(*control);
  const auto stopped = control_->stop(at_once ? Scheduler::Stop::kDrop : Scheduler::Stop::kDrain);
  if (!stopped) return fail_because(stopped.error().message);
  state_ = State::kStopping;
}

// A node closes its connections when it has answered all requests.
bool NodeStop::has_ended() {
  if (holder_.process > 0) {
    const PidFile::Holder now = PidFile::holder(pid_file_);
    return !now.held || (now.process > 0 && now.process != holder_.process);
  }
  const auto health = control_->health();
  if (health || health.error().code == ErrorCode::kTimeout) return false;
  return !holder_.held || !PidFile::holder(pid_file_).held;
}

bool NodeStop::ends_before(SteadyClock::time_point until) {
  while (!has_ended()) {
    if (SteadyClock::now() >= until) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

void NodeStop::wait(SteadyClock::time_point until, Duration patience) {
  if (state_ != State::kStopping) return;
  if (ends_before(until)) {
    state_ = State::kStopped;
    return;
  }
  if (holder_.process <= 0)
    return fail_because(fmt::format("did not stop within {}{}", format(patience),
                                    holder_.held ? " and was not killed: " + holder_.not_here : ""));
  signal(SIGKILL);
  if (state_ == State::kRemains) return;
  constexpr Duration kAfterKill = 5s;
  if (!ends_before(SteadyClock::now() + kAfterKill))
    return fail_because(fmt::format("process {} did not stop within {} and did not end within {} after SIGKILL",
                                    holder_.process, format(patience), format(kAfterKill)));
  state_ = State::kKilled;
  why_ = fmt::format("did not stop within {} and was killed", format(patience));
}

std::vector<NodeStop> stop_nodes(const LocalCluster& local, const Cluster& cluster,
                                 const std::vector<NodeAddress>& nodes, bool at_once, Duration patience) {
  std::vector<NodeStop> stops;
  for (const NodeAddress& node : nodes) stops.emplace_back(local, cluster, node);
  for (NodeStop& stop : stops) stop.begin(at_once);
  const auto until = SteadyClock::now() + patience;
  for (NodeStop& stop : stops) stop.wait(until, patience);
  return stops;
}

}  // namespace tutti::cli

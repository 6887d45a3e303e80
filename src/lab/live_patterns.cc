// SPDX-License-Identifier: Apache-2.0
#include "lab/live_patterns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/descriptor.h"
#include "base/print_error.h"
#include "client/cluster_file.h"
#include "node/node.h"

extern char** environ;

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration kStartLimit = 20s;
constexpr Duration kRunLimit = 120s;  // of one MPI program

// Programs beside this one: bin/tutti and bin/tutti-mpi-patterns-MPI.
fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// In the child: replaces it by the MPI program. Variables of the caller's own settings are removed.
[[noreturn]] void execute(const std::vector<std::string>& words, const std::string& cluster, int output) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry)
    if (const std::string text = *entry; text.starts_with("TUTTI_")) names.push_back(text.substr(0, text.find('=')));
  for (const std::string& name : names) unsetenv(name.c_str());
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"TUTTI_ROUTE", "nodes"},
           {"TUTTI_CLUSTER", cluster.c_str()},
           {"TUTTI_DEVICE", "disk"},
           {"TUTTI_NETWORK", "1GB"},  // messages between processes of one machine
           {"TUTTI_GATE", "off"},
           {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}})
    setenv(name, value, 1);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

// What a program prints on both streams, if it succeeds.
Result<std::string> output_of(const std::vector<std::string>& words, const std::string& cluster) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(ErrorCode::kIo, fmt::format("pipe: {}", std::strerror(errno)), errno);
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return fail(ErrorCode::kIo, fmt::format("fork: {}", std::strerror(errno)), errno);
  if (pid == 0) execute(words, cluster, writing.get());
  writing = Descriptor();
  std::string text;
  const auto deadline = std::chrono::steady_clock::now() + kRunLimit;
  for (char part[4096];;) {
    pollfd wait{reading.get(), POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0ms || poll(&wait, 1, static_cast<int>(left.count())) == 0) {
      kill(pid, SIGTERM);  // mpiexec ends its ranks
      waitpid(pid, nullptr, 0);
      return fail(ErrorCode::kTimeout, "the MPI program took longer than 120 s:\n" + text);
    }
    const ssize_t count = read(reading.get(), part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part, static_cast<std::size_t>(count));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(ErrorCode::kIo, "the MPI program of the live run failed:\n" + text);
  return text;
}

}  // namespace

int LivePatterns::run_node(unsigned number, const std::string& endpoint) const {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  NodeOptions options;
  options.name = fmt::format("node{}", number);
  options.directory = directory_ / "files";
  options.listen = {endpoint};
  options.model = ModelledOptions{.figures = options_.device,
                                  .stripe_size = paper_layout().stripe_size,
                                  .stripe_count = options_.targets,
                                  .slowdown = options_.slow_motion};
  options.policy = "fifo";
  options.depth = options_.depth;
  options.device_class = std::holds_alternative<HddFigures>(options_.device) ? "hdd" : "ssd";
  auto node = Node::start(std::move(options));
  if (!node) {
    print_error("tutti: {}\n", node.error().message);
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  (*node)->stop(Scheduler::Stop::kDrop, 2s);
  return 0;
}

Result<void> LivePatterns::start() {
  std::error_code error;
  for (const char* mpi : {"openmpi", "mpich"})
    if (const fs::path path = program_folder() / fmt::format("tutti-mpi-patterns-{}", mpi); fs::exists(path, error)) {
      mpi_ = mpi;
      program_ = path.string();
      break;
    }
  if (program_.empty())
    return fail(
        ErrorCode::kInvalid,
        fmt::format("there is no tutti-mpi-patterns-openmpi or -mpich in {}: it is built where Open MPI or MPICH "
                    "is installed (Debian: libopenmpi-dev). Leave out --live",
                    program_folder().string()));
  fs::create_directory(directory_ / "files", error);
  ClusterFile file;
  file.cluster.stripe_size = paper_layout().stripe_size;
  file.cluster.request_timeout = kRunLimit;
  file.defaults.directory = directory_ / "files";
  for (unsigned i = 0; i < options_.targets; ++i)
    file.cluster.nodes.push_back({fmt::format("node{}", i), fmt::format("unix:{}/{}", directory_.path(), i), {i}});
  if (auto saved = save_cluster_file(file, directory_ / "cluster.toml"); !saved) return saved;
  for (unsigned i = 0; i < options_.targets; ++i)
    if (auto started = nodes_.start([&] { return run_node(i, file.cluster.nodes[i].endpoint); }); !started)
      return started;
  const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  for (unsigned up = 0; up < options_.targets;) {
    if (std::chrono::steady_clock::now() > deadline || nodes_.any_exited())
      return fail(ErrorCode::kTimeout, "the nodes of the live run did not start");
    if (fs::exists(directory_ / std::to_string(up), error))
      ++up;
    else
      std::this_thread::sleep_for(2ms);
  }
  return {};
}

Result<std::vector<double>> LivePatterns::run(const std::vector<PatternRun>& runs) {
  const std::string path = fmt::format("{}/data{}", directory_ / "files", files_++);
  std::ofstream(path).flush();
  std::vector<std::string> words{program_folder() / "tutti", "mpirun", "mpiexec." + mpi_};
  if (mpi_ == "openmpi") words.emplace_back("--oversubscribe");
  words.insert(words.end(), {"-n", std::to_string(runs.front().size.ranks), program_, path});
  for (const PatternRun& run : runs)
    words.push_back(fmt::format("{}:{}:{}:{}:{}", run.pattern, run.method,
                                run.size.direction == Direction::kWrite ? "write" : "read", run.size.segment,
                                run.size.most_bytes));
  const auto text = output_of(words, directory_ / "cluster.toml");
  std::error_code ignored;
  fs::remove(path, ignored);
  if (!text) return Failure(text.error());
  std::istringstream lines(*text);
  std::vector<double> rates;
  double seconds = 0, bytes = 0;
  while (lines >> seconds >> bytes) rates.push_back(bytes / 1e6 / seconds * options_.slow_motion);
  if (rates.size() != runs.size())
    return fail(ErrorCode::kIo, "the MPI program of the live run printed something else:\n" + *text);
  return rates;
}

}  // namespace tutti::lab

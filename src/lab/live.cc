// SPDX-License-Identifier: Apache-2.0
#include "lab/live.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <tutti/client.h>
#include <unistd.h>

#include <barrier>
#include <climits>
#include <cstring>
#include <filesystem>
#include <latch>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/prng.h"
#include "base/temporary_directory.h"
#include "engine/device.h"
#include "node/node.h"
#include "wire/messages.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::duration<double> kShuffle(0.05);

Failure system_failure(const std::string& what) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)), errno);
}

// Child processes; those that are left when it goes are killed.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() { end(SIGKILL, {}); }

  // Runs `body` in a new process, which ends with what it returns.
  template <typename Body>
  bool start(const Body& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    if (pid > 0) pids_.push_back(pid);
    return pid > 0;
  }

  // Asks all to end with `signal`, and makes them after `patience`.
  void end(int signal, Duration patience) {
    for (const pid_t pid : pids_) kill(pid, signal);
    const auto deadline = SteadyClock::now() + patience;
    for (const pid_t pid : pids_) {
      while (waitpid(pid, nullptr, WNOHANG) == 0) {
        if (SteadyClock::now() >= deadline) {
          kill(pid, SIGKILL);
          waitpid(pid, nullptr, 0);
          break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    pids_.clear();
  }

 private:
  std::vector<pid_t> pids_;
};

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_writing() { close_end(1); }

 private:
  void close_end(int end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }
  int ends_[2];
};

constexpr std::size_t kMaxFigures = 128;

// What a job's process tells: first that it is ready, then its figures. Small enough to be written in one piece.
struct Message {
  std::uint32_t job = 0;
  bool failed = false;
  std::uint32_t count = 0;
  double figures[kMaxFigures] = {};
  char error[160] = {};
};
static_assert(sizeof(Message) <= PIPE_BUF);

Result<Message> receive(const Pipe& pipe, SteadyClock::time_point deadline) {
  Message message;
  pollfd ready{pipe.reading(), POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  const int polled = poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
  if (polled == 0) return fail(ErrorCode::kTimeout, "the live experiment takes too long; it was ended");
  if (polled < 0 || read(pipe.reading(), &message, sizeof message) != sizeof message)
    return fail(ErrorCode::kIo, "a process of the live experiment ended early");
  if (message.failed) return fail(ErrorCode::kIo, fmt::format("job {}: {}", message.job, message.error));
  return message;
}

int run_node(const LiveCluster& setting, const Cluster& cluster, const std::string& directory, unsigned number) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  NodeOptions options;
  options.name = cluster.nodes[number].name;
  options.directory = directory;
  options.listen = {cluster.nodes[number].endpoint};
  options.targets = cluster.nodes[number].targets;
  options.model = ModelledOptions{.figures = setting.figures ? *setting.figures : *device_preset(setting.device),
                                  .stripe_size = setting.stripe_size,
                                  .stripe_count = setting.nodes,
                                  .spread = setting.spread,
                                  .seed = setting.seed * setting.nodes + number,
                                  .slowdown = setting.slowdown};
  options.policy = setting.policy;
  options.policy_options = setting.policy_options;
  options.depth = setting.depth;
  auto node = Node::start(std::move(options));
  if (!node) {
    fmt::print(stderr, "tutti: {}\n", node.error().message);
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  (*node)->stop(Scheduler::Stop::kDrop, std::chrono::seconds(2));
  return 0;
}

// What one rank moves in one operation of its job.
std::vector<wire::Extent> share_of(const LiveJob& job, Bytes stripe_size, std::uint64_t operation, unsigned rank) {
  std::vector<wire::Extent> extents;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    end = std::min(end, job.size.count());
    if (begin < end) extents.push_back({begin, end - begin});
  };
  const std::uint64_t size = job.operation.count(), stripe = stripe_size.count();
  if (job.split == LiveJob::Split::kByRank) {
    const std::uint64_t region = job.size.count() / job.ranks;
    const std::uint64_t begin = rank * region + operation * size;
    add(begin, std::min(begin + size, (rank + 1) * region));
  } else {
    const std::uint64_t begin = operation * size;
    for (std::uint64_t at = begin + rank * stripe; at < begin + size; at += job.ranks * stripe)
      add(at, std::min(at + stripe, begin + size));
  }
  return extents;
}

std::uint64_t bytes_of(const std::vector<wire::Extent>& extents) {
  std::uint64_t sum = 0;
  for (const wire::Extent& extent : extents) sum += extent.length;
  return sum;
}

// The ranks of a job, each on a thread of its own, and the barrier between their operations.
class Ranks {
 public:
  Ranks(File& file, const LiveJob& job, Bytes stripe_size)
      : file_(file), job_(job), stripe_size_(stripe_size), barrier_(job.ranks), ready_(job.ranks) {}

  // Tells `ready` when all wait for the start, which comes when the pipe is closed. `started` is called by one of them.
  Result<void> run(int start_pipe, const std::function<void()>& ready, const std::function<void()>& started) {
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < job_.ranks; ++rank)
      threads.emplace_back([&, rank] {
        std::vector<std::byte> buffer(bytes_of(share_of(job_, stripe_size_, 0, rank)), std::byte{0x5a});
        // Nobody is always the first: chance decides in which order they come to the start.
        std::this_thread::sleep_for(kShuffle * Prng(static_cast<std::uint64_t>(getpid()) << 16 | rank).uniform());
        ready_.count_down();
        char nothing = 0;
        while (read(start_pipe, &nothing, 1) > 0) continue;
        std::call_once(once_, started);
        work(rank, buffer);
      });
    ready_.wait();
    ready();
    for (std::thread& thread : threads) thread.join();
    return result_;
  }

 private:
  void work(unsigned rank, std::span<std::byte> buffer) {
    std::this_thread::sleep_for(job_.delay);
    const std::uint64_t together = job_.operation.count() * (job_.split == LiveJob::Split::kByRank ? job_.ranks : 1);
    const std::uint64_t operations = (job_.size.count() + together - 1) / together;
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (auto done = move(share_of(job_, stripe_size_, i, rank), buffer); !done) {
        std::lock_guard lock(mutex_);
        result_ = done;
      }
      barrier_.arrive_and_wait();
    }
  }

  Result<void> move(const std::vector<wire::Extent>& extents, std::span<std::byte> memory) {
    std::vector<ReadPart> reads;
    std::vector<WritePart> writes;
    std::uint64_t total = 0;
    for (const wire::Extent& extent : extents) {
      const auto part = memory.subspan(total, extent.length);
      if (job_.direction == Direction::kRead)
        reads.push_back({extent.offset, part});
      else
        writes.push_back({extent.offset, part});
      total += extent.length;
    }
    const auto done = job_.direction == Direction::kRead ? file_.read_list(reads) : file_.write_list(writes);
    if (!done) return Failure(done.error());
    return *done == total ? Result<void>{} : fail(ErrorCode::kIo, "short transfer");
  }

  File& file_;
  const LiveJob& job_;
  const Bytes stripe_size_;
  std::barrier<> barrier_;
  std::latch ready_;
  std::once_flag once_;
  std::mutex mutex_;
  Result<void> result_;
};

// Returns the end, in seconds_now().
Result<std::vector<double>> run_job(const LiveProcess& process, const LiveJob& job) {
  ClientOptions options;
  options.cluster = process.cluster;
  options.application = job.application;
  auto client = Client::connect(options);
  if (!client) return Failure(client.error());
  auto file = (*client)->open(job.name, {.write = job.direction == Direction::kWrite, .create = true});
  if (!file) return Failure(file.error());
  Ranks ranks(**file, job, process.cluster.stripe_size);
  const auto done = ranks.run(process.start, process.ready, [&] {
    if (job.announce) (*client)->begin_phase({.total = job.size});
  });
  if (!done) return Failure(done.error());
  return std::vector{seconds_now()};
}

Cluster describe(const LiveCluster& setting, const std::string& sockets) {
  Cluster cluster;
  cluster.stripe_size = setting.stripe_size;
  for (unsigned i = 0; i < setting.nodes; ++i)
    cluster.nodes.push_back({fmt::format("node{}", i), fmt::format("unix:{}/{}", sockets, i), {i}});
  return cluster;
}

// A node listens soon after its process started; all have to before jobs do.
Result<void> wait_for_nodes(const Cluster& cluster, SteadyClock::time_point deadline) {
  for (const NodeAddress& node : cluster.nodes) {
    const std::string path = node.endpoint.substr(std::string_view("unix:").size());
    while (!fs::exists(path)) {
      if (SteadyClock::now() > deadline)
        return fail(ErrorCode::kUnreachable, fmt::format("{} did not start", node.name));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return {};
}

// What jobs will read has to be there; the content does not matter.
void lay_out_files(const std::vector<LiveJob>& jobs, const std::string& directory) {
  for (const LiveJob& job : jobs) {
    if (job.direction != Direction::kRead) continue;
    const int file = ::open((directory + "/" + job.name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (file < 0) continue;
    if (ftruncate(file, static_cast<off_t>(job.size.count())) != 0)
      fmt::print(stderr, "tutti: {}: cannot be made\n", job.name);
    close(file);
  }
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

Result<std::vector<LiveTimes>> run_live(const LiveCluster& setting, const std::vector<LiveJob>& jobs, Duration limit) {
  LivePlan plan;
  plan.jobs = static_cast<std::uint32_t>(jobs.size());
  plan.body = [&](const LiveProcess& process) { return run_job(process, jobs[process.job]); };
  plan.prepare = [&](const std::string& directory) { lay_out_files(jobs, directory + "/files"); };
  const auto run = run_live_processes(setting, plan, limit);
  if (!run) return Failure(run.error());
  std::vector<LiveTimes> times;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    times.push_back(
        {.start = std::chrono::duration<double>(jobs[i].delay).count(), .end = run->figures[i][0] - run->started});
  return times;
}

namespace {

// In the process of a job.
int work(const LiveBody& body, LiveProcess process, const Pipe& answers) {
  Message message;
  message.job = process.job;
  const auto tell = [&] { return write(answers.writing(), &message, sizeof message) == sizeof message; };
  process.ready = [&] { tell(); };
  const auto figures = body(process);
  message.failed = !figures;
  if (figures) {
    message.count = static_cast<std::uint32_t>(std::min(figures->size(), kMaxFigures));
    std::copy_n(figures->begin(), message.count, message.figures);
  } else {
    std::strncpy(message.error, figures.error().message.c_str(), sizeof message.error - 1);
  }
  return tell() ? 0 : 1;
}

}  // namespace

Result<LiveRun> run_live_processes(const LiveCluster& setting, const LivePlan& plan, Duration limit) {
  const auto deadline = SteadyClock::now() + limit;
  if (auto preset = device_preset(setting.device); !preset) return Failure(preset.error());
  TemporaryDirectory temporary;
  if (temporary.path().empty()) return system_failure("a temporary directory");
  const std::string files = temporary.path() + "/files";
  fs::create_directory(files);
  if (plan.prepare) plan.prepare(temporary.path());
  const Cluster cluster = describe(setting, temporary.path());

  Children nodes, workers;
  if (plan.daemon && !nodes.start([&] { return plan.daemon(temporary.path()); })) return system_failure("fork");
  for (unsigned i = 0; i < setting.nodes; ++i)
    if (!nodes.start([&] { return run_node(setting, cluster, files, i); })) return system_failure("fork");
  if (auto up = wait_for_nodes(cluster, deadline); !up) return Failure(up.error());

  Pipe start, answers;
  for (std::uint32_t i = 0; i < plan.jobs; ++i) {
    const bool forked = workers.start([&] {
      start.close_writing();
      return work(plan.body, {cluster, temporary.path(), i, start.reading(), {}}, answers);
    });
    if (!forked) return system_failure("fork");
  }
  for (std::uint32_t i = 0; i < plan.jobs; ++i)
    if (auto ready = receive(answers, deadline); !ready) return Failure(ready.error());
  LiveRun run{.started = seconds_now(), .figures = std::vector<std::vector<double>>(plan.jobs)};
  start.close_writing();
  for (std::uint32_t i = 0; i < plan.jobs; ++i) {
    auto message = receive(answers, deadline);
    if (!message) return Failure(message.error());
    run.figures[message->job].assign(message->figures, message->figures + message->count);
  }
  workers.end(SIGTERM, std::chrono::seconds(2));
  nodes.end(SIGTERM, std::chrono::seconds(5));
  return run;
}

}  // namespace tutti::lab

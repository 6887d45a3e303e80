// SPDX-License-Identifier: Apache-2.0
// The parts of job_check.h that ask the operating system and the batch system.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <thread>

#include "net/job_check.h"
#include "net/socket.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

constexpr std::size_t kMostOutput = 64 << 10;
constexpr Duration kAskTimeout = std::chrono::seconds(3);  // of the command that asks the batch system

bool is_alive(int process) {  // a pidfd
  return ::syscall(SYS_pidfd_send_signal, process, 0, nullptr, 0) == 0 || errno == EPERM;
}

// A descriptor of the peer's process; -1: it has ended. `sure`: it is that process. Before Linux 6.5 (SO_PEERPIDFD) it
// may be another one with the same number.
Socket peer_process(int socket, pid_t pid, bool& sure) {
  int file = -1;
  socklen_t length = sizeof file;
  sure = ::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &file, &length) == 0 || errno != ENOPROTOOPT;
  return Socket(sure ? file : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string read_all(const std::string& path) {
  Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = file.file() < 0 ? -1 : ::read(file.file(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text.size() > kMostOutput) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

// Whether the process is ending or has ended (PF_EXITING). The kernel then no longer shows its cgroup, also before its
// parent has waited for it.
bool is_exiting(const std::string& directory) {
  constexpr unsigned long kExiting = 4;
  const std::string text = read_all(directory + "/stat");
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));  // after the name
  std::string state;
  long parent = 0, group = 0, session = 0, terminal = 0, terminal_group = 0;
  unsigned long flags = 0;
  fields >> state >> parent >> group >> session >> terminal >> terminal_group >> flags;
  return !fields || (flags & kExiting) != 0;
}

struct Output {
  std::string text{}, errors{};
  int status = 0;  // of waitpid()
};

// A started program in a process group of its own. The destructor kills it.
class Program {
 public:
  static Result<std::unique_ptr<Program>> start(const std::vector<std::string>& words);
  ~Program();

  Result<Output> finish(TimePoint deadline);

 private:
  bool read_some(Output& output, TimePoint deadline);
  bool wait_for_end(TimePoint deadline);

  pid_t process_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::array<Socket, 2> pipes_;  // standard output and error
};

Result<std::unique_ptr<Program>> Program::start(const std::vector<std::string>& words) {
  auto program = std::make_unique<Program>();
  std::array<Socket, 2> ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    int files[2];
    if (::pipe2(files, O_CLOEXEC) != 0) return fail(ErrorCode::kIo, "no descriptors are left", errno);
    program->pipes_[i] = Socket(files[0]);
    ends[i] = Socket(files[1]);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0].file(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1].file(), 2);
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error = ::posix_spawnp(&program->process_, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return program;
  program->process_ = -1;
  return fail(ErrorCode::kIo, fmt::format("{}: {}", words[0], std::strerror(error)), error);
}

Program::~Program() {
  if (process_ < 0 || ended_) return;
  ::kill(-process_, SIGKILL);
  wait_for_end(steady_now() + std::chrono::seconds(1));
}

bool Program::wait_for_end(TimePoint deadline) {
  for (;;) {
    const pid_t got = ::waitpid(process_, &status_, WNOHANG);
    if (got == process_ || (got < 0 && errno != EINTR)) return ended_ = true;
    if (steady_now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// False: both pipes are closed, or the deadline has passed.
bool Program::read_some(Output& output, TimePoint deadline) {
  std::array<pollfd, 2> polls{};
  for (std::size_t i = 0; i < polls.size(); ++i) polls[i] = {.fd = pipes_[i].file(), .events = POLLIN, .revents = 0};
  if (polls[0].fd < 0 && polls[1].fd < 0) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
  if (left <= 0) return false;
  if (::poll(polls.data(), polls.size(), static_cast<int>(left)) <= 0) return errno == EINTR;
  for (std::size_t i = 0; i < polls.size(); ++i) {
    if (polls[i].revents == 0) continue;
    std::array<char, 4096> part{};
    const ssize_t got = ::read(pipes_[i].file(), part.data(), part.size());
    if (got <= 0) {
      pipes_[i] = Socket();
      continue;
    }
    std::string& text = i == 0 ? output.text : output.errors;
    if (text.size() < kMostOutput) text.append(part.data(), static_cast<std::size_t>(got));
  }
  return true;
}

Result<Output> Program::finish(TimePoint deadline) {
  Output output;
  while (read_some(output, deadline)) continue;
  if (!wait_for_end(deadline)) return fail(ErrorCode::kTimeout, "it did not end in time");
  output.status = status_;
  return output;
}

class BatchCommand final : public BatchSystem {
 public:
  BatchCommand(const std::string& command, Duration timeout) : timeout_(timeout) {
    std::istringstream words(command);
    for (std::string word; words >> word;) words_.push_back(word);
  }

  Result<bool> owns(UserId user, ApplicationId job) override {
    auto words = words_;
    words.push_back(std::to_string(job));
    auto program = Program::start(words);
    if (!program) return Failure(program.error());
    auto output = (*program)->finish(steady_now() + timeout_);
    if (!output) return fail(output.error().code, fmt::format("{}: {}", words_[0], output.error().message));
    if (!WIFEXITED(output->status) || WEXITSTATUS(output->status) != 0) {
      if (output->errors.find("Invalid job id") != std::string::npos) return false;  // squeue: it does not exist
      return fail(ErrorCode::kIo, fmt::format("{} failed: {}", words_[0], output->errors.substr(0, 200)));
    }
    std::istringstream lines(output->text);
    for (std::string line; lines >> line;)
      if (line == std::to_string(user)) return true;
    return false;
  }

 private:
  const Duration timeout_;
  std::vector<std::string> words_;
};

}  // namespace

Result<std::optional<ApplicationId>> job_of_peer(int socket, UserId user) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 || credentials.pid <= 0)
    return std::optional<ApplicationId>{};  // in a container whose processes have no number here
  bool sure = false;
  const Socket process = peer_process(socket, credentials.pid, sure);
  const std::string directory = fmt::format("/proc/{}", credentials.pid);
  const std::string text = read_all(directory + "/cgroup");
  struct stat status {};
  const bool same_user = ::stat(directory.c_str(), &status) == 0 && status.st_uid == user;
  // The number may belong to another process once the peer has ended, which it has not if its descriptor is alive.
  if (process.file() < 0 || is_exiting(directory) || !is_alive(process.file()) || !(sure || same_user))
    return fail(ErrorCode::kDenied, "the process that opened the connection has ended, so its job is not known");
  return job_of_cgroup(text, user);
}

std::shared_ptr<BatchSystem> make_batch_command(const std::string& command, Duration timeout) {
  return std::make_shared<BatchCommand>(command, timeout);
}

Result<std::shared_ptr<JobCheck>> make_job_check(std::string_view kind, const std::string& command,
                                                 std::function<void(const std::string&)> warn) {
  JobCheck::Options options{
      .own_user = ::geteuid(), .local_job = job_of_peer, .now = steady_now, .warn = std::move(warn)};
  if (kind == "slurm")
    options.batch = make_batch_command(command.empty() ? std::string(kSlurmCommand) : command, kAskTimeout);
  else if (kind != "cgroup")
    return fail(ErrorCode::kInvalid, fmt::format("unknown job_check \"{}\"; known ones are cgroup and slurm", kind));
  return std::make_shared<JobCheck>(std::move(options));
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "lab/children.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

namespace tutti::lab {

Children::~Children() {
  end(SIGKILL, {});
}

Result<void> Children::start(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fail(ErrorCode::kIo, fmt::format("fork: {}", std::strerror(errno)), errno);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it was killed before the call
    _exit(body());
  }
  pids_.push_back(pid);
  return {};
}

bool Children::any_exited() const {
  for (const pid_t pid : pids_) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
      return true;
  }
  return false;
}

void Children::end(int signal, Duration patience) {
  for (const pid_t pid : pids_) kill(pid, signal);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (const pid_t pid : pids_) {
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= deadline) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  pids_.clear();
}

}  // namespace tutti::lab

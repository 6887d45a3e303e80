// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tutti {
namespace {

// Runs in a child process. It holds nothing of its parent but the pipe: when the last process has closed the other end,
// it removes the directory. Only calls that are allowed after fork() in a process with several threads.
[[noreturn]] void guard(int pipe, const char* path) {
  setsid();  // Ctrl-C ends the parent, not this process
  dup2(pipe, STDIN_FILENO);
  close_range(STDIN_FILENO + 1, ~0U, 0);
  (void)!open("/dev/null", O_RDWR);
  (void)!open("/dev/null", O_RDWR);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  char byte;
  (void)!read(STDIN_FILENO, &byte, 1);
  execl("/bin/rm", "rm", "-rf", "--", path, nullptr);
  _exit(1);
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tutti-XXXXXX").string();
  if (!mkdtemp(pattern.data())) return;
  path_ = pattern;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  guard_ = fork();
  if (guard_ == 0) guard(ends[0], path_.c_str());
  close(ends[0]);
  pipe_ = ends[1];
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  if (guard_ > 0 && owner_ == getpid()) {
    kill(guard_, SIGKILL);
    waitpid(guard_, nullptr, 0);
  }
  if (pipe_ >= 0) close(pipe_);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace tutti::e2e {
namespace {

int spawn(std::vector<std::string>& words, const posix_spawn_file_actions_t* actions) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  return posix_spawnp(&child, arguments[0], actions, nullptr, arguments.data(), environ) == 0 ? child : -1;
}

int status_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool wait_until(Duration usual, const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + patient(usual);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Outcome run(std::vector<std::string> words) {
  Outcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const int child = spawn(words, &actions);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    outcome.output.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child) outcome.status = status_of(status);
  return outcome;
}

std::string content(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Child::Child(std::vector<std::string> words) : id_(spawn(words, nullptr)) {}

Child::Child(Child&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(id_, other.id_);
  return *this;
}

Child::~Child() {
  if (id_ <= 0) return;
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

int Child::wait(Duration usual) {
  int status = 0;
  if (!wait_until(usual, [&] { return waitpid(id_, &status, WNOHANG) == id_; })) return -1;
  id_ = -1;
  return status_of(status);
}

}  // namespace tutti::e2e

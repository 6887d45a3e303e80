// SPDX-License-Identifier: Apache-2.0
// tutti turn: hold the lock while a command runs.
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/units.h"
#include "command.h"
#include "gate/coordinator.h"
#include "layout/discovery.h"

extern char** environ;

namespace tutti::cli {
namespace {

struct TurnOptions {
  std::string targets = "*";
  std::string gate;
  std::string job;
  Bytes bytes{};
  std::string answer, max_wait, probe, probe_when;
  bool verbose = false;
  std::vector<std::string> command;
};

volatile sig_atomic_t child = 0;

void pass_on(int signal) {
  if (child > 0) kill(static_cast<pid_t>(child), signal);
}

// The targets of a file, if its file system tells; else all. A path is also where to probe, unless told otherwise.
Result<gate::TargetList> targets_of(const TurnOptions& given, gate::CoordinatorOptions& options) {
  if (given.targets.find('/') == std::string::npos) return gate::TargetList::parse(given.targets);
  std::filesystem::path path(given.targets);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) path = path.parent_path();
  if (options.prober.directory.empty()) options.prober.directory = path.string();
  const auto layout = discover_file(given.targets, gate::kMaxTargets);
  if (!layout) return Failure(layout.error());
  // Who cannot tell which targets hold what names them all.
  if (!*layout || (*layout)->targets.size() >= gate::kMaxTargets) return gate::TargetList::everything();
  return gate::TargetList::of((*layout)->targets);
}

Result<gate::CoordinatorOptions> coordinator_options(const TurnOptions& given) {
  // What the command line says, it says in the words of the environment.
  const auto set = [](const char* name, const std::string& value) {
    if (!value.empty()) setenv(name, value.c_str(), 1);
  };
  set("TUTTI_GATE", given.gate);
  set("TUTTI_GATE_ANSWER", given.answer);
  set("TUTTI_GATE_MAX_WAIT", given.max_wait);
  set("TUTTI_PROBE", given.probe);
  set("TUTTI_PROBE_WHEN", given.probe_when);
  auto options = gate::CoordinatorOptions::from_environment();
  if (!options) return options;
  if (!given.job.empty())
    options->client.job = given.job;
  else if (options->client.job == "tutti")
    options->client.job = std::filesystem::path(given.command.front()).filename().string();
  options->client.say = [](const std::string& line) { fmt::print(stderr, "tutti turn: {}\n", line); };
  return options;
}

int run_command(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  struct sigaction action {};
  action.sa_handler = pass_on;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  pid_t process = 0;
  if (const int error = posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), environ); error != 0) {
    fmt::print(stderr, "tutti turn: cannot run '{}': {}\n", words.front(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
  }
  child = process;
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int take_turn(const TurnOptions& given) {
  auto options = coordinator_options(given);
  if (!options) return report(options.error());
  const auto targets = targets_of(given, *options);
  if (!targets) return report(targets.error());
  auto coordinator = gate::Coordinator::create(std::move(*options));
  if (!coordinator) return report(coordinator.error());
  const auto start = std::chrono::steady_clock::now();
  const gate::Turn turn = (*coordinator)->begin(*targets, given.bytes);
  if (given.verbose)
    fmt::print(stderr, "tutti turn: {} after {}\n",
               turn.outcome == gate::Outcome::kGranted ? "granted" : "going ahead without a turn",
               format(Duration(std::chrono::steady_clock::now() - start)));
  if (given.verbose && turn.probe)
    fmt::print(stderr, "tutti turn: probed {} times, {}\n", turn.probe->rounds, turn.probe->quiet ? "quiet" : "busy");
  const int status = run_command(given.command);
  (*coordinator)->end();
  return status;
}

}  // namespace

Command turn_command() {
  return {"turn", "Run a command when it is its turn: tutti turn --targets 0-3 -- cp big /scratch/",
          [](CommandLine& line) {
            auto given = std::make_shared<TurnOptions>();
            line.option("--targets", given->targets,
                        "Targets the command writes to: '*', a list such as 0,4-7, or a file on them");
            line.option("--gate", given->gate, "Socket path or HOST:PORT of the gate, or 'off' (default: $TUTTI_GATE)");
            line.option("--job", given->job, "What the job is called from run to run (default: the command)");
            line.option("--bytes", given->bytes, "How much it writes, e.g. 4GiB; 0: unknown");
            line.option("--answer", given->answer, "Go ahead if the gate does not answer within this (2s)");
            line.option("--max-wait", given->max_wait, "Go ahead if the turn has not come within this (10min)");
            line.option("--probe", given->probe, "Directory to probe; %t stands for a target's number");
            line.option("--probe-when", given->probe_when, "never, fallback (without a turn) or always");
            line.flag("--verbose", given->verbose, "Say how long it took and what was found");
            line.rest("command", given->command, "The command and its arguments, after --");
            line.action([given] { return take_turn(*given); });
          }};
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// tutti turn: holds a turn at the gate while a command runs.
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/json.h"
#include "base/print_error.h"
#include "base/units.h"
#include "command.h"
#include "gate/live_coordinator.h"
#include "layout/discovery.h"
#include "waiting.h"

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

volatile sig_atomic_t child_process = 0;

void pass_on(int signal) {
  if (child_process > 0) kill(static_cast<pid_t>(child_process), signal);
}

// Parses --targets. For a path: the targets of the file if its file system reports them, else all. The directory of the
// path is also probed unless --probe is set.
Result<gate::TargetList> targets_of(const TurnOptions& given, gate::CoordinatorOptions& options) {
  if (given.targets.find('/') == std::string::npos) return gate::TargetList::parse(given.targets);
  std::filesystem::path path(given.targets);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) path = path.parent_path();
  if (options.prober.directory.empty()) options.prober.directory = path.string();
  const auto layout = discover_file(given.targets, gate::kMaxTargets);
  if (!layout) return Failure(layout.error());
  // File systems that do not report the targets of a file list all targets.
  if (!*layout || (*layout)->targets.size() >= gate::kMaxTargets) return gate::TargetList::everything();
  return gate::TargetList::of((*layout)->targets);
}

Result<gate::CoordinatorOptions> coordinator_options(const TurnOptions& given) {
  // Options are passed as environment variables, so that from_environment() checks both.
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
  else if (options->client.job == program_invocation_short_name)
    options->client.job = std::filesystem::path(given.command.front()).filename().string();
  options->client.say = [](const std::string& line) { print_error("tutti turn: {}\n", line); };
  return options;
}

int run_command(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  struct sigaction action {};
  action.sa_handler = pass_on;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;  // as nohup wants it
    sigaction(signal, &action, nullptr);
  }
  pid_t process = 0;
  if (const int error = posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), environ); error != 0) {
    print_error("tutti turn: cannot run '{}': {}\n", words.front(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
  }
  child_process = process;
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// "third in the queue, held by job NAME since 40 s".
std::string describe_wait(const Json& status, const std::string& job, const gate::TargetList& targets) {
  const auto wanted = [&](std::uint64_t target) {
    const auto holds = [&](const auto& range) { return range.first <= target && target <= range.last; };
    return targets.all || std::any_of(targets.ranges.begin(), targets.ranges.end(), holds);
  };
  const auto& queue = status["queue"];
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i]["job"].text() != job) continue;
    const std::string place = fmt::format("number {} in the queue", i + 1);
    for (const auto& target : status["targets"].items()) {
      if (!wanted(target["target"].count()) || target["holders"].empty()) continue;
      const auto& holder = target["holders"][0];
      return fmt::format("{}; target {} is held by job {} since {:.0f} s", place, target["target"].count(),
                         holder["job"].text(), holder["held_seconds"].number());
    }
    return place;
  }
  return status["recovering"].boolean() ? "the gate was restarted and waits for the holders of earlier turns"
                                        : "the turn was not granted yet";
}

// What a turn waits for, for WaitingMessages.
std::string turn_wait(const gate::LiveGateOptions& gate, const gate::TargetList& targets,
                      std::chrono::steady_clock::time_point start) {
  if (std::chrono::steady_clock::now() - start < kSilence) return {};
  if (gate.address == "off") return "probing the file system until it is idle";
  const auto document = gate::query_status(gate, std::chrono::seconds(2));
  if (!document)
    return fmt::format("the gate {} does not answer ({}); the job continues without a turn after {}", gate.address,
                       document.error().message, format(gate.max_wait));
  const auto status = parse_json(*document);
  return status ? describe_wait(*status, gate.job, targets) : "the gate's status cannot be read";
}

int take_turn(const TurnOptions& given) {
  auto options = coordinator_options(given);
  if (!options) return report(options.error());
  const auto targets = targets_of(given, *options);
  if (!targets) return report(targets.error());
  const gate::LiveGateOptions asked = options->client;
  auto coordinator = gate::Coordinator::create(std::move(*options));
  if (!coordinator) return report(coordinator.error());
  const auto start = std::chrono::steady_clock::now();
  auto messages = std::make_optional<WaitingMessages>([&] { return turn_wait(asked, *targets, start); });
  const gate::TurnResult turn = (*coordinator)->begin(*targets, given.bytes);
  messages.reset();
  if (given.verbose)
    print_error("tutti turn: {} after {}\n",
                turn.outcome == gate::GateOutcome::kGranted ? "granted" : "going ahead without a turn",
                format(Duration(std::chrono::steady_clock::now() - start)));
  if (given.verbose && turn.probe)
    print_error("tutti turn: probed {} times, {}\n", turn.probe->rounds, turn.probe->quiet ? "quiet" : "busy");
  const int status = run_command(given.command);
  (*coordinator)->end();
  return status;
}

}  // namespace

Command turn_command() {
  return {"turn", "Run a command with a turn at the gate: tutti turn --targets 0-3 -- cp big /scratch/",
          [](CommandLine& line) {
            auto given = std::make_shared<TurnOptions>();
            line.option("--targets", given->targets,
                        "Targets the command writes to: '*', a list such as 0,4-7, or a file on them");
            line.option("--gate", given->gate,
                        "Address of the gate: /path, unix:/path or tcp:HOST:PORT, or 'off' (default: $TUTTI_GATE)");
            line.option("--job", given->job, "Name of the job, the same in every run (default: the command)");
            line.option("--bytes", given->bytes, "Bytes that the command will write, e.g. 4GiB; 0: unknown");
            line.option("--answer", given->answer,
                        "Run the command without a turn if the gate does not answer within this time (default: 2s)");
            line.option("--max-wait", given->max_wait,
                        "Run the command without a turn after waiting this long (default: 10min)");
            line.option("--probe", given->probe, "Directory to probe; %t stands for a target's number");
            line.option("--probe-when", given->probe_when, "When to probe: never, fallback (without a turn) or always");
            line.flag("--verbose", given->verbose, "Print the waiting time and the result of probing");
            line.rest("command", given->command, "Command and its arguments, after --");
            line.action([given] { return take_turn(*given); });
          }};
}

}  // namespace tutti::cli

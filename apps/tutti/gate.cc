// SPDX-License-Identifier: Apache-2.0
// tutti gate: the daemon that grants turns to jobs. tutti gate status: holders and waiting jobs of each target.
#include <fmt/core.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "base/json.h"
#include "base/live_world.h"
#include "base/print_error.h"
#include "base/table.h"
#include "base/units.h"
#include "command.h"
#include "gate/live_address.h"
#include "gate/live_client.h"
#include "gate/live_server.h"
#include "gate/turn_trace.h"
#include "gate_history.h"
#include "trace/live_files.h"

namespace tutti::cli {
namespace {

struct GateOptions {
  std::vector<std::string> listen;
  std::uint32_t targets = 1;
  std::string discipline = "fifo";
  OptionTexts options;
  Duration lease = std::chrono::seconds(10);
  std::string state;
  std::string key_file;
  bool munge = false;
  std::string job_check = "cgroup";
  std::string job_command;
  std::uint32_t connections_per_user = 4096;
  std::string trace, predict;
  Bytes trace_limit{256 << 20};
  bool list = false;
  bool json = false;
};

struct StatusOptions {
  std::string address = gate::default_address();
  std::string key_file;
  bool json = false;
};

std::atomic<gate::GateServer*> running = nullptr;

void stop_running(int) {
  if (gate::GateServer* const server = running) server->stop();
}

Result<gate::GateServer::Options> server_options(const GateOptions& given) {
  gate::GateServer::Options options;
  options.addresses = given.listen;
  if (given.listen.empty()) {
    auto address = gate::default_listen_address();
    if (!address) return Failure(address.error());
    options.addresses = {std::move(*address)};
  }
  options.table.targets = given.targets;
  options.table.discipline = given.discipline;
  options.table.discipline_options = given.options;
  options.table.lease = given.lease;
  options.munge = given.munge;
  options.max_connections_per_user = given.connections_per_user;
  if (!given.key_file.empty()) {
    auto key = net::load_key(given.key_file);
    if (!key) return Failure(key.error());
    options.key = std::move(*key);
  }
  options.state_path = given.state;
  for (const std::string& text : options.addresses) {
    const auto address = gate::parse_address(text);
    if (!address) return Failure(address.error());
    if (options.state_path.empty() && address->kind == net::Endpoint::Kind::kUnix)
      options.state_path = address->name + ".state";
  }
  options.log = [](const std::string& line) { print_error("tutti gate: {}\n", line); };
  auto jobs = net::make_job_check(given.job_check, given.job_command, [log = options.log](const std::string& why) {
    log(fmt::format("job numbers cannot be checked: {}. Until they can, jobs count as their user's.", why));
  });
  if (!jobs) return Failure(jobs.error());
  options.jobs = std::move(*jobs);
  return options;
}

// Writes the turns to trace files. Destroy it after the gate.
struct TurnRecorder {
  std::unique_ptr<Workers> workers = make_live_workers(1);
  std::unique_ptr<trace::Recorder> recorder;

  ~TurnRecorder() {
    if (recorder) recorder->flush();
    workers->stop();
  }
  Result<void> open(const GateOptions& given) {
    auto files = trace::make_files({.directory = given.trace, .name = "gate", .limit = given.trace_limit});
    if (!files) return Failure(files.error());
    const trace::Facts facts{{"node", "gate"}, {"policy", given.discipline}};
    const auto warn = [](const std::string& why) { print_error("tutti gate: {}\n", why); };
    recorder = std::make_unique<trace::Recorder>(live_world(), *workers, std::move(*files),
                                                 trace::Recorder::Options{.facts = facts, .warn = warn});
    return {};
  }
};

int serve(const GateOptions& given) {
  raise_descriptor_limit();
  reserve_descriptors(16 << 10);
  auto options = server_options(given);
  if (!options) return report(options.error());
  if (!given.predict.empty()) {
    auto history = load_gate_history(given.predict);
    const bool is_first = !history && history.error().code == ErrorCode::kNotFound && given.predict == given.trace;
    if (is_first) history = GateHistory{};
    if (!history) return report(history.error());
    for (const std::string& problem : history->problems) print_error("tutti gate: {}\n", problem);
    print_error("tutti gate: learned from {} earlier turns\n", history->turns);
    options->table.past = std::move(history->events);
  }
  std::optional<TurnRecorder> turns;
  if (!given.trace.empty()) {
    if (auto opened = turns.emplace().open(given); !opened) return report(opened.error());
    options->table.observer = std::make_shared<gate::TurnTrace>(*turns->recorder);
  }
  auto server = gate::GateServer::create(*options);
  if (!server) return report(server.error());
  running = server->get();
  struct sigaction action {};
  action.sa_handler = stop_running;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  for (const std::string& address : options->addresses)
    print_error("tutti gate: listening on {}{}\n", address,
                address.ends_with(":0") ? fmt::format(" (port {})", (*server)->port()) : "");
  if ((*server)->recovering())
    print_error("tutti gate: jobs may hold turns of the previous gate; recovering for one lease time\n");
  const auto done = (*server)->run();
  running = nullptr;
  server->reset();
  return done ? kDone : report(done.error());
}

int list_disciplines(bool json) {
  auto list = Json::array();
  Table table({"discipline", "option", "default", "what it does"});
  for (const gate::DisciplineInfo& info : gate::disciplines()) {
    auto options = Json::array();
    table.add({info.name, "", "", info.summary + (info.paper.empty() ? "" : " [" + info.paper + "]")});
    for (const OptionInfo& option : info.options) {
      table.add({"", option.name, option.fallback, option.help});
      options.push_back({{"name", option.name}, {"default", option.fallback}, {"help", option.help}});
    }
    list.push_back({{"name", info.name}, {"summary", info.summary}, {"paper", info.paper}, {"options", options}});
  }
  fmt::print("{}", json ? list.dump(2) + "\n" : table.text());
  return kDone;
}

std::string in_seconds(const Json& value) {
  return fmt::format("{:.1f}", value.number());
}

void print_status(const Json& status) {
  const auto& counts = status["counts"];
  fmt::print("{}, lease {} s{}, {} connections, {} grants, mean wait {} s, longest {} s\n", status["discipline"].text(),
             in_seconds(status["lease_seconds"]), status["recovering"].boolean() ? ", recovering" : "",
             status["connections"].count(), counts["grants"].count(), in_seconds(counts["mean_wait_seconds"]),
             in_seconds(counts["longest_wait_seconds"]));
  fmt::print("{} expired, {} disconnected, {} refused, {} withdrawn, {} re-asserted\n", counts["expired"].count(),
             counts["disconnected"].count(), counts["refused"].count(), counts["withdrawn"].count(),
             counts["reasserted"].count());
  fmt::print("{}\n\n", identity_text(status["job_check"].text(), status["key"].boolean()));
  Table targets({"target", "state", "holder", "user", "processes", "held s", "lease s", "waiting"});
  for (const auto& target : status["targets"].items()) {
    const std::string number = std::to_string(target["target"].count());
    const std::string waiting = std::to_string(target["waiting"].count());
    if (target["holders"].empty()) targets.add({number, target["state"].text(), "-", "-", "-", "-", "-", waiting});
    for (const auto& holder : target["holders"].items())
      targets.add({number, target["state"].text(), holder["job"].text(), std::to_string(holder["user"].count()),
                   std::to_string(holder["processes"].count()), in_seconds(holder["held_seconds"]),
                   in_seconds(holder["lease_left_seconds"]), waiting});
  }
  fmt::print("{}", targets.text());
  if (status["queue"].empty()) return;
  Table queue({"next", "job", "user", "processes", "targets", "size", "waited s", "class", ""});
  for (std::size_t i = 0; i < status["queue"].size(); ++i) {
    const auto& entry = status["queue"][i];
    const Bytes bytes(entry["bytes"].count());
    queue.add({std::to_string(i + 1), entry["job"].text(), std::to_string(entry["user"].count()),
               std::to_string(entry["processes"].count()), entry["targets"].text(),
               bytes.count() == 0 ? "?" : format(bytes), in_seconds(entry["waited_seconds"]),
               std::to_string(entry["class"].count()), entry["overdue"].boolean() ? "overdue" : ""});
  }
  fmt::print("\n{}", queue.text());
}

int show_status(const StatusOptions& options) {
  const auto document = gate::query_status(
      {.address = options.address, .job = "tutti gate status", .key_file = options.key_file}, std::chrono::seconds(5));
  if (!document) return report(document.error());
  if (options.json) {
    fmt::print("{}\n", *document);
    return kDone;
  }
  const auto status = parse_json(*document);
  if (!status) return report(status.error());
  print_status(*status);
  return kDone;
}

}  // namespace

Command gate_command() {
  return {
      "gate", "Run the gate, which grants jobs their turns for checkpoints, or show its status", [](CommandLine& line) {
        auto given = std::make_shared<GateOptions>();
        line.option(
            "--listen", given->listen,
            "Address to listen on: /path, unix:/path or tcp:HOST:PORT; may be repeated (default: $TUTTI_GATE, else "
            "/run/tutti/gate.sock, else $XDG_RUNTIME_DIR/tutti-gate.sock)");
        line.option("--targets", given->targets, "Number of targets (OSTs, OSDs, ...)").between(1, gate::kMaxTargets);
        line.option("--discipline", given->discipline, "Order in which waiting jobs get their turn (see --list)");
        line.option("--option", given->options, "Option of the discipline; may be repeated");
        line.option("--lease", given->lease,
                    "A holder that sends nothing for this time loses its turn; other jobs wait at most this long "
                    "for a holder that has died")
            .at_least(std::chrono::milliseconds(1));
        line.option("--state", given->state,
                    "File that tells the next gate whether this one was shut down cleanly (default: SOCKET.state; "
                    "without it, a gate on TCP grants nothing for one lease after each start)");
        line.option("--key-file", given->key_file, "TCP: accept clients that have the key in this file");
        line.flag("--munge", given->munge, "TCP: accept clients with MUNGE credentials");
        line.option("--job-check", given->job_check,
                    "How job numbers are checked: cgroup (processes on this machine, by their Slurm cgroup) or slurm "
                    "(other processes, too: the gate asks Slurm whether the job is the user's)")
            .one_of({"cgroup", "slurm"});
        line.option("--job-command", given->job_command,
                    "With --job-check slurm: command that gets a job number and prints the ids of its users (default: "
                    "squeue)");
        line.option("--connections-per-user", given->connections_per_user,
                    "Maximum number of connections per user; no limit for root and the gate's own user");
        line.option(
            "--trace", given->trace,
            "Record every turn in files gate.NUMBER.trace in this directory, for 'tutti trace' (default: none)");
        line.option(
            "--predict", given->predict,
            "Traces of an earlier gate, a file or a directory: how long jobs hold their turns and pause between "
            "them is known from the start (default: none)");
        line.option("--trace-limit", given->trace_limit,
                    "Size of all trace files together; the oldest are removed (default: 256MiB)")
            .at_least(trace::kLeastLimit);
        line.flag("--list", given->list, "List the disciplines with their options and exit");
        line.flag("--json", given->json, "With --list: print one JSON document instead of a table");
        line.action([given] { return given->list ? list_disciplines(given->json) : serve(*given); });
        auto asked = std::make_shared<StatusOptions>();
        CommandLine& status = line.subcommand("status", "Show holders, queue and waiting times of each target");
        status.option("--gate", asked->address, "Address of the gate: /path, unix:/path or tcp:HOST:PORT");
        status.option("--key-file", asked->key_file, "TCP: file with the gate's key (default: use MUNGE)");
        status.json(asked->json);
        status.action([asked] { return show_status(*asked); });
      }};
}

}  // namespace tutti::cli

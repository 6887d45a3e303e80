// SPDX-License-Identifier: Apache-2.0
// tutti gate: the daemon that lets jobs take turns. tutti gate status: who holds what, and who waits.
#include <fmt/core.h>
#include <signal.h>

#include <cstring>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "command.h"
#include "gate/client.h"
#include "gate/server.h"
#include "gate/sockets.h"

namespace tutti::cli {
namespace {

struct GateOptions {
  std::vector<std::string> listen;
  std::uint32_t targets = 1;
  std::string discipline = "fifo";
  OptionTexts options;
  Duration lease = std::chrono::seconds(10);
  std::string state;
  std::string socket_mode = "600";
  bool list = false;
  bool json = false;
};

struct StatusOptions {
  std::string address = gate::default_gate_address();
  bool json = false;
};

gate::Server* running = nullptr;

void stop_running(int) {
  running->stop();
}

Result<gate::Server::Options> server_options(const GateOptions& given) {
  gate::Server::Options options;
  options.addresses = given.listen.empty() ? std::vector{gate::default_gate_address()} : given.listen;
  options.table.targets = given.targets;
  options.table.discipline = given.discipline;
  options.table.discipline_options = given.options;
  options.table.lease = given.lease;
  char* end = nullptr;
  options.socket_mode = static_cast<unsigned>(std::strtoul(given.socket_mode.c_str(), &end, 8));
  if (*end != '\0' || options.socket_mode > 0777)
    return fail(ErrorCode::kInvalid, fmt::format("--socket-mode '{}' is not a mode such as 666", given.socket_mode));
  options.state_path = given.state;
  for (const std::string& address : options.addresses)
    if (options.state_path.empty() && address.find('/') != std::string::npos) options.state_path = address + ".state";
  options.log = [](const std::string& line) { fmt::print(stderr, "tutti gate: {}\n", line); };
  return options;
}

int serve(const GateOptions& given) {
  auto options = server_options(given);
  if (!options) return report(options.error());
  auto server = gate::Server::create(*options);
  if (!server) return report(server.error());
  running = server->get();
  struct sigaction action {};
  action.sa_handler = stop_running;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  for (const std::string& address : options->addresses)
    fmt::print(stderr, "tutti gate: listening on {}{}\n", address,
               address.ends_with(":0") ? fmt::format(" (port {})", (*server)->port()) : "");
  if ((*server)->recovering())
    fmt::print(stderr, "tutti gate: the last gate did not end well; recovering for one lease\n");
  if (auto done = (*server)->run(); !done) return report(done.error());
  return kDone;
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
  fmt::print("{} expired, {} disconnected, {} refused, {} withdrawn, {} re-asserted\n\n", counts["expired"].count(),
             counts["disconnected"].count(), counts["refused"].count(), counts["withdrawn"].count(),
             counts["reasserted"].count());
  Table targets({"target", "state", "holder", "process", "held s", "lease s", "waiting"});
  for (const auto& target : status["targets"].items()) {
    const std::string number = std::to_string(target["target"].count());
    const std::string waiting = std::to_string(target["waiting"].count());
    if (target["holders"].empty()) targets.add({number, target["state"].text(), "-", "-", "-", "-", waiting});
    for (const auto& holder : target["holders"].items())
      targets.add({number, target["state"].text(), holder["job"].text(), std::to_string(holder["process"].count()),
                   in_seconds(holder["held_seconds"]), in_seconds(holder["lease_left_seconds"]), waiting});
  }
  fmt::print("{}", targets.text());
  if (status["queue"].empty()) return;
  Table queue({"next", "job", "process", "targets", "size", "waited s", "class", ""});
  for (std::size_t i = 0; i < status["queue"].size(); ++i) {
    const auto& entry = status["queue"][i];
    const Bytes bytes(entry["bytes"].count());
    queue.add({std::to_string(i + 1), entry["job"].text(), std::to_string(entry["process"].count()),
               entry["targets"].text(), bytes.count() == 0 ? "?" : format(bytes), in_seconds(entry["waited_seconds"]),
               std::to_string(entry["class"].count()), entry["overdue"].boolean() ? "overdue" : ""});
  }
  fmt::print("\n{}", queue.text());
}

int show_status(const StatusOptions& options) {
  const auto document = gate::query_status(options.address, std::chrono::seconds(5));
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
  return {"gate", "Run the gate, where jobs take turns for their checkpoints; or ask it for its status",
          [](CommandLine& line) {
            auto given = std::make_shared<GateOptions>();
            line.option(
                "--listen", given->listen,
                "Socket path or HOST:PORT; may be repeated (default: $TUTTI_GATE, else /tmp/tutti-gate-UID.sock)");
            line.option("--targets", given->targets, "How many targets (OSTs, OSDs, ...) there are")
                .between(1, gate::kMaxTargets);
            line.option("--discipline", given->discipline, "Who goes next; --list shows them");
            line.option("--option", given->options, "An option of the discipline; may be repeated");
            line.option("--lease", given->lease, "A holder that is silent for so long loses the lock");
            line.option("--state", given->state,
                        "File that tells the next gate whether this one ended well (default: SOCKET.state)");
            line.option("--socket-mode", given->socket_mode, "Permissions of the socket file; 666 lets all users in");
            line.flag("--list", given->list, "List the disciplines with their options and leave");
            line.flag("--json", given->json, "With --list: one JSON document instead of a table");
            line.action([given] { return given->list ? list_disciplines(given->json) : serve(*given); });
            auto asked = std::make_shared<StatusOptions>();
            CommandLine& status = line.subcommand("status", "Holder, queue and waits of each target");
            status.option("--gate", asked->address, "Socket path or HOST:PORT of the gate");
            status.json(asked->json);
            status.action([asked] { return show_status(*asked); });
          }};
}

}  // namespace tutti::cli

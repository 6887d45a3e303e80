// SPDX-License-Identifier: Apache-2.0
// tutti ls | cat | put | get | cp: files of a cluster from the command line.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <functional>
#include <map>
#include <span>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cluster.h"
#include "command.h"
#include "transfer.h"

namespace tutti::cli {
namespace {

struct FileArguments {
  ClusterChoice cluster;
  std::string path;
  std::vector<std::string> files;
  bool no_sync = false;
  bool json = false;
};

// Returns the exit status.
using Action = std::function<int(Client&, const FileArguments&, StopSignals&, Activity&)>;

int with_client(const FileArguments& arguments, const Action& action, StopSignals& signals) {
  auto client = connect_client(arguments.cluster);
  if (!client) return report(client.error());
  Activity activity;
  const WaitingMessages messages([&] {
    std::string text = (*client)->waiting_for(kSilence);
    return text.empty() ? activity.stuck() : text;
  });
  return action(**client, arguments, signals, activity);
}

int run(const FileArguments& arguments, const Action& action) {
  StopSignals signals;
  const int status = with_client(arguments, action, signals);
  signals.end_process();
  return status;
}

int cat(Client& client, const FileArguments& arguments, StopSignals& signals, Activity& activity) {
  const Transfer what{"cat", {FileLocation::Where::kCluster, arguments.path}, {FileLocation::Where::kLocal, "-"}};
  const auto done = transfer(client, what, signals, activity);
  return done ? kDone : report(done.error());
}

// Two files with one name would replace each other in the directory.
Result<void> check_names(const std::string& command, std::span<const std::string> sources,
                         const std::string& directory) {
  std::map<std::string, std::string> names;
  for (const std::string& source : sources) {
    const auto [other, added] = names.emplace(base_name(source), source);
    if (!added)
      return fail(ErrorCode::kInvalid, fmt::format("{}: {} and {} would both be {} in {}. Nothing was copied.", command,
                                                   other->second, source, other->first, directory));
  }
  return {};
}

// FILE: to the same name, in the current directory or at the root of the cluster. FILE DESTINATION. FILE... DIRECTORY.
Action copy(const std::string& command, FileLocation::Where from, FileLocation::Where to) {
  return [=](Client& client, const FileArguments& arguments, StopSignals& signals, Activity& activity) {
    std::vector<std::string> sources = arguments.files;
    if (sources.size() == 1 && from == to)
      return report({ErrorCode::kInvalid, command + ": name the file and its copy; see tutti " + command + " --help"});
    std::string destination = base_name(sources.front());
    if (sources.size() > 1) {
      destination = sources.back();
      sources.pop_back();
    }
    if (const auto checked = check_names(command, sources, destination); !checked) return report(checked.error());
    std::vector<Transfer> transfers;
    const bool many = sources.size() > 1;
    const auto found = many && to == FileLocation::Where::kCluster ? client.status(destination) : FileStatus{};
    const bool known_directory = found && found->is_directory();  // else each transfer reports the error
    for (const std::string& source : sources)
      transfers.push_back({command, {from, source}, {to, destination}, !arguments.no_sync, many, known_directory});
    if (transfers.size() == 1) {
      const auto done = transfer(client, transfers.front(), signals, activity);
      return done ? kDone : report(done.error());
    }
    std::atomic<int> status = kDone;
    transfer_all(client, transfers, signals, activity, [&](const Error& error) { status = report(error); });
    return status.load();
  };
}

std::string mode_text(std::uint32_t mode) {
  std::string text = S_ISDIR(mode) ? "d" : S_ISLNK(mode) ? "l" : "-";
  for (int shift = 6; shift >= 0; shift -= 3)
    for (int bit = 2; bit >= 0; --bit) text += (mode >> (shift + bit)) & 1 ? "xwr"[bit] : '-';
  return text;
}

std::string time_text(TimePoint time) {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local)};
}

int list(Client& client, const FileArguments& arguments, StopSignals&, Activity&) {
  const auto status = client.status(arguments.path);
  if (!status) return report(status.error());
  std::vector<DirectoryItemStatus> entries;
  if (status->is_directory()) {
    auto items = client.read_directory_status(arguments.path);
    if (!items) return report(items.error());
    entries = std::move(*items);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  } else {
    entries.push_back({arguments.path, *status});
  }
  if (arguments.json) {
    auto json = Json::array();
    for (const auto& [name, entry] : entries)
      json.push_back({{"name", name},
                      {"size", entry.size},
                      {"mode", entry.mode},
                      {"uid", entry.uid},
                      {"gid", entry.gid},
                      {"modified", std::chrono::duration<double>(entry.modified.time_since_epoch()).count()}});
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  Table table({"mode", "owner", "group", "size", "modified", "name"});
  for (const auto& [name, entry] : entries)
    table.add({mode_text(entry.mode), std::to_string(entry.uid), std::to_string(entry.gid), std::to_string(entry.size),
               time_text(entry.modified), name});
  fmt::print("{}", table.text());
  return kDone;
}

Command file_command(const std::string& name, const std::string& summary, const Action& action,
                     const std::function<void(CommandLine&, FileArguments&)>& define) {
  return {name, summary, [=](CommandLine& line) {
            auto arguments = std::make_shared<FileArguments>();
            arguments->cluster.define(line);
            define(line, *arguments);
            line.action([=] { return run(*arguments, action); });
          }};
}

const std::string kReplaced =
    "An existing file is replaced when the copy is complete and keeps its content until then; a symbolic link is "
    "followed. The new file belongs to the caller and has the read, write and execute bits of the source.";

// put, get and cp.
Command copy_command(const std::string& name, const std::string& summary, FileLocation::Where from,
                     FileLocation::Where to, const std::string& files) {
  return file_command(name, summary, copy(name, from, to), [=](CommandLine& line, FileArguments& arguments) {
    line.option("files", arguments.files, files + " " + kReplaced).required();
    line.flag("--no-sync", arguments.no_sync, "Do not wait until the data is on stable storage, as cp");
  });
}

}  // namespace

Command ls_command() {
  return file_command("ls", "List files of a cluster", list, [](CommandLine& line, FileArguments& arguments) {
    line.option("path", arguments.path, "Directory or file in the cluster (default: the root)");
    line.json(arguments.json);
  });
}

Command cat_command() {
  return file_command("cat", "Write a file of a cluster to standard output", cat,
                      [](CommandLine& line, FileArguments& arguments) {
                        line.option("path", arguments.path, "File in the cluster").required();
                      });
}

Command put_command() {
  return copy_command("put", "Copy local files into a cluster", FileLocation::Where::kLocal,
                      FileLocation::Where::kCluster,
                      "FILE [NAME], or FILE... DIRECTORY: local files and their names in the cluster (default: the "
                      "same name). FILE \"-\": standard input.");
}

Command get_command() {
  return copy_command("get", "Copy files of a cluster to this machine", FileLocation::Where::kCluster,
                      FileLocation::Where::kLocal,
                      "FILE [NAME], or FILE... DIRECTORY: files of the cluster and their names on this machine "
                      "(default: the same name). NAME \"-\": standard output. FIFOs and devices are written to "
                      "directly.");
}

Command cp_command() {
  return copy_command("cp", "Copy files inside a cluster", FileLocation::Where::kCluster, FileLocation::Where::kCluster,
                      "FILE NAME, or FILE... DIRECTORY, all in the cluster.");
}

}  // namespace tutti::cli

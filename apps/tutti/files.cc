// SPDX-License-Identifier: Apache-2.0
// tutti ls | cat | put | get | cp: files of a cluster from the command line.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <functional>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cluster.h"
#include "command.h"

namespace tutti::cli {
namespace {

constexpr std::size_t kChunk = 8 << 20;  // many stripes at once keep all nodes busy

struct Arguments {
  ClusterChoice cluster;
  std::string from, to;
  bool json = false;
};

using Action = std::function<Result<void>(Client&, const Arguments&)>;

int with_client(const Arguments& arguments, const Action& action) {
  auto cluster = arguments.cluster.load();
  if (!cluster) return report(cluster.error());
  auto client = Client::connect({.cluster = std::move(*cluster)});
  if (!client) return report(client.error());
  if (auto done = action(**client, arguments); !done) return report(done.error());
  return kDone;
}

Failure local_failure(const std::string& path) {
  return fail(ErrorCode::kIo, path + ": " + std::strerror(errno), errno);
}

class LocalFile {
 public:
  LocalFile(const std::string& path, int flags, mode_t mode = 0666)
      : descriptor_(path == "-" ? dup(flags == O_RDONLY ? 0 : 1) : open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~LocalFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  bool ok() const { return descriptor_ >= 0; }

  // Fills the memory unless the end comes first.
  ssize_t read(std::span<std::byte> into) {
    std::size_t filled = 0;
    while (filled < into.size()) {
      const ssize_t got = ::read(descriptor_, into.data() + filled, into.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -1;
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(filled);
  }
  bool write(std::span<const std::byte> from) {
    while (!from.empty()) {
      const ssize_t put = ::write(descriptor_, from.data(), from.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      from = from.subspan(static_cast<std::size_t>(put));
    }
    return true;
  }

 private:
  int descriptor_;
};

Result<void> copy_out(Client& client, const std::string& from, const std::string& to) {
  auto file = client.open(from, {});
  if (!file) return Failure(file.error());
  LocalFile local(to, O_WRONLY | O_CREAT | O_TRUNC);
  if (!local.ok()) return local_failure(to);
  std::vector<std::byte> memory(kChunk);
  for (std::uint64_t offset = 0;;) {
    const auto got = (*file)->read(offset, memory);
    if (!got) return Failure(got.error());
    if (!local.write(std::span(memory).first(*got))) return local_failure(to);
    if (*got < memory.size()) return {};
    offset += *got;
  }
}

Result<void> cat(Client& client, const Arguments& arguments) {
  return copy_out(client, arguments.from, "-");
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<void> get(Client& client, const Arguments& arguments) {
  struct stat status {};
  std::string to = arguments.to.empty() ? base_name(arguments.from) : arguments.to;
  if (::stat(to.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) to += "/" + base_name(arguments.from);
  return copy_out(client, arguments.from, to);
}

// A directory as destination means a file of the same name in it.
std::string destination(Client& client, const Arguments& arguments) {
  if (arguments.to.empty()) return base_name(arguments.from);
  const auto status = client.status(arguments.to);
  return status && status->is_directory() ? arguments.to + "/" + base_name(arguments.from) : arguments.to;
}

constexpr OpenOptions kCreate{.read = false, .write = true, .create = true, .truncate = true};

Result<void> put(Client& client, const Arguments& arguments) {
  LocalFile local(arguments.from, O_RDONLY);
  if (!local.ok()) return local_failure(arguments.from);
  auto file = client.open(destination(client, arguments), kCreate);
  if (!file) return Failure(file.error());
  std::vector<std::byte> memory(kChunk);
  for (std::uint64_t offset = 0;;) {
    const ssize_t got = local.read(memory);
    if (got < 0) return local_failure(arguments.from);
    if (got == 0) break;
    const auto count = static_cast<std::size_t>(got);
    if (auto put = (*file)->write(offset, std::span(memory).first(count)); !put) return Failure(put.error());
    offset += count;
  }
  return (*file)->fsync();
}

Result<void> copy(Client& client, const Arguments& arguments) {
  auto from = client.open(arguments.from, {});
  if (!from) return Failure(from.error());
  auto to = client.open(destination(client, arguments), kCreate);
  if (!to) return Failure(to.error());
  std::vector<std::byte> memory(kChunk);
  for (std::uint64_t offset = 0;;) {
    const auto got = (*from)->read(offset, memory);
    if (!got) return Failure(got.error());
    if (*got > 0)
      if (auto put = (*to)->write(offset, std::span(memory).first(*got)); !put) return Failure(put.error());
    if (*got < memory.size()) return (*to)->fsync();
    offset += *got;
  }
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

Result<void> list(Client& client, const Arguments& arguments) {
  const auto status = client.status(arguments.from);
  if (!status) return Failure(status.error());
  std::vector<std::pair<std::string, FileStatus>> entries;
  if (!status->is_directory()) entries.emplace_back(arguments.from, *status);
  if (status->is_directory()) {
    auto items = client.read_directory(arguments.from);
    if (!items) return Failure(items.error());
    std::sort(items->begin(), items->end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const DirectoryItem& item : *items)
      if (auto entry = client.status(arguments.from + "/" + item.name, false)) entries.emplace_back(item.name, *entry);
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
    return {};
  }
  Table table({"mode", "owner", "group", "size", "modified", "name"});
  for (const auto& [name, entry] : entries)
    table.add({mode_text(entry.mode), std::to_string(entry.uid), std::to_string(entry.gid), std::to_string(entry.size),
               time_text(entry.modified), name});
  fmt::print("{}", table.text());
  return {};
}

Command file_command(const std::string& name, const std::string& summary, const Action& action,
                     const std::function<void(CommandLine&, Arguments&)>& define) {
  return {name, summary, [=](CommandLine& line) {
            auto arguments = std::make_shared<Arguments>();
            arguments->cluster.define(line);
            define(line, *arguments);
            line.action([=] { return with_client(*arguments, action); });
          }};
}

}  // namespace

Command ls_command() {
  return file_command("ls", "List files of a cluster", list, [](CommandLine& line, Arguments& arguments) {
    line.option("path", arguments.from, "A directory or file; the root unless given");
    line.json(arguments.json);
  });
}

Command cat_command() {
  return file_command("cat", "Write a file of a cluster to standard output", cat,
                      [](CommandLine& line, Arguments& arguments) {
                        line.option("path", arguments.from, "In the cluster").required();
                      });
}

Command put_command() {
  return file_command("put", "Copy a local file into a cluster", put, [](CommandLine& line, Arguments& arguments) {
    line.option("local", arguments.from, "\"-\": standard input").required();
    line.option("path", arguments.to, "In the cluster; the same name unless given");
  });
}

Command get_command() {
  return file_command("get", "Copy a file of a cluster here", get, [](CommandLine& line, Arguments& arguments) {
    line.option("path", arguments.from, "In the cluster").required();
    line.option("local", arguments.to, "The same name unless given; \"-\": standard output");
  });
}

Command cp_command() {
  return file_command("cp", "Copy a file inside a cluster", copy, [](CommandLine& line, Arguments& arguments) {
    line.option("from", arguments.from, "In the cluster").required();
    line.option("to", arguments.to, "In the cluster; in a directory: the same name").required();
  });
}

}  // namespace tutti::cli

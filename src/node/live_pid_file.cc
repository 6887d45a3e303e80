// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "node/pid_file.h"

namespace tutti {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// In clock ticks since the boot; empty if there is no such process.
std::string start_time(const std::string& process) {
  std::ifstream stream("/proc/" + process + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t name_end = text.rfind(')');  // field 2 may contain spaces and parentheses
  if (name_end == std::string::npos) return {};
  const auto fields = words_of(text.substr(name_end + 1));  // from field 3 on
  constexpr std::size_t kStartTime = 22 - 3;
  return fields.size() > kStartTime ? fields[kStartTime] : std::string();
}

// The boot and the pid namespace in which a process id has its meaning.
std::vector<std::string> this_place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '-';
  return {boot, space};
}

// Sets the process of a holder if `text` describes one that runs here.
void identify(const std::string& path, const std::string& text, PidFile::Holder& holder) {
  const auto words = words_of(text);
  if (words.size() != 4) {
    holder.not_here = path + " does not say on which machine its process runs (an older version writes only a number)";
    return;
  }
  if (std::vector<std::string>{words[1], words[2]} != this_place()) {
    holder.not_here = "it runs on another machine or in another container; run 'tutti down' there";
    return;
  }
  const auto process = static_cast<pid_t>(std::strtol(words[0].c_str(), nullptr, 10));
  // The handle first: if the process with this start time has the id now, the handle refers to it or to one that ended.
  if (process > 0) holder.handle = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (holder.handle && start_time(std::to_string(process)) == words[3])
    holder.process = process;
  else
    holder.not_here = fmt::format("{} is locked, but not by the process that it names ({})", path, words[0]);
}

}  // namespace

Result<std::unique_ptr<PidFile>> PidFile::take(const std::string& path) {
  // Other users cannot open it: they could take the lock of a node that has crashed, which then seems to run.
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return fail(ErrorCode::kIo, path + ": " + std::strerror(errno), errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return fail(ErrorCode::kDuplicate, path + ": locked by a running process");
  }
  // The process that had the lock may have removed the file since open().
  struct stat locked {
  }, named{};
  if (fstat(descriptor, &locked) != 0 || stat(path.c_str(), &named) != 0 || locked.st_dev != named.st_dev ||
      locked.st_ino != named.st_ino) {
    close(descriptor);
    return take(path);
  }
  fchmod(descriptor, 0600);  // files of earlier versions
  const auto place = this_place();
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n", getpid(), place[0], place[1], start_time("self"));
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text.data(), text.size(), 0) < 0) {
    close(descriptor);
    return fail(ErrorCode::kIo, path + ": " + std::strerror(errno), errno);
  }
  return std::unique_ptr<PidFile>(new PidFile(path, descriptor));
}

PidFile::Holder PidFile::holder(const std::string& path) {
  Holder holder;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    holder.held = errno != ENOENT && errno != ENOTDIR;
    if (holder.held) holder.not_here = fmt::format("{}: {}", path, std::strerror(errno));
    return holder;
  }
  holder.held = flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!holder.held) return holder;
  char text[256] = {};
  if (pread(file.get(), text, sizeof text - 1, 0) < 0) text[0] = '\0';
  identify(path, text, holder);
  return holder;
}

PidFile::~PidFile() {
  unlink(path_.c_str());
  close(descriptor_);
}

}  // namespace tutti

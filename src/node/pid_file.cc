// SPDX-License-Identifier: Apache-2.0
#include "node/pid_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tutti {

Result<std::unique_ptr<PidFile>> PidFile::take(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail(ErrorCode::kIo, path + ": " + std::strerror(errno), errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return fail(ErrorCode::kDuplicate, path + ": the process it belongs to is running");
  }
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text.data(), text.size(), 0) < 0) {
    close(descriptor);
    return fail(ErrorCode::kIo, path + ": " + std::strerror(errno), errno);
  }
  return std::unique_ptr<PidFile>(new PidFile(path, descriptor));
}

std::optional<pid_t> PidFile::holder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  char text[32] = {};
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool read = pread(descriptor, text, sizeof text - 1, 0) > 0;
  close(descriptor);
  const long process = std::strtol(text, nullptr, 10);
  return held && read && process > 0 ? std::optional<pid_t>(static_cast<pid_t>(process)) : std::nullopt;
}

PidFile::~PidFile() {
  unlink(path_.c_str());
  close(descriptor_);
}

}  // namespace tutti

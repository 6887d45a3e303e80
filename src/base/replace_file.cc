// SPDX-License-Identifier: Apache-2.0
#include "base/replace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptor.h"

namespace tutti {
namespace {

// 0 or errno.
int write_bytes(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_directly(const std::string& path, std::span<const std::byte> bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file ? write_bytes(file.get(), bytes) : errno;
}

int write_and_rename(const std::string& path, std::span<const std::byte> bytes, mode_t mode) {
  const std::string temporary = fmt::format("{}.tutti-tmp.{}", path, ::getpid());
  ::unlink(temporary.c_str());  // of an earlier process with this number
  int problem = 0;
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file) return errno;
    problem = write_bytes(file.get(), bytes);
  }
  if (problem == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) problem = errno;
  if (problem != 0) ::unlink(temporary.c_str());
  return problem;
}

}  // namespace

Result<void> replace_file(const std::string& path, std::span<const std::byte> bytes, mode_t mode) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  std::error_code unresolved;
  const std::string resolved = exists ? std::filesystem::canonical(path, unresolved).string() : path;
  const int problem = exists && (!S_ISREG(status.st_mode) || unresolved) ? write_directly(path, bytes)
                                                                         : write_and_rename(resolved, bytes, mode);
  if (problem == 0) return {};
  return fail(ErrorCode::kIo, fmt::format("cannot write {}: {}", path, std::strerror(problem)), problem);
}

}  // namespace tutti

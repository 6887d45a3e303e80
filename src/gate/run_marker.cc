// SPDX-License-Identifier: Apache-2.0
#include "gate/run_marker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace tutti::gate {

Result<RunMarker> RunMarker::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return fail(ErrorCode::kIo, fmt::format("cannot open the state file {}: {}", path, std::strerror(errno)), errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::kDuplicate, fmt::format("another gate runs with the state file {}", path));
  char text[128] = {};
  if (pread(fd.get(), text, sizeof(text) - 1, 0) < 0)
    return fail(ErrorCode::kIo, fmt::format("cannot read the state file {}: {}", path, std::strerror(errno)), errno);
  RunMarker marker(std::move(fd), path);
  long long lease = 0;
  if (std::sscanf(text, "running lease=%lld", &lease) == 1 && lease > 0) marker.left_behind_ = Duration(lease);
  return marker;
}

Result<void> RunMarker::set_running(Duration lease) {
  return write(fmt::format("running lease={}\n", lease.count()));
}

Result<void> RunMarker::set_idle() {
  return write("idle\n");
}

Result<void> RunMarker::write(const std::string& text) {
  const bool done = ftruncate(fd_.get(), 0) == 0 &&
                    pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                    fsync(fd_.get()) == 0;
  if (done) return {};
  return fail(ErrorCode::kIo, fmt::format("cannot write the state file {}: {}", path_, std::strerror(errno)), errno);
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "gate/live_run_marker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tutti::gate {

Result<RunMarker> RunMarker::open(const std::string& path) {
  net::Socket file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.file() < 0)
    return fail(ErrorCode::kIo, fmt::format("cannot open the state file {}: {}", path, std::strerror(errno)), errno);
  if (flock(file.file(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::kDuplicate, fmt::format("another gate runs with the state file {}", path));
  char text[kSize + 1] = {};
  const ssize_t size = pread(file.file(), text, kSize, 0);
  if (size < 0)
    return fail(ErrorCode::kIo, fmt::format("cannot read the state file {}: {}", path, std::strerror(errno)), errno);
  RunMarker marker(std::move(file), path);
  marker.idle_ = std::strncmp(text, "idle", 4) == 0;
  long long lease = 0;
  if (std::sscanf(text, "running lease=%lld", &lease) == 1 && lease > 0)
    marker.left_behind_ = Duration(lease);
  else if (size > 0 && !marker.idle_)
    return fail(ErrorCode::kInvalid, fmt::format("{} is not a gate's state file; set another file with --state", path));
  return marker;
}

Result<void> RunMarker::set_running(Duration lease) {
  return write(fmt::format("running lease={}", std::max(lease, left_behind_.value_or(lease)).count()));
}

Result<void> RunMarker::set_idle() {
  return write("idle");
}

// One write of a fixed size: if the process is killed, the file has either the old text or the new one.
Result<void> RunMarker::write(const std::string& text) {
  const std::string padded = fmt::format("{:<{}}\n", text, kSize - 1);
  const bool done = pwrite(file_.file(), padded.data(), padded.size(), 0) == static_cast<ssize_t>(padded.size()) &&
                    fsync(file_.file()) == 0;
  if (done) return {};
  return fail(ErrorCode::kIo, fmt::format("cannot write the state file {}: {}", path_, std::strerror(errno)), errno);
}

}  // namespace tutti::gate

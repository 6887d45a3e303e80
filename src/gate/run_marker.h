// SPDX-License-Identifier: Apache-2.0
// A small file that tells a starting gate whether its predecessor left anything behind.
//
// While a gate runs it holds a lock on the file, so that there is one gate per file; the file says "running" and the
// lease. After a clean end without holders or waiters it says "idle". A gate that finds "running" waits one lease
// before it grants anything, because somebody may hold a lock it has never heard of.
#pragma once

#include <tutti/base.h>

#include <optional>
#include <string>

#include "gate/sockets.h"

namespace tutti::gate {

class RunMarker {
 public:
  // kDuplicate: another gate runs with this file. kInvalid: it is something else.
  static Result<RunMarker> open(const std::string& path);

  // The predecessor's lease, if it did not end clean.
  std::optional<Duration> left_behind() const { return left_behind_; }

  // Remembers the longer of this lease and the predecessor's: should this gate die before it grants anything, somebody
  // may still hold a lock for as long as that.
  Result<void> set_running(Duration lease);
  Result<void> set_idle();

 private:
  static constexpr std::size_t kSize = 64;  // of the file

  RunMarker(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Result<void> write(const std::string& text);

  Fd fd_;
  std::string path_;
  std::optional<Duration> left_behind_;
};

}  // namespace tutti::gate

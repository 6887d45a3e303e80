// SPDX-License-Identifier: Apache-2.0
// A small state file that tells a starting gate how the previous gate ended.
//
// A running gate holds a file lock, so there is one gate per file. The file then contains "running" and the lease.
// After a clean end without holders and waiters it contains "idle". A gate that finds "running" waits one lease before
// it grants turns, because a job may still hold a turn that the previous gate granted. An empty file says nothing.
#pragma once

#include <tutti/base.h>

#include <optional>
#include <string>

#include "net/socket.h"

namespace tutti::gate {

class RunMarker {
 public:
  // kDuplicate: another gate uses this file. kInvalid: it is not a state file.
  static Result<RunMarker> open(const std::string& path);

  // The lease of the previous gate, if that did not end cleanly.
  std::optional<Duration> left_behind() const { return left_behind_; }
  // The previous gate ended cleanly.
  bool idle() const { return idle_; }

  // Saves the longer of this lease and the previous gate's lease. If this gate dies early, a job may still hold a turn
  // that the previous gate granted.
  Result<void> set_running(Duration lease);
  Result<void> set_idle();

 private:
  static constexpr std::size_t kSize = 64;  // bytes of the file

  RunMarker(net::Socket file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Result<void> write(const std::string& text);

  net::Socket file_;
  std::string path_;
  std::optional<Duration> left_behind_;
  bool idle_ = false;
};

}  // namespace tutti::gate

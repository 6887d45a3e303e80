// SPDX-License-Identifier: Apache-2.0
// Kills a process that was stopped for too long, because other nodes may have taken over its work.
#pragma once

#include <tutti/base.h>

#include <memory>

namespace tutti::net {

// While this object exists, the kernel kills the process once it has not run for the fence time: stopped by a signal or
// a debugger, in a frozen cgroup, or on an overloaded machine. So a delayed system call is never made after that time
// (docs/design/fencing.md). Thread-safe.
class Watchdog {
 public:
  static Result<std::unique_ptr<Watchdog>> start(Duration fence_time);
  virtual ~Watchdog() = default;  // ends the supervision
};

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
// A process that was stopped for long must not go on where it was: others have taken its place.
#pragma once

#include <tutti/base.h>

#include <memory>

namespace tutti::net {

// While it lives, the kernel kills this process as soon as it has not run for `lease`: stopped by a signal, by a
// debugger, by a frozen cgroup or by a machine that is too busy. What the process was about to do then never happens.
// docs/design/fencing.md says what this is good for.
class Watchdog {
 public:
  static Result<std::unique_ptr<Watchdog>> start(Duration lease);
  virtual ~Watchdog() = default;  // called off
};

}  // namespace tutti::net

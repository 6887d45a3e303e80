// SPDX-License-Identifier: Apache-2.0
// Child processes of a live run.
#pragma once

#include <sys/types.h>
#include <tutti/base.h>

#include <functional>
#include <vector>

namespace tutti::lab {

// They are killed when this object is destroyed or this process dies. Not thread-safe.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children();

  // Runs `body` in a new process. Its return value is the exit status. This process must have only one thread.
  Result<void> start(const std::function<int()>& body);
  bool any_exited() const;
  // Sends `signal` to all, and kills those that have not exited after `patience`.
  void end(int signal, Duration patience);

 private:
  std::vector<pid_t> pids_;
};

}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
// The world: the interface through which code gets time, timers, threads for blocking calls and random numbers.
//
// It has two implementations. Live (base/live_world.h): the machine's clocks and real threads. Simulated
// (sim::Process in sim/simulator.h): virtual time on one event queue, one world per simulated process. The same code
// runs in both. Sockets, disks and the file system have their own interfaces: net::Transport, Engine, FileSystem.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace tutti {

using Task = std::function<void()>;

// Runs its task at a given time. Thread-safe. Never runs the task inside set(), so a caller of set() may hold locks
// that the task takes.
class Timer {
 public:
  // Waits until the task is not running; it never runs again. Does not wait if the task itself destroys the timer.
  virtual ~Timer() = default;
  // Replaces the time set before. `when` is on Clock::steady(); TimePoint::max() switches the timer off. The task runs
  // once per time that was set.
  virtual void set(TimePoint when) = 0;
};

// Threads for blocking calls. Thread-safe. The destructor calls stop().
class Workers {
 public:
  // On whose behalf a call is made, such as the id of a user. Calls of one owner that do not return delay no other
  // owner.
  using Owner = std::uint64_t;
  static constexpr Owner kProcess = ~Owner{0};  // calls of the process itself

  // Tasks of one strand run one after another, in the order in which they were posted.
  class Strand {
   public:
    virtual ~Strand() = default;
  };

  virtual ~Workers() = default;
  virtual std::shared_ptr<Strand> make_strand(Owner owner) = 0;
  virtual void post(const std::shared_ptr<Strand>& strand, Task task) = 0;
  // Returns when all posted tasks are done. A task posted later runs inside post(), on the caller's thread.
  virtual void stop() = 0;
  // In no particular order.
  void post(Owner owner, Task task) { post(make_strand(owner), std::move(task)); }
};

// Thread-safe. Outlives the objects made from it.
class World {
 public:
  virtual ~World() = default;
  virtual Clock& clock() = 0;
  virtual std::unique_ptr<Timer> make_timer(Task task) = 0;
  virtual std::uint64_t random() = 0;
};

}  // namespace tutti

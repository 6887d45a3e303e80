// SPDX-License-Identifier: Apache-2.0
// The gate's daemon: the lock table behind sockets, thousands of jobs on one thread.
//
// What one peer does wrong is answered and costs that peer its connection; nobody else notices.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gate/lock_table.h"

namespace tutti::gate {

class Server {
 public:
  struct Options {
    LockTable::Options table{};            // recover_until is set from the state file
    std::vector<std::string> addresses{};  // as Address::parse() takes them; at least one
    std::string state_path{};              // see gate/run_marker.h; empty: no memory of a predecessor
    unsigned socket_mode = 0600;           // permissions of Unix socket files
    std::size_t max_connections = 20'000;
    std::size_t max_refusals = 100;                 // per connection, then it is closed
    std::function<void(const std::string&)> log{};  // one line each; called on the thread of run()
  };

  // Binds all addresses. Jobs can connect from now on; they are served once run() is called.
  static Result<std::unique_ptr<Server>> create(Options options);
  virtual ~Server() = default;

  // Serves until stop(). Call once.
  virtual Result<void> run() = 0;
  // Any thread, any time; safe in a signal handler.
  virtual void stop() = 0;

  // The port of the first TCP address; 0: there is none.
  virtual std::uint16_t port() const = 0;
  virtual bool recovering() const = 0;  // valid before run()
};

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// An administrator's connection to one node.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <memory>
#include <string>

#include "wire/messages.h"

namespace tutti {

// Thread-safe. Calls wait for the answer, up to the timeout each.
class Control {
 public:
  struct Options {
    std::string endpoint{};
    std::string key_file{};
    bool munge = false;
    Duration timeout = std::chrono::seconds(5);
  };

  // kUnreachable: nobody listens there.
  static Result<std::unique_ptr<Control>> connect(const Options& options);
  virtual ~Control() = default;

  virtual Result<wire::HealthReply> health() = 0;
  virtual Result<wire::StatisticsReply> statistics() = 0;
  virtual Result<wire::PolicyReply> policy() = 0;
  virtual Result<void> set_policy(const std::string& name, const PolicyOptions& options) = 0;
  // Asks the node to stop; does not wait for it to be gone.
  virtual Result<void> stop(Scheduler::Stop how) = 0;
};

}  // namespace tutti

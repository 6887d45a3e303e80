// SPDX-License-Identifier: Apache-2.0
// Connection of an administration command to one node.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <memory>
#include <optional>
#include <string>

#include "wire/messages.h"

namespace tutti {

// Each call blocks until the node answers, at most for the timeout. Thread-safe.
class Control {
 public:
  struct Options {
    std::string endpoint{};
    std::string key_file{};
    bool munge = false;
    std::string node{};  // this and the next one as in net::ConnectOptions
    std::optional<std::uint32_t> node_user{};
    Duration timeout = std::chrono::seconds(5);
  };

  // kUnreachable: no node listens at the endpoint.
  static Result<std::unique_ptr<Control>> connect(const Options& options);
  virtual ~Control() = default;

  virtual Result<wire::HealthReply> health() = 0;
  virtual Result<wire::StatisticsReply> statistics() = 0;
  virtual Result<wire::PolicyReply> policy() = 0;
  virtual Result<wire::LimitsReply> limits() = 0;
  virtual Result<void> set_policy(const std::string& name, const PolicyOptions& options) = 0;
  // Asks the node to stop. Does not wait until its process has ended.
  virtual Result<void> stop(Scheduler::Stop how) = 0;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Translates an AGIOS configuration file into a policy of Tutti and its options (table in docs/agios.md).
#pragma once

#include <tutti/sched.h>

#include <string>
#include <vector>

namespace tutti::agios {

struct Configuration {
  std::string policy;
  PolicyOptions options{};
  std::string trace{};                 // as in tutti_config; empty: nothing is recorded
  std::string predict{};               // as in tutti_config; empty: nothing is predicted
  std::vector<std::string> remarks{};  // warnings about keys that have no effect
};

// `file` null: /etc/agios.conf if it exists, else the defaults. Errors name file, line and key.
Result<Configuration> read_configuration(const char* file, std::int32_t max_queue_id);

// Reads the weights of the WFQ queues: lines of "queue weight", # starts a comment. Returns the value of the option
// `weights` of policy `fair`.
Result<std::string> read_weights(const std::string& file);

}  // namespace tutti::agios

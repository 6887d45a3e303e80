// SPDX-License-Identifier: Apache-2.0
// AGIOS's configuration file, turned into a policy of Tutti and its options (the table is in docs/agios.md).
#pragma once

#include <tutti/sched.h>

#include <string>
#include <vector>

namespace tutti::agios {

struct Configuration {
  std::string policy;
  PolicyOptions options;
  std::vector<std::string> remarks;  // on keys that have no effect here: what a person should be told
};

// `file` null: /etc/agios.conf if it is there, else the defaults. kInvalid or kIo say file, line and key.
Result<Configuration> read_configuration(const char* file, std::int32_t max_queue_id);

// The weights of WFQ's queues: lines of "queue weight", # for comments. As the option `weights` of policy `fair`.
Result<std::string> read_weights(const std::string& file);

}  // namespace tutti::agios

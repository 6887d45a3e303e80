// SPDX-License-Identifier: Apache-2.0
// Shared by the commands for a cluster.
#pragma once

#include <tutti/client.h>

#include <memory>
#include <string>

#include "client/cluster_file.h"
#include "command.h"
#include "node/control.h"

namespace tutti::cli {

// Which cluster: --cluster, else TUTTI_CLUSTER, else tutti-data. A file, or a directory that holds cluster.toml.
struct ClusterChoice {
  std::string given = default_cluster_file();

  void define(CommandLine& line, const std::string& name = "--cluster");
  std::string file() const { return cluster_file(given); }
  // If there is no such file, the error says how to start a cluster.
  Result<Cluster> load() const;
  Result<ClusterFile> load_file() const;
};

Result<std::unique_ptr<Control>> connect_to(const Cluster& cluster, const NodeAddress& node,
                                            Duration timeout = std::chrono::seconds(5));

// Connects a client. If no node answers, the error says what to do.
Result<std::unique_ptr<Client>> connect_client(const ClusterChoice& choice);

}  // namespace tutti::cli

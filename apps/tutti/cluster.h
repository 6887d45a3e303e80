// SPDX-License-Identifier: Apache-2.0
// What the commands about a running cluster share.
#pragma once

#include <tutti/client.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "node/control.h"

namespace tutti::cli {

// Where the cluster is described: --cluster, else TUTTI_CLUSTER, else tutti-data/cluster.toml.
struct ClusterChoice {
  std::string file = default_cluster_file();
  void define(CommandLine& line);
  Result<Cluster> load() const;
};

Result<std::unique_ptr<Control>> connect_to(const Cluster& cluster, const NodeAddress& node,
                                            Duration timeout = std::chrono::seconds(5));

// A local cluster's files: DIR/cluster.toml, DIR/run/NAME.{sock,pid,log}, and what it serves, DIR/files unless told.
struct LocalCluster {
  std::string directory;

  std::string description() const { return directory + "/cluster.toml"; }
  std::string run() const { return directory + "/run"; }
  std::string pid_file(const std::string& node) const { return run() + "/" + node + ".pid"; }
  std::string log_file(const std::string& node) const { return run() + "/" + node + ".log"; }
};

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
#include "cluster.h"

#include <fmt/format.h>

#include <cerrno>

namespace tutti::cli {

void ClusterChoice::define(CommandLine& line, const std::string& name) {
  line.option(name, given, "Cluster description (cluster.toml), or the directory that holds it");
}

Result<ClusterFile> ClusterChoice::load_file() const {
  auto file = load_cluster_file(given);
  if (file || file.error().system != ENOENT) return file;
  return fail(ErrorCode::kNotFound,
              file.error().message + ". Start a cluster with 'tutti up', or name one with --cluster or TUTTI_CLUSTER.",
              ENOENT);
}

Result<Cluster> ClusterChoice::load() const {
  return load_file().map([](ClusterFile&& file) { return std::move(file.cluster); });
}

Result<std::unique_ptr<Control>> connect_to(const Cluster& cluster, const NodeAddress& node, Duration timeout) {
  return Control::connect({.endpoint = node.endpoint,
                           .key_file = cluster.key_file,
                           .munge = cluster.munge,
                           .node = node.name,
                           .node_user = cluster.node_user,
                           .timeout = timeout});
}

Result<std::unique_ptr<Client>> connect_client(const ClusterChoice& choice) {
  auto cluster = choice.load();
  if (!cluster) return Failure(cluster.error());
  auto client = Client::connect({.cluster = std::move(*cluster)});
  if (client || client.error().code != ErrorCode::kUnreachable) return client;
  return fail(client.error().code,
              fmt::format("{}. 'tutti status --cluster {}' shows the state of each node; 'tutti up' starts them on "
                          "this machine.",
                          client.error().message, choice.file()),
              client.error().system);
}

}  // namespace tutti::cli

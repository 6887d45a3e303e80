// SPDX-License-Identifier: Apache-2.0
// All of cluster.toml: what clients need (tutti::Cluster) and the settings of its nodes.
#pragma once

#include <tutti/client.h>

#include <cstddef>
#include <string>

namespace tutti {

inline constexpr std::int64_t kMostDepth = 4096;

// Options of `tutti node`. Empty, zero or false: not set.
struct NodeSettings {
  std::string directory{};  // to serve
  std::string policy{};
  PolicyOptions policy_options{};
  std::string engine{};
  bool direct = false;
  std::string device{};        // name of a device preset
  std::string device_class{};  // as in NodeOptions (node/node.h)
  std::size_t depth = 0;
  Bytes buffers{};                         // for reads and writes together
  std::string job_check{}, job_command{};  // as in NodeOptions
  std::string trace{};                     // directory for traces
  std::string predict{};                   // traces of earlier runs: a file or a directory
  Bytes trace_limit{};                     // of each node
};

struct ClusterFile {
  Cluster cluster{};
  NodeSettings defaults{};     // [defaults]: for every node, unless its command line says otherwise
  bool written_by_up = false;  // `tutti up` wrote the file and may change it
};

// `path` may be a directory that holds cluster.toml.
Result<ClusterFile> load_cluster_file(const std::string& path);
Result<void> save_cluster_file(const ClusterFile& file, const std::string& path);

// The file that `path` stands for: itself, or cluster.toml in it unless it is a file or its name ends in ".toml".
std::string cluster_file(const std::string& path);

// kInvalid: not a multiple of the page size.
Result<void> check_stripe_size(Bytes size);

}  // namespace tutti

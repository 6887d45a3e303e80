// SPDX-License-Identifier: Apache-2.0
// Command line options of a node, shared by `tutti node` and `tutti up`.
#pragma once

#include "client/cluster_file.h"
#include "command.h"
#include "node/node.h"

namespace tutti::cli {

// All settings except the directory.
void define_settings(CommandLine& line, NodeSettings& settings);
// The settings that were given on the command line, completed by those of cluster.toml. Options of the policy belong to
// the policy beside them.
NodeSettings complete(NodeSettings given, const NodeSettings& defaults);
// Settings that are not set get their default. kInvalid: names the setting that is not possible.
Result<NodeOptions> to_options(const NodeSettings& settings);

}  // namespace tutti::cli

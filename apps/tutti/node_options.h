// SPDX-License-Identifier: Apache-2.0
// The settings of a node on the command line: the same for `tutti node` and `tutti up`.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "node/node.h"

namespace tutti::cli {

struct NodeSettings {
  std::string policy = "concert";
  PolicyOptions policy_options{};
  std::string engine = "posix";
  bool direct = false;
  std::string device{};        // a model's name; empty: none
  std::string device_class{};  // empty: by the model, else ssd
  std::size_t depth = 0;
  Bytes buffers{128 << 20};

  void define(CommandLine& line);
  Result<NodeOptions> to_options() const;
  // As arguments for `tutti node`.
  std::vector<std::string> to_arguments() const;
};

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// The settings of a node on the command line: the same for `tutti node` and `tutti up`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "node/node.h"

namespace tutti::cli {

struct NodeSettings {
  std::string policy = "concert";
  std::vector<std::string> policy_options{};  // "width=250ms"
  std::string engine = "posix";
  bool direct = false;
  std::string device{};        // a model's name; empty: none
  std::string device_class{};  // empty: by the model, else ssd
  std::size_t depth = 0;
  std::string buffers = "128MiB";

  void define(CLI::App& app);
  Result<NodeOptions> to_options() const;
  // As arguments for `tutti node`.
  std::vector<std::string> to_arguments() const;
};

// "width=250ms" and so on.
Result<PolicyOptions> parse_policy_options(const std::vector<std::string>& assignments);

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// Scenarios as TOML files (docs/simulator.md lists the keys).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"

namespace tutti::sim {

// Changes to a scenario from the command line.
struct Overrides {
  std::optional<std::string> policy{};  // of the forwarding nodes, if there are any, else of the servers
  std::optional<std::uint64_t> seed{};
  std::vector<std::string> assignments{};  // "servers.depth=4"
};

// kInvalid names the file, line, key and valid values; kNotFound: no such file.
Result<Scenario> load_scenario(const std::string& path, const Overrides& overrides = {});
// `source` is the file name in messages.
Result<Scenario> parse_scenario(std::string_view text, const std::string& source, const Overrides& overrides = {});

}  // namespace tutti::sim

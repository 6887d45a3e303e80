// SPDX-License-Identifier: Apache-2.0
// The subcommands of `tutti`: one .cc each, listed in commands.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command_line.h"

namespace tutti::cli {

struct Command {
  std::string name;
  std::string summary;
  std::function<void(CommandLine&)> define;  // adds its options and its action, or its subcommands
};

const std::vector<Command>& commands();

// Prints "tutti: MESSAGE" to standard error and returns the exit status for the error.
int report(const Error& error);

}  // namespace tutti::cli

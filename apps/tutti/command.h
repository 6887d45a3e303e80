// SPDX-License-Identifier: Apache-2.0
// The subcommands of `tutti`: one .cc each, listed in commands.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <tutti/base.h>
#include <vector>

namespace tutti::cli {

// Exit statuses (design: 0 done, 1 the thing failed, 2 wrong usage).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

struct Command {
  std::string name;
  std::string summary;
  // Adds the command's options and subcommands, and returns what to run once the command line is parsed.
  std::function<std::function<int()>(CLI::App&)> define;
};

const std::vector<Command>& commands();

// Prints "tutti: MESSAGE" to standard error and returns the exit status that fits.
int report(const Error& error);

}  // namespace tutti::cli

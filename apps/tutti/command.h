// SPDX-License-Identifier: Apache-2.0
// The subcommands of `tutti`: one .cc for each or for a group, listed in commands.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
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

// kInvalid: the output is one of the inputs. It would be lost or, as a trace in a directory of traces that are read, be
// read again by the next call. An empty output is standard output, or none.
Result<void> check_output(const std::vector<std::string>& inputs, const std::string& output);

// For the status of nodes and gate: what proves the users and job numbers that shares, limits and turns count by.
// `job_check`: as in net/job_check.h. `key`: clients may use a key.
std::string identity_text(std::string_view job_check, bool key);

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// Shared by the subcommands of `tutti trace`.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "trace/decode.h"
#include "trace/merge.h"

namespace tutti::cli {

// Reads and joins these files. The problems that were found are in the recording.
Result<trace::Recording> load_recording(const std::vector<std::string>& files, trace::Names names, trace::Align align);
// To standard error.
void print_problems(const trace::Recording& recording);

// tutti trace replay
void define_trace_replay(CommandLine& line);

}  // namespace tutti::cli

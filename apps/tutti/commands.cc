// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <filesystem>

#include "base/print_error.h"
#include "command.h"

namespace tutti::cli {

// One line per command, and one row below.
Command bench_command();
Command cat_command();
Command cp_command();
Command down_command();
Command gate_command();
Command get_command();
Command lab_command();
Command layout_command();
Command ls_command();
Command mpirun_command();
Command node_command();
Command policies_command();
Command policy_command();
Command put_command();
Command restart_command();
Command sim_command();
Command status_command();
Command top_command();
Command trace_command();
Command turn_command();
Command up_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      bench_command(),  cat_command(),    cp_command(),      down_command(),   gate_command(),   get_command(),
      lab_command(),    layout_command(), ls_command(),      mpirun_command(), node_command(),   policies_command(),
      policy_command(), put_command(),    restart_command(), sim_command(),    status_command(), top_command(),
      trace_command(),  turn_command(),   up_command(),
  };
  return list;
}

std::string identity_text(std::string_view job_check, bool key) {
  std::string text = "job numbers: ";
  if (job_check == "slurm")
    text += "checked with the batch system and the cgroups of local clients";
  else if (job_check == "cgroup")
    text += "checked only for local clients in a job's cgroup, else as clients state them";
  else
    text += "as clients state them";
  if (key) text += "; with the key, clients act for any user, and neither user nor job number is checked";
  return text;
}

Result<void> check_output(const std::vector<std::string>& inputs, const std::string& output) {
  namespace fs = std::filesystem;
  if (output.empty()) return {};
  std::error_code error;
  const fs::path folder = fs::absolute(output).parent_path();
  for (const std::string& input : inputs) {
    const bool inside =
        output.ends_with(".trace") && fs::is_directory(input, error) && fs::equivalent(input, folder, error);
    if (inside || (fs::exists(output, error) && fs::equivalent(input, output, error)))
      return fail(ErrorCode::kInvalid, fmt::format("{} is an input, too; name another file as output", output));
  }
  return {};
}

int report(const Error& error) {
  print_error("tutti: {}\n", error.message);
  return error.code == ErrorCode::kInvalid ? kUsage : kFailed;
}

}  // namespace tutti::cli

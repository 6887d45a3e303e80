// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "command.h"

namespace tutti::cli {

int report(const Error& error) {
  fmt::print(stderr, "tutti: {}\n", error.message);
  return error.code == ErrorCode::kInvalid ? kUsage : kFailed;
}

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Tutti lets jobs that share a parallel file system play together.\n"
               "Every command has --help; those that print a table take --json."};
  app.name("tutti");
  app.require_subcommand(1);
  app.set_version_flag("--version", TUTTI_VERSION);
  std::vector<std::pair<CLI::App*, std::function<int()>>> defined;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    defined.emplace_back(sub, command.define(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  for (auto& [sub, action] : defined)
    if (sub->parsed()) return action();
  return kUsage;
}

}  // namespace
}  // namespace tutti::cli

int main(int argc, char** argv) {
  return tutti::cli::run(argc, argv);
}

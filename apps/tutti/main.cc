// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"
#include "command.h"

int main(int argc, char** argv) {
  using namespace tutti::cli;
  tutti::reserve_descriptors(1024);
  CommandLine tutti("tutti",
                    "Tutti lets jobs that share a parallel file system take turns instead of interrupting each other.\n"
                    "Every command has --help; commands that print a table have --json.",
                    TUTTI_VERSION);
  for (const Command& command : commands()) command.define(tutti.subcommand(command.name, command.summary));
  return tutti.run(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <utility>

#include "base/descriptor.h"
#include "command.h"

namespace {

// If a standard descriptor is closed, a socket or file that is opened would get its number: `tutti cat` would send the
// file to a node, and logs would overwrite the gate's state file. Reading from 0 and writing to 1 fail, as with the
// closed descriptor; messages to 2 are dropped.
void occupy_standard_descriptors() {
  for (const auto& [descriptor, flags] : {std::pair{0, O_WRONLY}, {1, O_RDONLY}, {2, O_RDWR}})
    if (fcntl(descriptor, F_GETFD) < 0) (void)open("/dev/null", flags);  // gets the lowest number that is free
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::cli;
  occupy_standard_descriptors();
  tutti::reserve_descriptors(1024);
  CommandLine tutti("tutti",
                    "Tutti lets jobs that share a parallel file system take turns instead of interrupting each other.\n"
                    "Every command has --help; commands that print a table have --json.",
                    TUTTI_VERSION);
  for (const Command& command : commands()) command.define(tutti.subcommand(command.name, command.summary));
  return tutti.run(argc, argv);
}

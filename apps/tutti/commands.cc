// SPDX-License-Identifier: Apache-2.0
#include "command.h"

namespace tutti::cli {

// One line per command file.
Command policies_command();
Command sim_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {policies_command(), sim_command()};
  return list;
}

}  // namespace tutti::cli

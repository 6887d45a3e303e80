// SPDX-License-Identifier: Apache-2.0
#include "command.h"

namespace tutti::cli {

// One line per command file, and one row below.
Command bench_command();
Command gate_command();
Command lab_command();
Command layout_command();
Command policies_command();
Command sim_command();
Command turn_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      bench_command(),     //
      gate_command(),      //
      lab_command(),       //
      layout_command(),    //
      policies_command(),  //
      sim_command(),       //
      turn_command(),      //
  };
  return list;
}

}  // namespace tutti::cli

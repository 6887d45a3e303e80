// SPDX-License-Identifier: Apache-2.0
// The parts of `tutti sim` that run the fault campaign and the soak.
#pragma once

#include "command.h"

namespace tutti::cli {

Command sim_faults_command();
Command sim_soak_command();

}  // namespace tutti::cli

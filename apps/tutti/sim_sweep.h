// SPDX-License-Identifier: Apache-2.0
// The part of `tutti sim` that compares policies on random scenarios.
#pragma once

#include "command.h"

namespace tutti::cli {

Command sim_sweep_command();

}  // namespace tutti::cli

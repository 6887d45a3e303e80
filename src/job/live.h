// SPDX-License-Identifier: Apache-2.0
// The parts of this module that use the operating system: environment, session id, and the file of learned sizes.
#pragma once

#include <string>

#include "job/identity.h"
#include "job/phases.h"

namespace tutti::job {

// identify() with this process's environment, session and program name.
Result<Identity> identify_process(IdentityOptions options);

// Loads sizes of phases that an earlier run of the job saved. A missing or damaged file is not an error: the readable
// part is used.
void load_sizes(const std::string& path, Phases& phases);
// Replaces the file atomically. Does nothing if no size is known.
Result<void> save_sizes(const Phases& phases, const std::string& path);

}  // namespace tutti::job

// SPDX-License-Identifier: Apache-2.0
// Conversions between the structs of tutti.h and those of sched.h.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <span>

namespace tutti {

// Times in the stamp that are 0 are set to `now`. The direction must be TUTTI_READ or TUTTI_WRITE.
Request from_c(const tutti_request& request, TimePoint now);
tutti_request to_c(const Request& request);

// kInvalid: a null name or value, or a name that occurs twice.
Result<PolicyOptions> options_from_c(std::span<const tutti_option> options);

tutti_statistics to_c(const Scheduler::Statistics& statistics);

// One JSON object, all times in nanoseconds.
std::string to_json(const Scheduler::Statistics& statistics, std::uint64_t callback_failures);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// How the jobs of a scenario take turns: options of the gate's lock table, and probing. For fast and full simulations.
#pragma once

#include "gate/backoff.h"
#include "gate/lock_table.h"
#include "layout/layout.h"
#include "sim/scenario.h"

namespace tutti::sim {

gate::LockTable::Options lock_table_options(const Scenario& scenario);

// For one phase of an application whose file has this layout. The threshold is a share of the rate of idle servers.
gate::Backoff make_backoff(const Scenario& scenario, std::uint32_t application, unsigned iteration,
                           const Layout& layout);

// The size of the requests of a probe write: as large as the application's operations, but at most 1024 requests.
Bytes probe_request(const Application& application, Bytes probe);

// The file for the probe data of an application.
FileId probe_file_id(std::uint32_t application);
Stamp probe_stamp(ApplicationId application, Bytes bytes, TimePoint now);

}  // namespace tutti::sim

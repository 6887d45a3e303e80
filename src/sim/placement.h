// SPDX-License-Identifier: Apache-2.0
// How the applications of a scenario use the cluster: their ids, the layouts of their files, and their announcements.
// For fast, full and live runs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "job/phases.h"
#include "layout/layout.h"
#include "sim/scenario.h"
#include "sim/simulation.h"

namespace tutti::sim {

// Number of machines that its ranks run on.
std::size_t client_nodes(const Application& application);

struct Placed {
  ApplicationId id = 0;                                  // also its order id
  std::vector<std::shared_ptr<const Layout>> layouts{};  // of the shared file, or of the ranks' files, repeated
  std::size_t first_client = 0;                          // machine of rank 0

  const std::shared_ptr<const Layout>& layout(std::uint32_t rank) const { return layouts[rank % layouts.size()]; }
};

// By application. Ids and first servers that the scenario does not set are drawn from `chance`.
std::vector<Placed> place_applications(const Scenario& scenario, Prng& chance);

// Converts announced sizes, by application id and server, to the order of the scenario.
using AnnouncedTo = std::map<std::pair<ApplicationId, std::uint32_t>, Bytes>;
std::vector<AnnouncedSize> announced_sizes(const std::vector<Placed>& placed, const AnnouncedTo& known);

// A unique id for each file of a run.
FileId file_id(std::uint32_t application, unsigned iteration, std::uint32_t rank);
// The pattern of its name: the same in every iteration and for every rank.
std::string file_pattern(const Application& application);
// The position of a file's data on the device of a server: random in `spread` bytes, different on each server.
std::uint64_t device_position(std::uint64_t seed, FileId file, std::uint32_t server, std::uint64_t spread);
// The range of positions of files on a device, in bytes; 0: positions do not matter.
std::uint64_t spread_of(const Servers& servers);

// What a rank knows at the start of the run, and what it announces before each phase: the size, or nothing if the size
// is learned.
void remember_earlier_run(const Application& application, job::Phases& phases);
PhaseAnnouncement announcement_of(const Application& application, unsigned operations, job::Phases& phases);

}  // namespace tutti::sim

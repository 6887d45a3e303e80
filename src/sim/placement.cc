// SPDX-License-Identifier: Apache-2.0
#include "sim/placement.h"

#include <algorithm>
#include <set>

namespace tutti::sim {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// With a file per process, the file of a rank begins on the server after the last server of the file before it, because
// file systems place files round robin.
std::vector<std::shared_ptr<const Layout>> place_files(const Scenario& scenario, const Application& application,
                                                       unsigned first_server) {
  const unsigned servers = scenario.servers.count;
  if (!application.server_bytes.empty()) {
    Layout layout{.stripe_size = application.stripe_size, .stripe_count = 0, .object_size = {}, .targets = {}};
    for (unsigned i = 0; i < servers; ++i)
      if (application.server_bytes[i] > Bytes{}) layout.targets.push_back(i);
    layout.stripe_count = static_cast<std::uint32_t>(layout.targets.size());
    return {std::make_shared<const Layout>(std::move(layout))};
  }
  const unsigned columns = application.stripe_count ? application.stripe_count : servers;
  const unsigned places = application.file_per_process && columns < servers ? std::min(application.ranks, servers) : 1;
  std::vector<std::shared_ptr<const Layout>> layouts;
  std::uint64_t next = first_server;
  for (unsigned place = 0; place < places; ++place) {
    Layout layout{.stripe_size = application.stripe_size, .stripe_count = columns, .object_size = {}, .targets = {}};
    for (unsigned i = 0; i < columns; ++i) layout.targets.push_back(static_cast<TargetId>(next++ % servers));
    layouts.push_back(std::make_shared<const Layout>(std::move(layout)));
  }
  return layouts;
}

}  // namespace

std::size_t client_nodes(const Application& application) {
  return (application.ranks + application.ranks_per_node - 1) / application.ranks_per_node;
}

std::vector<Placed> place_applications(const Scenario& scenario, Prng& chance) {
  std::set<ApplicationId> taken;
  for (const Application& application : scenario.applications)
    if (application.id) taken.insert(*application.id);
  std::vector<Placed> placed;
  std::size_t client = 0;
  for (const Application& application : scenario.applications) {
    Placed& its = placed.emplace_back();
    its.id = application.id.value_or(0);
    if (!application.id) {
      const std::uint64_t ids = std::max<std::uint64_t>(32768, 4 * scenario.applications.size());
      do its.id = static_cast<ApplicationId>(chance.below(ids));
      while (!taken.insert(its.id).second);
    }
    const unsigned servers = scenario.servers.count;
    const unsigned columns = application.stripe_count ? application.stripe_count : servers;
    const auto drawn = static_cast<unsigned>(chance.below(servers));
    its.layouts = place_files(scenario, application, application.first_server.value_or(columns < servers ? drawn : 0));
    its.first_client = client;
    client += client_nodes(application);
  }
  return placed;
}

std::vector<AnnouncedSize> announced_sizes(const std::vector<Placed>& placed, const AnnouncedTo& known) {
  std::vector<AnnouncedSize> sizes;
  for (std::uint32_t i = 0; i < placed.size(); ++i)
    for (auto at = known.lower_bound({placed[i].id, 0}); at != known.end() && at->first.first == placed[i].id; ++at)
      if (at->second > Bytes{}) sizes.push_back({i, at->first.second, at->second});
  return sizes;
}

// Do not change this: positions on devices and the order of equal requests depend on it.
FileId file_id(std::uint32_t application, unsigned iteration, std::uint32_t rank) {
  return (FileId{application} << 40) | (FileId{iteration} << 20) | rank;
}

std::string file_pattern(const Application& application) {
  return name_pattern(application.name + (application.file_per_process ? "/iteration1.rank1" : "/iteration1"));
}

std::uint64_t device_position(std::uint64_t seed, FileId file, std::uint32_t server, std::uint64_t spread) {
  constexpr std::uint64_t kBlock = 4096;
  return mix(mix(file + 1) ^ mix(seed * 0x9e3779b97f4a7c15 + server)) % spread / kBlock * kBlock;
}

std::uint64_t spread_of(const Servers& servers) {
  const auto* hdd = std::get_if<HddFigures>(&servers.device);
  if (!hdd) return 0;
  return servers.spread > Bytes{} ? std::min(servers.spread, hdd->capacity).count() : hdd->capacity.count();
}

void remember_earlier_run(const Application& application, job::Phases& phases) {
  if (application.sizes == PhaseSizes::kRemembered)
    phases.remember(0, application.size * application.operations * application.ranks);
}

PhaseAnnouncement announcement_of(const Application& application, unsigned operations, job::Phases& phases) {
  if (application.sizes == PhaseSizes::kUnknown) phases.remember(0, Bytes{});
  Bytes truth{};
  if (application.sizes == PhaseSizes::kAnnounced)
    truth = application.size * operations * application.ranks;
  else if (application.size_error != 1)
    truth = phases.learned(0);
  const double total = std::min(static_cast<double>(truth.count()) * application.size_error, 0x1p62);
  return {.total = Bytes(static_cast<std::uint64_t>(total)),
          .files = application.file_per_process ? PhaseFiles::kOnePerProcess : PhaseFiles::kShared};
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/coordination.h"

#include <algorithm>

#include "gate/calibration.h"

namespace tutti::sim {
namespace {

// Bytes per second of a probe write on idle servers, which the thesis measures during off-peak hours.
double quiet_rate(const Scenario& scenario, const Application& application) {
  Device device(scenario.servers.device);
  const std::uint64_t bytes = scenario.gate.backoff.data_size.count();
  const std::uint64_t part = probe_request(application, Bytes(bytes)).count();
  for (std::uint64_t done = 0; done < bytes; done += part)
    device.add({.position = (std::uint64_t{1} << 30) + done,
                .length = Bytes(std::min(part, bytes - done)),
                .direction = Direction::kWrite,
                .tag = 0},
               TimePoint{});
  TimePoint last{};
  const bool cached = scenario.servers.write_back || Bytes(bytes) <= scenario.servers.write_cache;
  while (const auto next = device.next_finish()) {
    device.pop_finished(*next);
    if (!cached) last = *next;
  }
  const Network& network = scenario.network;
  double seconds =
      std::chrono::duration<double>(last.time_since_epoch() + 2 * (network.latency + network.jitter)).count();
  const double slowest = std::min(network.client_bandwidth > 0 ? network.client_bandwidth : 1e300,
                                  network.server_bandwidth > 0 ? network.server_bandwidth : 1e300);
  seconds += static_cast<double>(bytes) / slowest;
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace

gate::LockTable::Options lock_table_options(const Scenario& scenario) {
  gate::LockTable::Options options;
  options.targets = scenario.servers.count;
  options.discipline = scenario.gate.discipline;
  options.discipline_options = scenario.gate.discipline_options;
  return options;
}

Bytes probe_request(const Application& application, Bytes probe) {
  constexpr std::uint64_t kMostRequests = 1024, kLargest = 1u << 30;
  return std::max(Bytes(std::min(application.size.count(), kLargest)), Bytes(probe.count() / kMostRequests + 1));
}

FileId probe_file_id(std::uint32_t application) {
  return (FileId{application} << 40) | ((FileId{1} << 40) - 1);
}

Stamp probe_stamp(ApplicationId application, Bytes bytes, TimePoint now) {
  Stamp stamp{};
  stamp.application = stamp.order = application;
  stamp.issued = stamp.phase_start = now;
  stamp.bottleneck = bytes;
  return stamp;
}

gate::Backoff make_backoff(const Scenario& scenario, std::uint32_t application, unsigned iteration,
                           const Layout& layout) {
  gate::BackoffOptions options = scenario.gate.backoff;
  options.targets = layout.stripe_count;
  const double threshold = gate::Calibration::kShare * quiet_rate(scenario, scenario.applications[application]);
  return {options, threshold, scenario.seed ^ (std::uint64_t{application} << 32) ^ (iteration + 1)};
}

}  // namespace tutti::sim

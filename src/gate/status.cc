// SPDX-License-Identifier: Apache-2.0
#include "gate/status.h"

#include "base/json.h"

namespace tutti::gate {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Json counts_of(const LockTable& table) {
  const LockTable::Counts& counts = table.counts();
  const double grants = static_cast<double>(std::max<std::uint64_t>(counts.grants, 1));
  return {{"requests", counts.requests},
          {"grants", counts.grants},
          {"releases", counts.releases},
          {"withdrawn", counts.withdrawn},
          {"disconnected", counts.disconnected},
          {"expired", counts.expired},
          {"refused", counts.refused},
          {"reasserted", counts.reasserted},
          {"mean_wait_seconds", seconds(counts.waited) / grants},
          {"longest_wait_seconds", seconds(counts.longest_wait)}};
}

Json targets_of(const LockTable& table, const ServerFacts& facts, TimePoint now) {
  std::vector<Json> holders(table.options().targets, Json::array());
  std::vector<std::size_t> waiting(table.options().targets);
  for (const LockTable::Entry* entry : table.holders())
    for (TargetId target : entry->ask.targets.members())
      holders[target].push_back({{"job", entry->ask.job},
                                 {"process", facts.process(entry->session)},
                                 {"held_seconds", seconds(now - entry->granted)},
                                 {"lease_left_seconds", seconds(entry->deadline - now)},
                                 {"class", entry->place.group}});
  for (const LockTable::Entry* entry : table.queue())
    for (TargetId target : entry->ask.targets.members()) ++waiting[target];
  auto list = Json::array();
  for (TargetId target = 0; target < table.options().targets; ++target)
    list.push_back({{"target", target},
                    {"state", holders[target].empty() ? "idle" : "active"},
                    {"holders", std::move(holders[target])},
                    {"waiting", waiting[target]}});
  return list;
}

Json queue_of(const LockTable& table, const ServerFacts& facts, TimePoint now) {
  auto list = Json::array();
  for (const LockTable::Entry* entry : table.queue())
    list.push_back({{"job", entry->ask.job},
                    {"process", facts.process(entry->session)},
                    {"targets", text(entry->ask.targets)},
                    {"bytes", entry->ask.bytes.count()},
                    {"waited_seconds", seconds(now - entry->arrived)},
                    {"overdue", entry->overdue},
                    {"class", entry->place.group}});
  return list;
}

}  // namespace

std::string status_document(const LockTable& table, const ServerFacts& facts, TimePoint now) {
  const Json document = {{"discipline", table.options().discipline}, {"lease_seconds", seconds(table.options().lease)},
                         {"recovering", table.recovering()},         {"uptime_seconds", seconds(facts.uptime)},
                         {"connections", facts.connections},         {"counts", counts_of(table)},
                         {"targets", targets_of(table, facts, now)}, {"queue", queue_of(table, facts, now)}};
  return document.dump(2);
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "gate/status.h"

#include "base/json.h"
#include "base/units.h"

namespace tutti::gate {
namespace {

Json counts_of(const LockTable& table, const ServiceFacts& facts) {
  const LockTable::TurnCounts& counts = table.counts();
  const double grants = static_cast<double>(std::max<std::uint64_t>(counts.grants, 1));
  return {{"requests", counts.requests},
          {"grants", counts.grants},
          {"joined", counts.joined},
          {"releases", counts.releases},
          {"withdrawn", counts.withdrawn},
          {"disconnected", counts.disconnected},
          {"expired", counts.expired},
          {"refused", facts.refused},
          {"reasserted", counts.reasserted},
          {"mean_wait_seconds", seconds(counts.waited) / grants},
          {"longest_wait_seconds", seconds(counts.longest_wait)}};
}

Json targets_of(const LockTable& table, const ServiceFacts& facts, TimePoint now) {
  std::vector<Json> holders(table.options().targets, Json::array());
  std::vector<std::size_t> waiting(table.options().targets);
  for (const LockTable::Turn* turn : table.holders()) {
    TimePoint lease{};
    for (const LockTable::SessionEntry* session : turn->sessions) lease = std::max(lease, session->deadline);
    for (TargetId target : turn->ask.targets.members())
      holders[target].push_back({{"job", turn->ask.job},
                                 {"user", turn->ask.id.user},
                                 {"process", facts.process(turn->sessions.front()->id)},
                                 {"processes", turn->sessions.size()},
                                 {"held_seconds", seconds(now - turn->granted)},
                                 {"lease_left_seconds", seconds(lease - now)},
                                 {"class", turn->placement.group}});
  }
  for (const LockTable::Turn* turn : table.queue())
    for (TargetId target : turn->ask.targets.members()) ++waiting[target];
  auto list = Json::array();
  for (TargetId target = 0; target < table.options().targets; ++target)
    list.push_back({{"target", target},
                    {"state", holders[target].empty() ? "idle" : "active"},
                    {"holders", std::move(holders[target])},
                    {"waiting", waiting[target]}});
  return list;
}

Json queue_of(const LockTable& table, const ServiceFacts& facts, TimePoint now) {
  auto list = Json::array();
  for (const LockTable::Turn* turn : table.queue())
    list.push_back({{"job", turn->ask.job},
                    {"user", turn->ask.id.user},
                    {"process", facts.process(turn->sessions.front()->id)},
                    {"processes", turn->sessions.size()},
                    {"targets", text(turn->ask.targets)},
                    {"bytes", turn->ask.bytes.count()},
                    {"waited_seconds", seconds(now - turn->arrived)},
                    {"overdue", turn->overdue},
                    {"class", turn->placement.group}});
  return list;
}

}  // namespace

std::string status_document(const LockTable& table, const ServiceFacts& facts, TimePoint now) {
  const Json document = {{"discipline", table.options().discipline}, {"lease_seconds", seconds(table.options().lease)},
                         {"recovering", table.recovering()},         {"uptime_seconds", seconds(facts.uptime)},
                         {"connections", facts.connections},         {"job_check", facts.authentication.job_check},
                         {"key", facts.authentication.key},          {"counts", counts_of(table, facts)},
                         {"targets", targets_of(table, facts, now)}, {"queue", queue_of(table, facts, now)}};
  return document.dump(2);
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0

#include "base/json.h"
#include "capi/convert.h"

namespace tutti {
namespace {

Json json_of(const Scheduler::Counts& counts) {
  const Scheduler::Percentiles& waiting = counts.waiting;
  return {{"added", counts.added},
          {"dispatched", counts.dispatched},
          {"completed", counts.completed},
          {"cancelled", counts.cancelled},
          {"dropped", counts.dropped},
          {"added_bytes", counts.added_bytes.count()},
          {"dispatched_bytes", counts.dispatched_bytes.count()},
          {"waiting_time",
           {{"p50", waiting.p50.count()},
            {"p90", waiting.p90.count()},
            {"p99", waiting.p99.count()},
            {"max", waiting.max.count()}}}};
}

}  // namespace

std::string to_json(const Scheduler::Statistics& statistics, std::uint64_t callback_failures) {
  Json applications = Json::array();
  for (const auto& [id, counts] : statistics.applications) {
    Json application = json_of(counts);
    application["application"] = id;
    applications.push_back(std::move(application));
  }
  Json result = json_of(statistics.all);
  result["policy"] = statistics.policy;
  result["batches"] = statistics.batches;
  result["mean_batch"] = statistics.mean_batch;
  result["largest_batch"] = statistics.largest_batch;
  result["waiting"] = statistics.waiting;
  result["waiting_bytes"] = statistics.waiting_bytes.count();
  result["in_flight"] = statistics.in_flight;
  result["callback_failures"] = callback_failures;
  result["applications"] = std::move(applications);
  return result.dump();
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "capi/convert.h"

namespace tutti {
namespace {

nlohmann::json json_of(const Scheduler::Counts& counts) {
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
  nlohmann::json applications = nlohmann::json::array();
  for (const auto& [id, counts] : statistics.applications) {
    applications.push_back(json_of(counts));
    applications.back()["application"] = id;
  }
  nlohmann::json result = json_of(statistics.all);
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

// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"

#include <fmt/format.h>

namespace tutti {
namespace {

TimePoint time_from_c(std::int64_t nanoseconds, TimePoint fallback) {
  return nanoseconds == 0 ? fallback : TimePoint(Duration(nanoseconds));
}

std::int64_t to_c(TimePoint time) {
  return time.time_since_epoch().count();
}

}  // namespace

Request from_c(const tutti_request& request, TimePoint now) {
  const tutti_stamp& stamp = request.stamp;
  const TimePoint issued = time_from_c(stamp.issued, now);
  return {.id = request.id,
          .file = request.file,
          .offset = request.offset,
          .length = Bytes(request.length),
          .target = request.target,
          .direction = request.direction == TUTTI_WRITE ? Direction::kWrite : Direction::kRead,
          .stamp = {.application = stamp.application,
                    .phase = stamp.phase,
                    .order = stamp.order,
                    .issued = issued,
                    .phase_start = time_from_c(stamp.phase_start, issued),
                    .attained = Bytes(stamp.attained),
                    .phase_total = Bytes(stamp.phase_total),
                    .operation = stamp.operation,
                    .bottleneck = Bytes(stamp.bottleneck)}};
}

tutti_request to_c(const Request& request) {
  const Stamp& stamp = request.stamp;
  return {.id = request.id,
          .file = request.file,
          .offset = request.offset,
          .length = request.length.count(),
          .target = request.target,
          .direction = request.direction == Direction::kWrite ? TUTTI_WRITE : TUTTI_READ,
          .stamp = {.application = stamp.application,
                    .phase = stamp.phase,
                    .issued = to_c(stamp.issued),
                    .phase_start = to_c(stamp.phase_start),
                    .attained = stamp.attained.count(),
                    .phase_total = stamp.phase_total.count(),
                    .operation = stamp.operation,
                    .bottleneck = stamp.bottleneck.count(),
                    .order = stamp.order}};
}

Result<PolicyOptions> options_from_c(std::span<const tutti_option> options) {
  PolicyOptions texts;
  for (const tutti_option& option : options) {
    if (!option.name) return fail(ErrorCode::kInvalid, "an option's name is NULL");
    if (!option.value) return fail(ErrorCode::kInvalid, fmt::format("option '{}': the value is NULL", option.name));
    if (!texts.emplace(option.name, option.value).second)
      return fail(ErrorCode::kInvalid, fmt::format("option '{}' is given twice", option.name));
  }
  return texts;
}

tutti_statistics to_c(const Scheduler::Statistics& statistics) {
  const Scheduler::Counts& all = statistics.all;
  tutti_statistics result{};
  result.added = all.added;
  result.dispatched = all.dispatched;
  result.completed = all.completed;
  result.cancelled = all.cancelled;
  result.dropped = all.dropped;
  result.added_bytes = all.added_bytes.count();
  result.dispatched_bytes = all.dispatched_bytes.count();
  result.waiting_time = {all.waiting.p50.count(), all.waiting.p90.count(), all.waiting.p99.count(),
                         all.waiting.max.count()};
  result.batches = statistics.batches;
  result.largest_batch = statistics.largest_batch;
  result.mean_batch = statistics.mean_batch;
  result.waiting = statistics.waiting;
  result.waiting_bytes = statistics.waiting_bytes.count();
  result.in_flight = statistics.in_flight;
  return result;
}

}  // namespace tutti

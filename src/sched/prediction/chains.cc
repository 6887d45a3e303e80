// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/chains.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

// Of a wait. On a busy server the computed share is near 1. Then the next request of a process would be waited for,
// although the process issues it only when this one is done.
constexpr double kMostOverlap = 0.5;

double seconds_to_process(const AggregationModel& model, double bytes) {
  return std::chrono::duration<double>(model.service.latency).count() + bytes / model.service.bytes_per_second;
}

// Requests that count as one.
struct VirtualRequest {
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  std::uint32_t earliest = 0, latest = 0;           // expected arrivals
  std::uint32_t first_number = 0, last_number = 0;  // smallest and largest in order of arrival

  explicit VirtualRequest(const PredictedRequest& request)
      : count(1),
        bytes(request.length),
        earliest(request.time),
        latest(request.time),
        first_number(request.number),
        last_number(request.number) {}

  void add(const PredictedRequest& request) {
    ++count;
    bytes += request.length;
    earliest = std::min(earliest, request.time);
    latest = std::max(latest, request.time);
    first_number = std::min(first_number, request.number);
    last_number = std::max(last_number, request.number);
  }
};

// The share of `wait` seconds in which the requests that arrive in between, and do not belong to it, can be served.
double overlap_of(const AggregationModel& model, const VirtualRequest& joined, double wait) {
  if (wait <= 0) return 0;
  const double between = std::max(0.0, 1.0 + joined.last_number - joined.first_number - joined.count);
  const double work = between * std::chrono::duration<double>(model.each).count();
  return std::clamp(work / wait * model.overlap, 0.0, kMostOverlap);
}

bool pays(const AggregationModel& model, const VirtualRequest& one, const PredictedRequest& two) {
  const auto first = static_cast<double>(one.bytes), second = static_cast<double>(two.length);
  const double apart = seconds_to_process(model, first) + seconds_to_process(model, second);
  const double together = seconds_to_process(model, first + second);
  const double wait =
      std::max(std::abs(1.0 * two.time - one.latest) * 1e-6, std::chrono::duration<double>(two.apart()).count());
  VirtualRequest joined = one;
  joined.add(two);
  return apart > together + wait * (1 - overlap_of(model, joined, wait));
}

}  // namespace

void Chains::reset(const PredictedQueue* queue, bool learned) {
  queue_ = queue;
  learned_ = learned;
  const std::size_t size = queue ? queue->size() : 0;
  heads_.assign(size, 0);
  computed_.assign((size + kBlock - 1) / kBlock, 0);
  version_ = 1;
}

Aggregation Chains::find(std::uint32_t number, const Request& like, const AggregationModel& model) {
  return describe(first_of(number, like, model), model);
}

void Chains::compute(std::uint32_t block, const Request& like, const AggregationModel& model) {
  const std::uint32_t begin = block * kBlock, end = std::min(begin + kBlock, queue_->size());
  Request place = like;
  std::uint64_t reached = 0;  // the end of the chain, as MergePlace has it
  VirtualRequest chain((*queue_)[begin]);
  std::uint32_t head = begin;
  for (std::uint32_t number = begin; number < end; ++number) {
    const PredictedRequest& next = (*queue_)[number];
    place.offset = next.offset;
    place.length = Bytes(next.length);
    const std::uint64_t start = model.place.start(place);
    const bool joins = number > begin && start == reached &&
                       model.limits.admits(chain.count, Bytes(chain.bytes), place.length) && pays(model, chain, next);
    if (joins) {
      chain.add(next);
    } else {
      chain = VirtualRequest(next);
      head = number;
    }
    heads_[number] = static_cast<std::uint16_t>(head - begin);
    reached = start + next.length;
  }
  computed_[block] = version_;
}

Aggregation Chains::describe(std::uint32_t first, const AggregationModel& model) const {
  VirtualRequest chain((*queue_)[first]);
  Duration apart{};
  const std::uint32_t end = std::min((first / kBlock + 1) * kBlock, queue_->size());
  for (std::uint32_t number = first + 1; number < end && heads_[number] == first % kBlock; ++number) {
    chain.add((*queue_)[number]);
    apart = std::max(apart, (*queue_)[number].apart());
  }
  const Duration means = std::chrono::microseconds(chain.latest - chain.earliest);
  // In one run, requests are further apart than in the mean of several; seen once, how far is not known, and waiting as
  // long as merging saves costs little.
  Duration wait = (*queue_)[first].deviation > 0 ? means + apart : means;
  if (learned_ && (*queue_)[first].deviation == 0) wait = std::max(wait, model.service.latency);
  return {.first = first,
          .count = chain.count,
          .bytes = Bytes(chain.bytes),
          .wait = wait,
          .alpha = overlap_of(model, chain, std::chrono::duration<double>(wait).count())};
}

}  // namespace tutti

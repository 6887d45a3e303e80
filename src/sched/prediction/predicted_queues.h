// SPDX-License-Identifier: Apache-2.0
// Predicted queues (AGIOS, section IV-A): the requests that are expected at a scheduler, from traces of earlier runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "sched/prediction/phase_sizes.h"
#include "sched/prediction/service_times.h"
#include "sched/prediction/trace.h"
#include "sched/probing_table.h"

namespace tutti {

// A request that is expected. Times are microseconds since the start of the burst (burst.h).
struct PredictedRequest {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t time = 0;       // mean over all times that it was seen
  std::uint32_t number = 0;     // its place in the order of arrival of all requests of a trace
  std::uint16_t deviation = 0;  // standard deviation of `time`, in units of kDeviationUnit; 0: seen once
  // How far its arrival was from that of the request before it in the queue, earlier or later: the mean over runs, in
  // units of kGapUnit. The difference of the means is smaller, because what differs from run to run cancels out.
  std::uint16_t gap = 0;

  static constexpr std::uint32_t kDeviationUnit = 16, kGapUnit = 4;  // microseconds
  Duration at() const { return std::chrono::microseconds(time); }
  Duration apart() const { return std::chrono::microseconds(std::uint32_t{gap} * kGapUnit); }
  Duration spread() const { return std::chrono::microseconds(std::uint32_t{deviation} * kDeviationUnit); }
};

// One time that a request was seen.
struct PredictionSample {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t time = 0;    // microseconds since the start of the burst
  std::uint32_t number = 0;  // order of arrival
  std::uint32_t queue = 0;   // free for the caller
};

// The expected requests to one file, direction and target by ascending offset; no two have the same offset and length.
// Immutable; about 40 bytes per request.
class PredictedQueue {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  PredictedQueue() = default;
  // Samples with the same offset and length become one request. Sorts `samples`.
  explicit PredictedQueue(std::span<PredictionSample> samples);

  std::uint32_t size() const { return static_cast<std::uint32_t>(requests_.size()); }
  const PredictedRequest& operator[](std::uint32_t number) const { return requests_[number]; }
  // The number of the request with that offset and length; kNone: not expected.
  std::uint32_t find(std::uint64_t offset, Bytes length) const;

 private:
  struct IndexSlot {
    std::uint32_t tag = 0;
    std::uint32_t number = kNone;
    bool vacant() const { return number == kNone; }
    std::size_t home() const { return tag; }
  };
  // Requests within 64 KiB are near each other: streams use them one after another.
  static std::uint32_t tag_of(std::uint64_t offset) {
    return static_cast<std::uint32_t>(mix(offset >> 16) << 3 | (offset >> 13 & 7));
  }

  std::vector<PredictedRequest, HugePageAllocator<PredictedRequest>> requests_;
  ProbingTable<IndexSlot> index_;
};

// All predicted queues of a scheduler. Immutable, so that several threads can use one.
class PredictedQueues {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Combines traces of several runs: of each request the arithmetic mean of its arrival times, and their deviation.
  // Requests of 4 GiB and more are left out.
  static std::shared_ptr<const PredictedQueues> combine(std::span<const Trace> traces);

  struct Key {
    std::uint32_t file = 0;
    TargetId target = 0;
    Direction direction = Direction::kRead;
    auto operator<=>(const Key&) const = default;
  };

  // The number of a file by the pattern of its name; kNone: no request to it is expected.
  std::uint32_t find_file(std::string_view pattern) const;
  const PredictedQueue* find(const Key& key) const;  // nullptr: no request is expected
  std::size_t size() const { return size_; }         // requests
  Bytes mean_length() const { return mean_length_; }
  const ServiceTimes& service() const { return service_; }  // of the traces
  const TracedPhaseSizes& phase_sizes() const { return phase_sizes_; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> files_;
  std::map<Key, PredictedQueue> queues_;
  std::size_t size_ = 0;
  Bytes mean_length_{};
  ServiceTimes service_{};
  TracedPhaseSizes phase_sizes_{};
};

// The pattern of a file whose name is not known: different for every file.
std::string unnamed_pattern(FileId file);

}  // namespace tutti

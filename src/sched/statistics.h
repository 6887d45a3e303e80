// SPDX-License-Identifier: Apache-2.0
// Counters of a scheduler. Always on: one look-up and a few additions per request.
#pragma once

#include <tutti/sched.h>

#include <boost/histogram/axis/option.hpp>
#include <boost/histogram/histogram.hpp>
#include <boost/histogram/storage_adaptor.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <vector>

namespace tutti {

// WaitingRequest times in buckets of one eighth of a power of two: percentiles are right to 12%, from 1 ns to 4.8
// hours.
class WaitAxis {
 public:
  static constexpr int kSteps = 8;  // buckets per power of two
  static constexpr int kPowers = 44;
  static constexpr auto options() { return boost::histogram::axis::option::none; }
  static constexpr int size() { return kSteps * (kPowers + 1); }
  static int index(std::int64_t nanoseconds);
  static Duration upper_edge(int index);
};

// Not thread-safe.
class WaitHistogram {
 public:
  WaitHistogram();
  void record(Duration waited);
  void merge(const WaitHistogram& other);
  Scheduler::Percentiles percentiles() const;

 private:
  boost::histogram::histogram<std::tuple<WaitAxis>, boost::histogram::dense_storage<std::uint64_t>> histogram_;
  Duration longest_{};
};

// The counters of one scheduler. Not thread-safe. Beyond ten thousand applications, idle ones are merged into one sum.
class SchedulerStatistics {
 public:
  void added(const Request& request);
  void cancelled(const Request& request);
  void dropped(const Request& request);
  void dispatched(std::span<const Request> batch, std::span<const TimePoint> arrived, TimePoint now);
  void completed(std::span<const Request> batch);

  // Everything except what the scheduler itself knows (policy, waiting, in flight).
  Scheduler::Statistics report() const;

 private:
  struct ApplicationStatistics {
    Scheduler::Counts counts;
    WaitHistogram waits;
  };
  static constexpr std::size_t kMostApplications = 10'000;
  static constexpr std::size_t kNearby = 1024;  // more would be spread over too much memory to be quick

  ApplicationStatistics& of(ApplicationId id);
  void forget_idle();

  boost::unordered_flat_map<ApplicationId, std::unique_ptr<ApplicationStatistics>> applications_;
  std::vector<ApplicationStatistics*> nearby_;  // applications with small ids, by id
  ApplicationStatistics departed_;              // the sum of the removed ones
  std::uint64_t batches_ = 0;
  std::uint64_t largest_batch_ = 0;
};

}  // namespace tutti

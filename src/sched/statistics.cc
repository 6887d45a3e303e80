// SPDX-License-Identifier: Apache-2.0
#include "sched/statistics.h"

#include <algorithm>
#include <bit>

namespace tutti {
namespace {

void add_counts(Scheduler::Counts& sum, const Scheduler::Counts& counts) {
  sum.added += counts.added;
  sum.dispatched += counts.dispatched;
  sum.completed += counts.completed;
  sum.cancelled += counts.cancelled;
  sum.dropped += counts.dropped;
  sum.added_bytes += counts.added_bytes;
  sum.dispatched_bytes += counts.dispatched_bytes;
}

}  // namespace

int WaitAxis::index(std::int64_t nanoseconds) {
  if (nanoseconds < kSteps) return static_cast<int>(std::max<std::int64_t>(nanoseconds, 0));
  const auto value = static_cast<std::uint64_t>(nanoseconds);
  const int power = static_cast<int>(std::bit_width(value)) - 1;  // at least 3
  const int step = static_cast<int>((value >> (power - 3)) & (kSteps - 1));
  return std::min((power - 2) * kSteps + step, size() - 1);
}

Duration WaitAxis::upper_edge(int index) {
  if (index < kSteps) return Duration(index);
  const int power = index / kSteps + 2;
  const std::int64_t step = std::int64_t{1} << (power - 3);
  return Duration((std::int64_t{1} << power) + (index % kSteps + 1) * step - 1);
}

WaitHistogram::WaitHistogram() : histogram_(WaitAxis{}) {}

void WaitHistogram::record(Duration waited) {
  histogram_(waited.count());
  longest_ = std::max(longest_, waited);
}

void WaitHistogram::merge(const WaitHistogram& other) {
  for (int i = 0; i < WaitAxis::size(); ++i) histogram_.at(i) += other.histogram_.at(i);
  longest_ = std::max(longest_, other.longest_);
}

Scheduler::Percentiles WaitHistogram::percentiles() const {
  std::uint64_t total = 0;
  for (int i = 0; i < WaitAxis::size(); ++i) total += histogram_.at(i);
  const auto at = [&](double fraction) {
    auto left = static_cast<double>(total) * fraction;
    for (int i = 0; i < WaitAxis::size(); ++i) {
      left -= static_cast<double>(histogram_.at(i));
      if (left <= 0 && histogram_.at(i) > 0) return std::min(WaitAxis::upper_edge(i), longest_);
    }
    return longest_;
  };
  if (total == 0) return {};
  return {at(0.50), at(0.90), at(0.99), longest_};
}

SchedulerStatistics::ApplicationStatistics& SchedulerStatistics::of(ApplicationId id) {
  if (id < nearby_.size() && nearby_[id]) return *nearby_[id];
  auto it = applications_.find(id);
  if (it == applications_.end()) {
    if (applications_.size() >= kMostApplications) forget_idle();
    it = applications_.emplace(id, std::make_unique<ApplicationStatistics>()).first;
  }
  if (id < kNearby) {
    if (id >= nearby_.size()) nearby_.resize(std::min<std::size_t>(kNearby, std::bit_ceil(id + 1u)));
    nearby_[id] = it->second.get();
  }
  return *it->second;
}

void SchedulerStatistics::forget_idle() {
  boost::unordered::erase_if(applications_, [&](const auto& item) {
    const Scheduler::Counts& counts = item.second->counts;
    if (counts.added != counts.completed + counts.cancelled) return false;
    add_counts(departed_.counts, counts);
    departed_.waits.merge(item.second->waits);
    if (item.first < nearby_.size()) nearby_[item.first] = nullptr;
    return true;
  });
}

void SchedulerStatistics::added(const Request& request) {
  Scheduler::Counts& counts = of(request.stamp.application).counts;
  ++counts.added;
  counts.added_bytes += request.length;
}

void SchedulerStatistics::cancelled(const Request& request) {
  ++of(request.stamp.application).counts.cancelled;
}

void SchedulerStatistics::dropped(const Request& request) {
  ++of(request.stamp.application).counts.dropped;
}

void SchedulerStatistics::dispatched(std::span<const Request> batch, std::span<const TimePoint> arrived,
                                     TimePoint now) {
  ++batches_;
  largest_batch_ = std::max<std::uint64_t>(largest_batch_, batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ApplicationStatistics& application = of(batch[i].stamp.application);
    ++application.counts.dispatched;
    application.counts.dispatched_bytes += batch[i].length;
    application.waits.record(std::max(now - arrived[i], Duration::zero()));
  }
}

void SchedulerStatistics::completed(std::span<const Request> batch) {
  for (const Request& request : batch) ++of(request.stamp.application).counts.completed;
}

Scheduler::Statistics SchedulerStatistics::report() const {
  Scheduler::Statistics statistics;
  WaitHistogram waits = departed_.waits;
  add_counts(statistics.all, departed_.counts);
  for (const auto& [id, application] : applications_) {
    Scheduler::Counts counts = application->counts;
    counts.waiting = application->waits.percentiles();
    add_counts(statistics.all, counts);
    waits.merge(application->waits);
    statistics.applications.emplace(id, counts);
  }
  statistics.all.waiting = waits.percentiles();
  statistics.batches = batches_;
  statistics.largest_batch = largest_batch_;
  if (batches_ > 0)
    statistics.mean_batch = static_cast<double>(statistics.all.dispatched) / static_cast<double>(batches_);
  return statistics;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/predicted_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "sched/prediction/burst.h"

namespace tutti {
namespace {

using Samples = std::vector<PredictionSample, HugePageAllocator<PredictionSample>>;

bool in_order(const PredictionSample& a, const PredictionSample& b) {
  return std::tie(a.offset, a.length) < std::tie(b.offset, b.length);
}

// Sorts by offset and length, stable. Large inputs by radix: offsets differ in few of their bits.
void sort_samples(std::span<PredictionSample> samples) {
  constexpr std::size_t kSmall = 1 << 16;
  if (std::ranges::is_sorted(samples, in_order)) return;
  if (samples.size() < kSmall) return std::stable_sort(samples.begin(), samples.end(), in_order);
  constexpr int kDigit = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
  const std::uint64_t first = samples.front().offset;
  std::uint64_t differing = 0;
  for (const PredictionSample& sample : samples) differing |= sample.offset ^ first;
  Samples other(samples.size());
  std::span<PredictionSample> from = samples, to = other;
  for (int shift = std::countr_zero(differing); shift < 64 && differing >> shift != 0; shift += kDigit) {
    std::vector<std::size_t> begin(kBuckets + 1);
    for (const PredictionSample& sample : from) ++begin[(sample.offset >> shift) % kBuckets + 1];
    for (std::size_t i = 1; i <= kBuckets; ++i) begin[i] += begin[i - 1];
    for (const PredictionSample& sample : from) to[begin[(sample.offset >> shift) % kBuckets]++] = sample;
    std::swap(from, to);
  }
  if (from.data() != samples.data()) std::ranges::copy(from, samples.begin());
  // Now by offset; those with equal offsets also by length.
  for (auto group = samples.begin(); group != samples.end();) {
    const auto end = std::find_if(group, samples.end(), [&](const auto& each) { return each.offset != group->offset; });
    if (end - group > 1) std::stable_sort(group, end, in_order);
    group = end;
  }
}

// The request that all of these are samples of.
PredictedRequest combined(std::span<const PredictionSample> samples) {
  double sum = 0, squares = 0;
  for (const PredictionSample& sample : samples) sum += sample.time;
  const auto count = static_cast<double>(samples.size());
  const double mean = sum / count;
  for (const PredictionSample& sample : samples) squares += (sample.time - mean) * (sample.time - mean);
  const double deviation = std::sqrt(squares / count) / PredictedRequest::kDeviationUnit;
  return {.offset = samples.front().offset,
          .length = samples.front().length,
          .time = static_cast<std::uint32_t>(std::lround(mean)),
          .number = std::ranges::min(samples, {}, &PredictionSample::number).number,
          .deviation = static_cast<std::uint16_t>(std::min(std::round(deviation), double{UINT16_MAX})),
          .gap = 0};
}

// The mean distance of two requests in time, in units of kGapUnit; the samples of both are in the order of the runs.
std::uint16_t gap_between(std::span<const PredictionSample> one, std::span<const PredictionSample> two) {
  const std::size_t count = std::min(one.size(), two.size());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::abs(1.0 * two[i].time - one[i].time);
  const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
  return static_cast<std::uint16_t>(std::min(std::round(mean / PredictedRequest::kGapUnit), double{UINT16_MAX}));
}

// Reads traces into samples, with the number of their queue.
class SampleReader {
 public:
  explicit SampleReader(std::map<std::string, std::uint32_t, std::less<>>& files) : files_(files) {}

  void read(const Trace& trace) {
    std::vector<std::uint32_t> files;
    for (const std::string& name : trace.files)
      files.push_back(files_.try_emplace(name, static_cast<std::uint32_t>(files_.size())).first->second);
    std::vector<Burst> bursts(files.size());
    std::uint32_t number = 0;
    for (const TraceRequest& request : trace.requests) {
      if (request.file >= files.size() || request.time < Duration::zero()) continue;
      Burst& burst = bursts[request.file];
      const TimePoint now{request.time};
      burst.arrived(now, request.offset, request.length);
      const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now - burst.start()).count();
      if (request.length == Bytes() || request.length > Bytes(UINT32_MAX) || time > UINT32_MAX) continue;
      samples.push_back({.offset = request.offset,
                         .length = static_cast<std::uint32_t>(request.length.count()),
                         .time = static_cast<std::uint32_t>(time),
                         .number = number++,
                         .queue = queue_of({files[request.file], request.target, request.direction})});
    }
  }

  Samples samples;
  std::vector<PredictedQueues::Key> keys;  // by queue number
  std::vector<std::size_t> counts;

 private:
  std::uint32_t queue_of(const PredictedQueues::Key& key) {
    if (keys.empty() || keys[last_] != key) {
      const auto [at, added] = numbers_.try_emplace(key, static_cast<std::uint32_t>(keys.size()));
      if (added) keys.push_back(key), counts.push_back(0);
      last_ = at->second;
    }
    ++counts[last_];
    return last_;
  }

  struct Hash {
    std::size_t operator()(const PredictedQueues::Key& key) const {
      const auto low = std::uint64_t{key.target} << 1 | static_cast<std::uint64_t>(key.direction);
      return mix(mix(key.file) + low);
    }
  };
  std::map<std::string, std::uint32_t, std::less<>>& files_;
  std::unordered_map<PredictedQueues::Key, std::uint32_t, Hash> numbers_;
  std::uint32_t last_ = 0;
};

}  // namespace

PredictedQueue::PredictedQueue(std::span<PredictionSample> samples) {
  sort_samples(samples);
  std::size_t distinct = samples.empty() ? 0 : 1;
  for (std::size_t i = 1; i < samples.size(); ++i) distinct += in_order(samples[i - 1], samples[i]) ? 1 : 0;
  requests_.reserve(distinct);
  index_.reserve(distinct);
  std::span<const PredictionSample> before;
  for (std::size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
    while (end < samples.size() && !in_order(samples[begin], samples[end])) ++end;
    const auto number = static_cast<std::uint32_t>(requests_.size());
    const std::span<const PredictionSample> same = samples.subspan(begin, end - begin);
    requests_.push_back(combined(same));
    if (begin > 0) requests_.back().gap = gap_between(before, same);
    before = same;
    index_.insert({tag_of(requests_.back().offset), number}, [](const IndexSlot&) { return false; });
  }
}

std::uint32_t PredictedQueue::find(std::uint64_t offset, Bytes length) const {
  const std::uint32_t tag = tag_of(offset);
  const IndexSlot* slot = index_.find(tag, [&](const IndexSlot& each) {
    return each.tag == tag && requests_[each.number].offset == offset &&
           requests_[each.number].length == length.count();
  });
  return slot ? slot->number : kNone;
}

std::shared_ptr<const PredictedQueues> PredictedQueues::combine(std::span<const Trace> traces) {
  auto all = std::make_shared<PredictedQueues>();
  SampleReader reader(all->files_);
  std::size_t total = 0;
  for (const Trace& trace : traces) total += trace.requests.size();
  reader.samples.reserve(total);
  for (const Trace& trace : traces) {
    reader.read(trace);
    all->phase_sizes_.read(trace);
  }
  all->phase_sizes_.finish();
  all->service_ = measure_service(traces);
  // By queue, in the order in which they were read.
  std::vector<std::size_t> begin(reader.keys.size() + 1);
  for (std::size_t i = 0; i < reader.keys.size(); ++i) begin[i + 1] = begin[i] + reader.counts[i];
  Samples grouped;
  if (reader.keys.size() > 1) {
    grouped.resize(reader.samples.size());
    std::vector<std::size_t> next = begin;
    for (const PredictionSample& sample : reader.samples) grouped[next[sample.queue]++] = sample;
    release(reader.samples);
  } else {
    grouped.swap(reader.samples);
  }
  double bytes = 0;
  for (const PredictionSample& sample : grouped) bytes += sample.length;
  for (std::size_t i = 0; i < reader.keys.size(); ++i) {
    const auto part = std::span<PredictionSample>(grouped).subspan(begin[i], begin[i + 1] - begin[i]);
    all->size_ += all->queues_.emplace(reader.keys[i], PredictedQueue(part)).first->second.size();
  }
  if (!grouped.empty())
    all->mean_length_ = Bytes(static_cast<std::uint64_t>(bytes / static_cast<double>(grouped.size())));
  return all;
}

std::uint32_t PredictedQueues::find_file(std::string_view pattern) const {
  const auto found = files_.find(pattern);
  return found == files_.end() ? kNone : found->second;
}

const PredictedQueue* PredictedQueues::find(const Key& key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? nullptr : &found->second;
}

std::string unnamed_pattern(FileId file) {
  return fmt::format("file {}", file);
}

}  // namespace tutti

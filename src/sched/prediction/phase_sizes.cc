// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/phase_sizes.h"

#include <algorithm>
#include <functional>

#include "sched/prediction/predicted_queues.h"

namespace tutti {
namespace {

std::uint64_t hash_of(std::string_view pattern) {
  return std::hash<std::string_view>{}(pattern);
}

// The phase of one application while a trace is read.
struct TracedPhase {
  PhasePattern pattern{};
  Duration end{};  // of the last request: completion, or arrival where completions are not known
  boost::unordered_flat_map<TargetId, Bytes> targets;

  void add(const TraceRequest& request) {
    end = std::max(end, request.has_completed() ? request.completed : request.time);
    constexpr Bytes kMost(kLargestSize);
    Bytes& bytes = targets[request.target];
    bytes = std::min(bytes + std::min(request.length, kMost), kMost);
  }
  Bytes busiest() const {
    Bytes most;
    for (const auto& [target, bytes] : targets) most = std::max(most, bytes);
    return most;
  }
};

}  // namespace

// ---- sizes in traces ----

void TracedPhaseSizes::read(const Trace& trace) {
  std::vector<std::uint64_t> files;
  for (const std::string& name : trace.files) files.push_back(hash_of(name));
  boost::unordered_flat_map<ApplicationId, TracedPhase> phases;
  for (const TraceRequest& request : trace.requests) {
    if (request.file >= files.size() || request.time < Duration::zero()) continue;
    TracedPhase& phase = phases[request.application];
    if (!phase.targets.empty() && request.time - phase.end >= kPhaseGap) {
      seen_[phase.pattern].push_back(phase.busiest());
      phase.targets.clear();
    }
    if (phase.targets.empty()) phase.pattern = {files[request.file], request.direction, 0};
    phase.add(request);
  }
  for (const auto& [application, phase] : phases) seen_[phase.pattern].push_back(phase.busiest());
}

void TracedPhaseSizes::finish() {
  for (auto& [pattern, sizes] : seen_) {
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::ranges::nth_element(sizes, middle);
    const Bytes median = *middle;
    const auto differing = std::ranges::count_if(sizes, [&](Bytes size) { return sizes_differ(size, median); });
    if (4 * static_cast<std::size_t>(differing) <= sizes.size()) sizes_[pattern] = median;
  }
  seen_ = {};
}

Bytes TracedPhaseSizes::find(const PhasePattern& pattern) const {
  const auto found = sizes_.find(pattern);
  return found == sizes_.end() ? Bytes{} : found->second;
}

// ---- sizes that are expected ----

void ExpectedPhaseSizes::name_file(FileId file, std::string_view pattern) {
  if (files_.size() >= kMostPatterns && !files_.contains(file))
    files_.clear();  // recognised by number until named again
  files_[file] = hash_of(pattern);
}

PhasePattern ExpectedPhaseSizes::pattern_of(const Request& request) const {
  const auto named = files_.find(request.file);
  return {named != files_.end() ? named->second : hash_of(unnamed_pattern(request.file)), request.direction,
          request.stamp.user};
}

ExpectedPhaseSizes::Size& ExpectedPhaseSizes::size_of(const PhasePattern& pattern) {
  if (patterns_.size() >= kMostPatterns && !patterns_.contains(pattern)) patterns_.clear();
  const auto [found, added] = patterns_.try_emplace(pattern);
  if (added && options_.traces)
    found->second.expected = options_.traces->phase_sizes().find({pattern.file, pattern.direction, 0});
  return found->second;
}

Bytes ExpectedPhaseSizes::arrived(const Request& request, TimePoint now) {
  const Stamp& stamp = request.stamp;
  LastPhase& phase = phases_[index_of(stamp)];
  const bool same = same_application(phase, stamp);
  if (same && stamp.phase < phase.number) return {};  // a rank that is late
  if (!same || stamp.phase != phase.number || !phase.open) {
    if (same)
      end(phase);
    else
      end_if_quiet(phase, now);
    begin(phase, request, now);
  }
  ++phase.waiting;
  phase.last = now;
  phase.shown = std::max(phase.shown, std::min(shown(stamp), Bytes(kLargestSize)));
  if (phase.shown > phase.expected && sizes_differ(phase.shown, phase.expected)) count(phase);
  return phase.used;
}

void ExpectedPhaseSizes::left(const Stamp& stamp) {
  LastPhase& phase = phases_[index_of(stamp)];
  if (same_application(phase, stamp) && stamp.phase == phase.number && phase.waiting > 0) --phase.waiting;
}

void ExpectedPhaseSizes::begin(LastPhase& phase, const Request& request, TimePoint now) {
  const Stamp& stamp = request.stamp;
  const PhasePattern pattern = pattern_of(request);
  const auto index = static_cast<std::uint32_t>(&phase - phases_.data());
  phase = {
      .application = stamp.application, .user = stamp.user, .number = stamp.phase, .open = true, .pattern = pattern};
  // The last phase of an application that has ended is learned when the next run begins.
  if (LastPhase& latest = phases_[size_of(pattern).latest]; &latest != &phase && latest.pattern == pattern)
    end_if_quiet(latest, now);
  Size& size = size_of(pattern);
  size.latest = index;
  phase.expected = size.expected;
  if (!size.was_wrong && accuracy_.trusted()) phase.used = size.expected;
}

void ExpectedPhaseSizes::end_if_quiet(LastPhase& phase, TimePoint now) {
  constexpr Duration kQuiet = std::chrono::seconds(1);
  if (phase.waiting == 0 && now - phase.last >= kQuiet) end(phase);
}

void ExpectedPhaseSizes::end(LastPhase& phase) {
  if (!std::exchange(phase.open, false)) return;
  count(phase);
  Size& size = size_of(phase.pattern);
  size.was_wrong = size.expected > Bytes{} && sizes_differ(size.expected, phase.shown);
  if (options_.learn) size.expected = phase.shown;
}

// Once per phase, of which something was expected.
void ExpectedPhaseSizes::count(LastPhase& phase) {
  if (phase.expected == Bytes{} || std::exchange(phase.counted, true)) return;
  accuracy_.count(!sizes_differ(phase.expected, phase.shown));
}

}  // namespace tutti

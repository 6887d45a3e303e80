// SPDX-License-Identifier: Apache-2.0
#include "collective/adaptive_choice.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace tutti::collective {
namespace {

constexpr std::size_t kMpi = 3;       // index of the MPI library itself; the others are plans
constexpr double kHope = 0.75;        // a method is tried if its estimate is at most 1 / this above the best
constexpr double kSecondTrial = 0.5;  // and again if it was less than 1 / this slower than the best
constexpr double kSuspect = 4;        // the MPI library is tried if the best plan takes this times the least estimate
constexpr double kInMemory = 0.25;    // I/O in this share of the device's time: the data is in memory
constexpr double kOnDevice = 0.5;     // and from this share on it is not
constexpr double kFade = 0.995;       // per call: what was measured long ago counts less
constexpr unsigned kMostNeeded = 64;
constexpr std::size_t kMostPatterns = 64;

// Data in memory: all ranks together copy this many bytes per second, at best. Reads of several ranks work side by
// side; writes lock the file.
constexpr double kCopy = 5e9;
constexpr double kReadCall = 1e-6, kWriteCall = 3e-6;
constexpr double kAnyCall = 100e-6;  // messages, and waiting for a core

int size_class(std::uint64_t value) {
  return static_cast<int>(std::bit_width(value)) / 2;
}

struct MemoryEstimates {
  double independent = 0, two_phase = 0, resonant = 0;  // seconds per byte
};

MemoryEstimates estimate_memory(const CallPattern& pattern, const Machine& machine) {
  const auto bytes = static_cast<double>(pattern.bytes), ranks = static_cast<double>(pattern.ranks);
  const double calls = static_cast<double>(pattern.extents) / bytes, any = kAnyCall / bytes;
  const double all_calls = pattern.direction == Direction::kRead ? calls * kReadCall / ranks : calls * kWriteCall;
  const double two_phase = 2 / kCopy + 1 / ranks / machine.network_bandwidth;
  // Only the agents do I/O and send or receive everything.
  const double share = std::max(1.0, ranks / static_cast<double>(std::max<std::uint64_t>(1, machine.agents)));
  return {any + 1 / kCopy + all_calls, any + two_phase, any + two_phase * share};
}

}  // namespace

AdaptiveChoice::Key AdaptiveChoice::key_of(const CallPattern& pattern) {
  return {pattern.interleaved, size_class(pattern.bytes),
          size_class(pattern.bytes / std::max<std::uint64_t>(1, pattern.extents))};
}

std::size_t AdaptiveChoice::index_of(const Method& method) {
  if (!method) return kMpi;
  assert(*method <= PlanKind::kResonant);
  return static_cast<std::size_t>(*method);
}

bool AdaptiveChoice::knows(const CallPattern& pattern) const {
  return known_.contains(key_of(pattern));
}

void AdaptiveChoice::learn(const CallPattern& pattern, const std::vector<Estimate>& estimates, const Machine& machine) {
  assert(!estimates.empty());
  if (known_.size() >= kMostPatterns) known_.clear();
  const Key key = key_of(pattern);
  Known made;
  const MemoryEstimates memory = estimate_memory(pattern, machine);
  for (const Estimate& each : estimates) {
    double in_memory = memory.two_phase;
    if (each.kind == PlanKind::kIndependent) in_memory = memory.independent;
    if (each.kind == PlanKind::kResonant) in_memory = memory.resonant;
    const double on_device = std::max(each.seconds, 0.0) / static_cast<double>(pattern.bytes);
    made.methods[index_of(each.kind)] = {on_device + in_memory, in_memory};
  }
  // MPI libraries have two phases if ranks are interleaved; else every rank does its own I/O.
  const Times& two_phase = made.methods[index_of(PlanKind::kTwoPhase)];
  made.methods[kMpi] = two_phase.device > 0 ? two_phase : made.methods[index_of(PlanKind::kIndependent)];
  // Also if data of other calls of this size is in memory.
  made.in_memory = machine.in_memory || std::any_of(known_.begin(), known_.end(), [&](const auto& each) {
                     return each.second.in_memory && std::get<1>(each.first) + 1 >= std::get<1>(key);
                   });
  known_[key] = made;
}

// The factor by which tried plans were slower than estimated, of the best one; at least 1.
double AdaptiveChoice::Known::slower_than_estimated() const {
  double factor = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < kMethods; ++i)
    if (methods[i].calls > 0) factor = std::min(factor, methods[i].measured / estimate(i));
  return factor == std::numeric_limits<double>::max() ? 1 : std::max(factor, 1.0);
}

// True: no plan is nearly as fast as one should be. A single slow call says little.
bool AdaptiveChoice::Known::suspicious() const {
  double measured = std::numeric_limits<double>::max(), estimated = measured;
  if (std::none_of(methods.begin(), methods.begin() + kMpi, [](const Times& each) { return each.calls > 1; }))
    return false;
  for (std::size_t i = 0; i < kMpi; ++i) {
    if (methods[i].calls > 0) measured = std::min(measured, methods[i].measured);
    if (estimate(i) > 0) estimated = std::min(estimated, estimate(i));
  }
  return measured >= kSuspect * estimated;
}

double AdaptiveChoice::Known::cost(std::size_t method, bool mpi_allowed) const {
  constexpr double kNever = std::numeric_limits<double>::max();
  if (estimate(method) <= 0 || (method == kMpi && !mpi_allowed)) return kNever;
  const auto tried = std::count_if(methods.begin(), methods.end(), [](const Times& each) { return each.calls > 0; });
  if (methods[method].calls == 1 && tried > 1) return methods[method].measured * kSecondTrial;
  if (methods[method].calls > 0) return methods[method].measured;
  if (method == kMpi && !suspicious()) return kNever;
  return estimate(method) * (tried > 0 ? slower_than_estimated() * kHope : 1);
}

std::size_t AdaptiveChoice::Known::cheapest(bool mpi_allowed) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < kMethods; ++i)
    if (cost(i, mpi_allowed) < cost(best, mpi_allowed)) best = i;
  return best;
}

Method AdaptiveChoice::choose(const CallPattern& pattern, bool mpi_allowed) {
  mpi_allowed_ = mpi_allowed;
  const auto found = known_.find(key_of(pattern));
  assert(found != known_.end());
  const std::size_t best = found->second.cheapest(mpi_allowed);
  if (best == kMpi) return std::nullopt;
  return static_cast<PlanKind>(best);
}

void AdaptiveChoice::Known::notice_device(std::size_t method, double io) {
  const double share = io / methods[method].device;
  fast = share < kInMemory ? fast + 1 : 0;
  slow = share > kOnDevice ? slow + 1 : 0;
  if (!in_memory && fast > 0 && fast >= 1u << std::min(returns, 6u)) in_memory = true;
  if (!in_memory || slow < 2) return;
  in_memory = false;
  ++returns;
}

// A single slow call may have another reason than its method; a fast one has none.
void AdaptiveChoice::Known::add(std::size_t method, double seconds_per_byte) {
  Times& times = methods[method];
  const double lower = std::min(seconds_per_byte, times.last);
  const bool better = times.calls == 0 || seconds_per_byte < times.measured;
  times.measured = better ? seconds_per_byte : times.measured + std::max(0.0, lower - times.measured) / 2;
  times.last = seconds_per_byte;
  ++times.calls;
}

void AdaptiveChoice::measured(const CallPattern& pattern, const Method& method, const CallTime& time) {
  const Key key = key_of(pattern);
  const bool alone = method == PlanKind::kIndependent;
  if (key != last_ && alike_ >= needed_) needed_ = std::min(2 * needed_, kMostNeeded);
  alike_ = !alone ? 0 : key == last_ ? alike_ + 1 : 1;
  last_ = key;
  const auto found = known_.find(key);
  if (found == known_.end() || time.all <= 0) return;
  Known& known = found->second;
  const std::size_t index = index_of(method);
  if (known.methods[index].device <= 0) return;
  const double slower = known.slower_than_estimated();
  for (std::size_t i = 0; i < kMethods; ++i) {
    double& other = known.methods[i].measured;
    const double least = known.estimate(i) * slower;
    if (i != index && other > least) other = std::max(least, other * kFade);
  }
  const auto bytes = static_cast<double>(pattern.bytes);
  known.add(index, time.all / bytes);
  known.notice_device(index, time.io / bytes);
}

bool AdaptiveChoice::begin_at_once() const {
  const auto found = known_.find(last_);
  if (found == known_.end() || alike_ < needed_ || !found->second.in_memory) return false;
  return found->second.cheapest(mpi_allowed_) == index_of(PlanKind::kIndependent);
}

}  // namespace tutti::collective

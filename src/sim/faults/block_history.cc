// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/block_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tutti::sim {
namespace {

using Write = BlockHistory::Write;
using Read = BlockHistory::Read;

struct Interval {
  Nanoseconds from = 0, to = 0;
  bool inside(const Interval& other) const { return other.from < from && to < other.to; }
  bool overlaps(const Interval& other) const { return from < other.to && other.from < to; }
};

std::string text(std::string_view what, std::uint64_t value, Nanoseconds begin, Nanoseconds end) {
  const std::string until = end == kNever ? "never" : fmt::format("{:.6f}", seconds(end));
  return fmt::format("{} of {} [{:.6f}, {}]", what, value, seconds(begin), until);
}

// A write and the reads that returned its value.
struct Value {
  Write write;
  std::vector<Read> reads;

  // The value certainly was in the block all this time. Empty if from >= to.
  Interval held() const {
    Interval zone{write.end, write.begin};
    for (const Read& read : reads) {
      zone.to = std::max(zone.to, read.begin);
      if (!write.repeated) zone.from = std::min(zone.from, read.end);
    }
    return zone;
  }
  // The value was in the block at a time within each of these.
  std::vector<Interval> seen() const {
    const Interval zone = held();
    if (!write.repeated) return {zone.from < zone.to ? Interval{write.begin, write.end} : Interval{zone.to, zone.from}};
    std::vector<Interval> all;
    for (const Read& read : reads) all.push_back({read.begin, read.end});
    all.push_back({write.begin, write.end});
    return all;
  }
  std::string describe() const {
    std::string result = text("write", write.value, write.begin, write.end);
    for (const Read& read : reads) result += ", " + text("read", read.value, read.begin, read.end);
    return result;
  }
};

// The time between two power cuts that changed the block.
class Epoch {
 public:
  Epoch(std::uint64_t initial, Interval time) : time_(time) {
    initial_ = {.value = initial, .begin = time.from, .end = time.from, .acknowledged = true, .synced = time.from};
    if (initial == 0)
      zeros_.push_back(initial_);
    else
      values_[initial].write = initial_;
  }

  // Operations that began in an earlier epoch or ended in a later one may have taken effect there.
  void add(Write write) {
    if (write.begin >= time_.to || write.end < time_.from) return;
    if (write.begin < time_.from || write.end > time_.to) {
      write.acknowledged = false;
      write.repeated = true;
      write.synced = kNever;
      write.begin = std::max(write.begin, time_.from);
      write.end = std::min(write.end, time_.to);
    }
    if (write.value == 0) return zeros_.push_back(write);
    const auto [found, fresh] = values_.try_emplace(write.value, Value{write, {}});
    if (fresh) return;
    found->second.write.repeated = true;  // the initial value; its write goes on and may be repeated
    found->second.write.end = std::max(found->second.write.end, write.end);
  }

  std::optional<std::string> add(const Read& read) {
    if (read.begin < time_.from || read.end > time_.to) return std::nullopt;
    if (read.value == 0) {
      zero_reads_.push_back(read);
      return std::nullopt;
    }
    const auto found = values_.find(read.value);
    if (found == values_.end() || found->second.write.begin > read.end)
      return "a value that was not written or was lost: " + text("read", read.value, read.begin, read.end);
    found->second.reads.push_back(read);
    return std::nullopt;
  }

  std::optional<std::string> check_order() {
    std::erase_if(values_,
                  [](const auto& item) { return !item.second.write.acknowledged && item.second.reads.empty(); });
    for (const Write& zero : zeros_)
      if (zero.acknowledged && zero.begin > time_.from) certain_zeros_.push_back({zero, {}});
    for (const auto& [value, cluster] : values_) {
      const Interval held = cluster.held();
      if (held.from >= held.to) continue;
      for (const auto& [other_value, other] : values_)
        if (other_value != value && excluded(held, other)) return conflict(cluster, other);
      for (const Value& zero : certain_zeros_)
        if (excluded(held, zero)) return conflict(cluster, zero);
    }
    for (const Read& read : zero_reads_)
      if (std::ranges::none_of(zeros_, [&](const Write& zero) { return possible(zero, read); }))
        return "zeros instead of data: " + text("read", 0, read.begin, read.end);
    return std::nullopt;
  }

  // The epoch ended with a power cut, after which the block has this value.
  std::optional<std::string> check_synced(std::uint64_t value, const std::vector<Write>& writes) const {
    std::optional<Nanoseconds> latest;  // when a write of the value took effect at the latest
    const auto consider = [&](const Write& write) {
      if (write.value == value) latest = std::max(latest.value_or(write.end), write.end);
    };
    consider(initial_);
    for (const Write& write : writes)
      if (write.begin < time_.to && write.end >= time_.from) consider(write);
    if (!latest && value != 0)
      return fmt::format("after the power cut at {:.6f} it has {}, which was not written", seconds(time_.to), value);
    for (const Write& write : writes) {
      const bool lost = write.begin >= time_.from && write.end <= time_.to && write.value != value &&
                        (!latest || *latest < write.begin);
      if (lost && covered(write, writes))
        return fmt::format("the power cut at {:.6f} lost a synced {}, and left {}", seconds(time_.to),
                           text("write", write.value, write.begin, write.end), value);
    }
    return std::nullopt;
  }

 private:
  // A sync before the power cut covers the write; or one after it, which must fail unless the block was written again.
  bool covered(const Write& write, const std::vector<Write>& writes) const {
    if (write.synced <= time_.to) return true;
    return write.synced != kNever && std::ranges::none_of(writes, [&](const Write& other) {
             return other.end > time_.to && other.begin < write.synced;
           });
  }

  // Another value cannot have been in the block when the history says that it was.
  static bool excluded(const Interval& held, const Value& other) {
    const Interval zone = other.held();
    if (zone.from < zone.to && zone.overlaps(held)) return true;
    return std::ranges::any_of(other.seen(), [&](const Interval& seen) { return seen.inside(held); });
  }

  bool possible(const Write& zero, const Read& read) const {
    if (read.end < zero.begin) return false;
    const Interval held{zero.end, std::max(zero.begin, read.begin)};
    const Interval seen{read.begin, read.end};
    return std::ranges::none_of(values_, [&](const auto& item) {
      const Interval zone = item.second.held();
      if (zone.from < zone.to && seen.inside(zone)) return true;
      return held.from < held.to && excluded(held, item.second);
    });
  }

  static std::string conflict(const Value& one, const Value& other) {
    return fmt::format("an old value: {} although {}", one.describe(), other.describe());
  }

  const Interval time_;
  Write initial_;
  std::map<std::uint64_t, Value> values_;
  std::vector<Write> zeros_;
  std::vector<Value> certain_zeros_;  // acknowledged truncates
  std::vector<Read> zero_reads_;
};

}  // namespace

std::optional<std::string> check(const BlockHistory& history) {
  std::uint64_t initial = 0;
  Nanoseconds from = -1;
  for (std::size_t i = 0; i <= history.reverts.size(); ++i) {
    const bool last = i == history.reverts.size();
    Epoch epoch(initial, {from, last ? kNever : history.reverts[i].at});
    for (const Write& write : history.writes) epoch.add(write);
    for (const Read& read : history.reads)
      if (auto wrong = epoch.add(read)) return wrong;
    if (auto wrong = epoch.check_order()) return wrong;
    if (last) break;
    if (auto wrong = epoch.check_synced(history.reverts[i].value, history.writes)) return wrong;
    initial = history.reverts[i].value;
    from = history.reverts[i].at;
  }
  return std::nullopt;
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// The disciplines. A new one is a class and a row of the table at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "gate/discipline.h"

namespace tutti::gate {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Locking with order preservation (thesis, figure 3.5 (a)).
class Fifo final : public Discipline {
 public:
  Placement place(Bytes, const History&) override { return {}; }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }
};

// Locking without order preservation (thesis, figure 3.5 (b)) and its upper limit on blocking.
class FifoPass final : public Discipline {
 public:
  explicit FifoPass(Duration limit) : limit_(limit) {}
  Placement place(Bytes, const History&) override { return {}; }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// How long a phase will hold its targets: announced, else as long as the job's last one; nothing if neither is known.
std::optional<double> expected_hold(Bytes announced, const History& history) {
  if (announced.count() > 0) return static_cast<double>(announced.count()) / history.bytes_per_second;
  return history.hold ? std::optional(seconds(*history.hold)) : std::nullopt;
}

// The smallest phase first. What is not announced is taken from the job's last phase at the rate seen so far;
// a job of which nothing is known goes after all that are known.
class Shortest final : public Discipline {
 public:
  explicit Shortest(Duration limit) : limit_(limit) {}

  Placement place(Bytes announced, const History& history) override {
    if (announced.count() > 0) return {.group = 0, .rank = static_cast<double>(announced.count())};
    const auto hold = expected_hold(announced, history);
    return {.group = 0, .rank = hold ? *hold * history.bytes_per_second : std::numeric_limits<double>::infinity()};
  }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// Set-10 of IO-Sets: jobs are classed by the order of magnitude of the time from one phase to the next, and class i has
// a weight of 10^-i. In a class one job goes at a time, in order of arrival. A job without a history is taken to be
// like the others.
//
// IO-Sets lets the classes write at the same time and share the bandwidth by weight. A disk pays for that with most of
// its bandwidth, so by default the classes share its time: one turn at a time, given to the class that has had the
// least time for its weight (start-time fair queueing). No class can be starved; with one class only, this is `fifo`.
class Set10 final : public Discipline {
 public:
  explicit Set10(bool together) : together_(together) {}

  Placement place(Bytes announced, const History& history) override {
    if (!history.period && !history.typical_magnitude) return {.group = 0, .rank = together_ ? 0 : time_};
    const double logarithm =
        history.period ? std::log10(std::max(seconds(*history.period), 1e-9)) : *history.typical_magnitude;
    const int magnitude = static_cast<int>(std::round(logarithm));
    if (together_) return {.group = static_cast<std::uint32_t>(magnitude - kSmallestMagnitude) + 1, .rank = 0};
    double& class_finish = finish_[magnitude];
    const double start = std::max(time_, class_finish);
    class_finish = start + expected_hold(announced, history).value_or(1) * std::pow(10, magnitude);
    return {.group = 0, .rank = start};
  }
  void granted(const Placement& place) override { time_ = std::max(time_, place.rank); }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }

 private:
  static constexpr int kSmallestMagnitude = -9;  // a nanosecond; keeps group numbers positive
  const bool together_;
  double time_ = 0;               // virtual: the rank of the last one that went
  std::map<int, double> finish_;  // of each class: when, in virtual time, it has had what it asked for so far
};

OptionInfo limit_option() {
  return {.name = "limit",
          .kind = OptionInfo::Kind::kDuration,
          .fallback = "2min",
          .help = "a request that has waited this long goes next: nobody passes it any more"};
}

OptionInfo share_option() {
  return {.name = "share",
          .kind = OptionInfo::Kind::kChoice,
          .fallback = "time",
          .help = "time: one job at a time, classes take turns; bandwidth: one job per class at a time (flash)",
          .choices = {"time", "bandwidth"}};
}

template <typename T>
std::unique_ptr<Discipline> make_limited(const OptionValues& values) {
  return std::make_unique<T>(values.duration("limit"));
}

template <typename T>
std::unique_ptr<Discipline> make_plain(const OptionValues&) {
  return std::make_unique<T>();
}

}  // namespace

const std::vector<DisciplineInfo>& disciplines() {
  static const std::vector<DisciplineInfo> table = {
      {"fifo",
       "order of arrival; nobody passes an earlier request that shares a target",
       "backoff-and-locking-thesis, figure 3.5 (a)",
       {},
       make_plain<Fifo>},
      {"fifo-pass",
       "order of arrival, but whoever finds all its targets free goes",
       "backoff-and-locking-thesis, figure 3.5 (b)",
       {limit_option()},
       make_limited<FifoPass>},
      {"shortest",
       "the smallest phase first, announced or learned from the job's last one",
       "",
       {limit_option()},
       make_limited<Shortest>},
      {"set10",
       "classes by order of magnitude of the period between phases; the shorter the period, the larger the share",
       "IO-Sets (Set-10)",
       {share_option()},
       [](const OptionValues& values) { return std::make_unique<Set10>(values.text("share") == "bandwidth"); }},
  };
  return table;
}

Result<std::unique_ptr<Discipline>> make_discipline(std::string_view name, const OptionTexts& options) {
  for (const DisciplineInfo& info : disciplines()) {
    if (info.name != name) continue;
    auto values = OptionValues::check(fmt::format("discipline '{}'", name), info.options, options);
    if (!values) return Failure(values.error());
    return info.make(*values);
  }
  std::vector<std::string> names;
  for (const DisciplineInfo& info : disciplines()) names.push_back(info.name);
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no discipline '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace tutti::gate

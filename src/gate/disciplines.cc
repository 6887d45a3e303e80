// SPDX-License-Identifier: Apache-2.0
// The disciplines. To add one, write a class and a row of the table at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/units.h"
#include "gate/discipline.h"

namespace tutti::gate {
namespace {

// Locking with order preservation (thesis, figure 3.5 (a)).
class FifoDiscipline final : public Discipline {
 public:
  Placement place(Bytes, const History&) override { return {}; }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }
};

// Locking without order preservation (thesis, figure 3.5 (b)), with its upper limit on blocking.
class FifoPassDiscipline final : public Discipline {
 public:
  explicit FifoPassDiscipline(Duration limit) : limit_(limit) {}
  Placement place(Bytes, const History&) override { return {}; }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// How long a phase will hold its targets, in seconds: from the announced size, else as long as the job's last phase.
std::optional<double> expected_hold(Bytes announced, const History& history) {
  if (announced.count() > 0) return static_cast<double>(announced.count()) / history.bytes_per_second;
  return history.hold ? std::optional(seconds(*history.hold)) : std::nullopt;
}

// The smallest phase first. A size that is not announced is estimated from the job's last phase and the measured rate.
// Jobs without either are served last.
class ShortestDiscipline final : public Discipline {
 public:
  explicit ShortestDiscipline(Duration limit) : limit_(limit) {}

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

// Set-10 of IO-Sets: the class of a job is the order of magnitude of its period, the time from one phase to the next.
// Class i has a weight of 10^-i. In a class, one job has a turn at a time, in order of arrival. A job without a history
// gets the class of the typical job.
//
// In IO-Sets the classes write at the same time and share the bandwidth by weight. A disk loses most of its bandwidth
// to seeks then. So by default the classes share time: there is one turn at a time, for the class that has used the
// least time relative to its weight (start-time fair queueing). No class starves. With one class, this is `fifo`.
class Set10Discipline final : public Discipline {
 public:
  explicit Set10Discipline(bool together) : together_(together) {}

  Placement place(Bytes announced, const History& history) override {
    if (!history.period && !history.typical_magnitude) return {.group = 0, .rank = together_ ? 0 : time_};
    const double logarithm =
        history.period ? std::log10(std::max(seconds(*history.period), 1e-9)) : *history.typical_magnitude;
    const int magnitude = std::clamp(static_cast<int>(std::round(logarithm)), kSmallestMagnitude, kLargestMagnitude);
    if (together_) return {.group = static_cast<std::uint32_t>(magnitude - kSmallestMagnitude) + 1, .rank = 0};
    double& class_finish = finish_[magnitude];
    const double start = std::max(time_, class_finish);
    class_finish = start + expected_hold(announced, history).value_or(1) * std::pow(10, magnitude);
    return {.group = 0, .rank = start};
  }
  std::uint32_t groups() const override {
    return together_ ? static_cast<std::uint32_t>(kLargestMagnitude - kSmallestMagnitude) + 2 : 1;
  }
  void granted(const Placement& placement) override { time_ = std::max(time_, placement.rank); }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }

 private:
  static constexpr int kSmallestMagnitude = -9;  // a nanosecond; keeps group numbers positive
  static constexpr int kLargestMagnitude = 10;   // centuries: the range of a Duration
  const bool together_;
  double time_ = 0;               // virtual time: the rank of the last granted request
  std::map<int, double> finish_;  // by class: virtual time at which its requests so far are served
};

OptionInfo limit_option() {
  return {.name = "limit",
          .kind = OptionInfo::Kind::kDuration,
          .fallback = "2min",
          .help = "a request that has waited this long is served next; no other request passes it"};
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
       "order of arrival; no request passes an earlier one that shares a target",
       "backoff-and-locking-thesis, figure 3.5 (a)",
       {},
       make_plain<FifoDiscipline>},
      {"fifo-pass",
       "order of arrival, but a request whose targets are all free passes earlier ones",
       "backoff-and-locking-thesis, figure 3.5 (b)",
       {limit_option()},
       make_limited<FifoPassDiscipline>},
      {"shortest",
       "the smallest phase first; sizes are announced, or learned from the job's last phase",
       "",
       {limit_option()},
       make_limited<ShortestDiscipline>},
      {"set10",
       "jobs in classes by the order of magnitude of their period between phases; shorter periods get a larger share",
       "IO-Sets (Set-10)",
       {share_option()},
       [](const OptionValues& values) {
         return std::make_unique<Set10Discipline>(values.text("share") == "bandwidth");
       }},
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

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
  Placement place(Bytes, const Measurements&) override { return {}; }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }
};

// Locking without order preservation (thesis, figure 3.5 (b)), with its upper limit on blocking.
class FifoPassDiscipline final : public Discipline {
 public:
  explicit FifoPassDiscipline(Duration limit) : limit_(limit) {}
  Placement place(Bytes, const Measurements&) override { return {}; }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// The smallest phase first. A size that is not announced is estimated from the job's last phase and the measured rate.
// Jobs without either are served last.
class ShortestDiscipline final : public Discipline {
 public:
  explicit ShortestDiscipline(Duration limit) : limit_(limit) {}

  Placement place(Bytes announced, const Measurements& measured) override {
    if (announced.count() > 0) return {.rank = static_cast<double>(announced.count())};
    if (measured.hold) return {.rank = seconds(*measured.hold) * measured.bytes_per_second};
    return {.rank = std::numeric_limits<double>::infinity()};
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
// least time relative to its weight (start-time fair queueing). With one class, this is `fifo`.
//
// What counts is the time for which turns held their targets, on all targets together. Until a turn has ended, it
// counts with the time of the job's earlier turns. Then its class is corrected, and the waiting requests that were
// placed behind it with that class. A request that was withdrawn counts with 0. Announced sizes are not used. So no
// class starves because of a wrong announcement or of requests that are given up. Requests before the first period is
// known do not count, and are served first.
class Set10Discipline final : public Discipline {
 public:
  explicit Set10Discipline(bool together) : together_(together) {}

  Placement place(Bytes, const Measurements& measured) override {
    if (!measured.period && !measured.typical_magnitude) return {};
    const double logarithm =
        measured.period ? std::log10(std::max(seconds(*measured.period), 1e-9)) : *measured.typical_magnitude;
    const int magnitude = std::clamp(static_cast<int>(std::round(logarithm)), kSmallestMagnitude, kLargestMagnitude);
    const auto number = static_cast<std::uint32_t>(magnitude - kSmallestMagnitude) + 1;
    if (together_) return {.group = number};
    ++open_;
    const double charge = weighted(number, measured.hold.value_or(std::chrono::seconds(1)));
    double& finish = finish_[number];
    const double start = std::max(time_, finish);
    finish = start + charge;
    return {.queue = number, .start = start, .charge = charge};
  }
  std::uint32_t groups() const override {
    return together_ ? static_cast<std::uint32_t>(kLargestMagnitude - kSmallestMagnitude) + 2 : 1;
  }
  void granted(const Placement& placement) override { time_ = std::max(time_, placement.start); }
  double ended(const Placement& placement, Duration held) override {
    if (placement.queue == 0) return 0;
    const double correction = weighted(placement.queue, held) - placement.charge;
    finish_[placement.queue] += correction;
    // The gate is idle: no class owes anything for time that no other class wanted. Rounding errors end here, too.
    if (--open_ == 0) {
      time_ = 0;
      finish_.clear();
    }
    return correction;
  }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }

 private:
  static constexpr int kSmallestMagnitude = -9;  // a nanosecond; keeps the numbers of classes positive
  static constexpr int kLargestMagnitude = 10;   // centuries: the range of a Duration

  static double weighted(std::uint32_t number, Duration held) {
    return seconds(held) * std::pow(10, static_cast<int>(number) - 1 + kSmallestMagnitude);
  }

  const bool together_;
  double time_ = 0;                         // virtual time: the largest start of a granted request
  std::map<std::uint32_t, double> finish_;  // by class: virtual time at which its requests so far are served
  std::uint64_t open_ = 0;                  // requests with a class that wait or hold
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

// SPDX-License-Identifier: Apache-2.0
// The disciplines. A new one is a class and a row of the table at the end.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "gate/discipline.h"

namespace tutti::gate {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Locking with order preservation (thesis, figure 3.5 (a)).
class Fifo final : public Discipline {
 public:
  Placement place(Bytes, const History&) const override { return {}; }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }
};

// Locking without order preservation (thesis, figure 3.5 (b)) and its upper limit on blocking.
class FifoPass final : public Discipline {
 public:
  explicit FifoPass(Duration limit) : limit_(limit) {}
  Placement place(Bytes, const History&) const override { return {}; }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// The smallest phase first. What is not announced is taken from the job's last phase at the rate seen so far;
// a job of which nothing is known goes after all that are known.
class Shortest final : public Discipline {
 public:
  explicit Shortest(Duration limit) : limit_(limit) {}

  Placement place(Bytes announced, const History& history) const override {
    if (announced.count() > 0) return {.group = 0, .rank = announced.count()};
    if (!history.hold) return {.group = 0, .rank = UINT64_MAX};
    const double estimate = std::max(1.0, seconds(*history.hold) * history.bytes_per_second);
    return {.group = 0, .rank = static_cast<std::uint64_t>(std::min(estimate, 1e18))};
  }
  bool keeps_order() const override { return false; }
  std::optional<Duration> limit() const override { return limit_; }

 private:
  Duration limit_;
};

// Set-10 of IO-Sets: jobs are classed by the order of magnitude of the time from one phase to the next; one job per
// class at a time, in order of arrival; classes share. Jobs without a history make a class of their own.
class Set10 final : public Discipline {
 public:
  Placement place(Bytes, const History& history) const override {
    if (!history.period) return {.group = 0, .rank = 0};
    const double magnitude = std::round(std::log10(std::max(seconds(*history.period), 1e-9)));
    return {.group = static_cast<std::uint32_t>(magnitude - kSmallestMagnitude) + 1, .rank = 0};
  }
  bool keeps_order() const override { return true; }
  std::optional<Duration> limit() const override { return std::nullopt; }

 private:
  static constexpr double kSmallestMagnitude = -9;  // a nanosecond; keeps group numbers positive
};

OptionInfo limit_option() {
  return {.name = "limit",
          .kind = OptionInfo::Kind::kDuration,
          .fallback = "2min",
          .help = "a request that has waited this long goes next: nobody passes it any more"};
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
       "one job per order of magnitude of the period between phases; classes share",
       "IO-Sets (Set-10)",
       {},
       make_plain<Set10>},
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

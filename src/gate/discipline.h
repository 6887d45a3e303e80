// SPDX-License-Identifier: Apache-2.0
// Who goes next at the gate, and the table of all disciplines.
#pragma once

#include <tutti/base.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace tutti::gate {

// What the lock table has seen so far of the job that asks, and of all jobs.
struct History {
  std::optional<Duration> period;           // of this job: mean time from one phase to the next, its waiting left out
  std::optional<Duration> hold;             // of this job: how long its last phase held the lock
  double bytes_per_second = 1e9;            // of all jobs: announced bytes over time held; 1e9 until something was seen
  std::optional<double> typical_magnitude;  // of all jobs: mean of the decimal logarithms of their last periods in s
};

// Where a new request stands.
struct Placement {
  // Requests of different groups never exclude each other: a target has at most one holder per group.
  std::uint32_t group = 0;
  // The smaller goes first; equal ranks by arrival.
  double rank = 0;
};

// Knows no clock: what it goes by is in the arguments, and in what it was told of earlier requests. Not thread-safe.
class Discipline {
 public:
  virtual ~Discipline() = default;

  virtual Placement place(Bytes announced, const History& history) = 0;  // announced 0: unknown

  // A request that was placed there has been granted.
  virtual void granted(const Placement& /*place*/) {}

  // True: a request that waits keeps its targets from everyone after it, though it cannot use them yet.
  // False: whoever finds all its targets free goes, until somebody else has waited longer than limit().
  virtual bool keeps_order() const = 0;

  // Waiting this long puts a request ahead of all that are not overdue, and nobody passes it any more.
  virtual std::optional<Duration> limit() const = 0;
};

struct DisciplineInfo {
  std::string name;
  std::string summary;
  std::string paper;  // where it comes from; empty: our own
  std::vector<OptionInfo> options;
  std::function<std::unique_ptr<Discipline>(const OptionValues&)> make;
};

// Every discipline there is; the only place that knows them by name.
const std::vector<DisciplineInfo>& disciplines();

// kNotFound: no such discipline, with the names there are. kInvalid: a wrong option, with those it takes.
Result<std::unique_ptr<Discipline>> make_discipline(std::string_view name, const OptionTexts& options);

}  // namespace tutti::gate

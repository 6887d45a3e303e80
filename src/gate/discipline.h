// SPDX-License-Identifier: Apache-2.0
// Disciplines decide which job gets the next turn at the gate. This header also has the table of all disciplines.
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

// What the lock table has measured so far.
struct History {
  std::optional<Duration> period;  // of this job: mean time from one phase to the next, without waiting
  // Of this job: how long it is expected to hold its targets. As long as in its last turn or, if its last two turns
  // differ by more than a half of the shorter one, as in the longer one: turns that alternate must not seem short.
  std::optional<Duration> hold;
  // Of all jobs: the median of announced bytes over time held in the last phases with an announced size. 1e9 at first.
  double bytes_per_second = 1e9;
  std::optional<double> typical_magnitude;  // of all jobs: mean log10 of their periods in s
};

// The position of a new request in the queue.
struct Placement {
  // Requests of different groups never exclude each other: a target has at most one holder per group.
  std::uint32_t group = 0;
  // Smaller ranks are served first; equal ranks in order of arrival.
  double rank = 0;
};

// Has no clock. Decisions depend only on the arguments of this and earlier calls. Not thread-safe.
class Discipline {
 public:
  virtual ~Discipline() = default;

  // Called once for each new request. announced 0: unknown size.
  virtual Placement place(Bytes announced, const History& history) = 0;

  // Placement::group is below this.
  virtual std::uint32_t groups() const { return 1; }

  // A request with this placement was granted.
  virtual void granted(const Placement& /*placement*/) {}

  // True: a waiting request reserves its targets, so later requests cannot pass it.
  // False: a request is granted as soon as all its targets are free, unless an overdue request waits for one of them.
  virtual bool keeps_order() const = 0;

  // A request that has waited this long is overdue: it is served before all others, and no request passes it.
  virtual std::optional<Duration> limit() const = 0;
};

struct DisciplineInfo {
  std::string name;
  std::string summary;
  std::string paper;  // source; empty: our own
  std::vector<OptionInfo> options;
  std::function<std::unique_ptr<Discipline>(const OptionValues&)> make;
};

// The table of all disciplines. No other code knows them by name.
const std::vector<DisciplineInfo>& disciplines();

// kNotFound: no such discipline; the message lists all names. kInvalid: a wrong option; the message lists the options.
Result<std::unique_ptr<Discipline>> make_discipline(std::string_view name, const OptionTexts& options);

}  // namespace tutti::gate

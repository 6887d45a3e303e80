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
struct Measurements {
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
  // A queue of its group. In a queue, smaller ranks are served first, and equal ranks in order of arrival.
  std::uint32_t queue = 0;
  double rank = 0;
  // Of the first requests of several queues, that with the smallest start is served next. Starts do not decrease in a
  // queue. With one queue they are 0.
  double start = 0;
  double charge = 0;  // for the discipline: what the request counts until it has ended
};

// Has no clock. Decisions depend only on the arguments of this and earlier calls. Not thread-safe.
class Discipline {
 public:
  virtual ~Discipline() = default;

  // Called once for each new request. announced 0: unknown size.
  virtual Placement place(Bytes announced, const Measurements& measured) = 0;

  // Placement::group is below this.
  virtual std::uint32_t groups() const { return 1; }

  // A request was granted. placement.start includes the corrections that ended() has returned.
  virtual void granted(const Placement& /*placement*/) {}

  // A request has ended. held: the time since its grant; 0 if it was withdrawn. Requests that a previous gate had
  // granted have a placement without a queue. Returns a correction: it is added to the start of each request that waits
  // behind this one in its queue.
  virtual double ended(const Placement& /*placement*/, Duration /*held*/) { return 0; }

  // True: a waiting request reserves its targets, so requests that are served after it cannot pass it.
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

// SPDX-License-Identifier: Apache-2.0
// What a scheduling policy is, and the table of all of them.
#pragma once

#include <tutti/sched.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/options.h"

namespace tutti {

class ClusterLimits;  // sched/cluster_limits.h

// Requests that go to the engine as one vectored operation: same file and direction, ascending offsets, each adjoins
// the one before it in the file or, with `adjoin=object`, in the target's object. A view: what next() returns is valid
// until the policy's next call.
struct Batch {
  std::span<const Request> requests;
  std::span<const TimePoint> arrived{};  // when each of them was added
};

struct Dispatch {
  Batch batch;
};
struct WaitUntil {
  TimePoint at;  // nothing now; ask again then, or when something arrives
};
struct Idle {};  // nothing waits
using Decision = std::variant<Idle, WaitUntil, Dispatch>;

// A state machine with no threads, no clock and no I/O: time is an argument and may jump in both directions.
// Never loses, invents or repeats a request.
class Policy {
 public:
  virtual ~Policy() = default;

  // False, and nothing happens, if a request with that id waits already.
  virtual bool add(const Request& request, TimePoint now) = 0;
  virtual Decision next(TimePoint now) = 0;
  // Called for every batch served, for policies that learn from how long it took.
  virtual void completed(const Batch& /*batch*/, TimePoint /*dispatched*/, TimePoint /*now*/) {}
  virtual bool waits(RequestId id) const = 0;
  // Removes the request and returns it; nothing if it does not wait.
  virtual std::optional<Request> cancel(RequestId id) = 0;

  // The name of a file as a pattern (prediction/trace.h), for policies that recognise the files of an earlier run.
  // False: the policy does not use names.
  virtual bool name_file(FileId /*file*/, std::string_view /*pattern*/) { return false; }
  // For policies with the option `prediction`: what earlier runs did; may be empty. Called before the first add(), or
  // never. False: the policy itself uses no predictions; a wrapper around it may (prediction/predicting_policy.h).
  virtual bool use_predictions(const std::shared_ptr<const PredictedQueues>& /*predictions*/) { return false; }
  // For policies with limits: where servers of a cluster get their part of each limit. Called before the first add(),
  // or never.
  virtual void use(std::shared_ptr<ClusterLimits> /*limits*/) {}
  // When the request arrived that next(now) serves before all others because it has waited for the stated time; nothing
  // if there is none.
  virtual std::optional<TimePoint> overdue(TimePoint /*now*/) { return std::nullopt; }

  // Prefetches what add() of this request (nullptr: none arrives) and next() will need. Optional. A caller with many
  // policies, whose state is in no cache, calls it some time before, with one step after the other, because each step
  // reads what the one before has loaded. The first line of the policy itself should be in the cache.
  static constexpr unsigned kPrefetchSteps = 5;
  virtual void prefetch(const Request* /*arriving*/, unsigned /*step*/) {}
  // The request that next() will probably return, or one that has left; nullptr: not easily told. It is in the cache
  // after step 2.
  virtual const Request* likely_next() const { return nullptr; }

  virtual std::size_t waiting() const = 0;
  // Removes and returns everything that waits, in order of arrival.
  virtual std::vector<WaitingRequest> take_all() = 0;
};

// How far a policy lets later requests overtake an earlier one: within `scope`, no request overtakes one that has
// waited `after` and arrived before it. kPhase: a phase ends before s * W bytes of its kind, and a few requests, have
// been served while it waits; s is the value of option `after`. Its kind are the phases of known size, or those of
// unknown size. W are the bytes of known phases that began no later, or of unknown phases that were issued no later.
struct OvertakingBound {
  enum class Scope { kEverything, kTarget, kApplication, kPhase };
  Scope scope = Scope::kEverything;
  std::string after;  // the name of the option that holds the time; empty: zero, never overtaken at all
};

struct PolicyInfo {
  std::string name;
  std::string summary;
  std::string paper;  // where it comes from; empty: common knowledge or our own
  std::vector<OptionInfo> options;
  OvertakingBound bound;
  std::function<Result<std::unique_ptr<Policy>>(const OptionValues&)> make;
};

// All policies. Nothing else knows a policy by name.
const std::vector<PolicyInfo>& policies();

const PolicyInfo* find_policy(std::string_view name);

// `device_class` ("hdd", "ssd", ...; empty: not known) decides some defaults of options that are not given.
// `predictions`: for policies with the option `prediction`; may be empty.
// kNotFound: no such policy, with the names there are. kInvalid: a wrong option, with those it takes.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, PolicyOptions options,
                                            std::string_view device_class = {},
                                            std::shared_ptr<const PredictedQueues> predictions = {});

}  // namespace tutti

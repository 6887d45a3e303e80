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

// Requests that go to the engine as one vectored operation: same file and direction, adjoining, ascending offsets.
// A view: what next() returns is valid until the policy's next call.
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

// A request that waits, and since when: what moves over when policies are switched.
struct Waiting {
  Request request;
  TimePoint arrived;
};

// A state machine with no threads, no clock and no I/O: time comes in as an argument and may jump either way.
// Never loses, invents or repeats a request.
class Policy {
 public:
  virtual ~Policy() = default;

  // False, and nothing happens, if a request with that id waits already.
  virtual bool add(const Request& request, TimePoint now) = 0;
  virtual Decision next(TimePoint now) = 0;
  // Told of every batch served, for policies that learn from how long it took.
  virtual void completed(const Batch& /*batch*/, TimePoint /*dispatched*/, TimePoint /*now*/) {}
  // The request, if it waited: it is gone now.
  virtual std::optional<Request> cancel(RequestId id) = 0;

  virtual std::size_t waiting() const = 0;
  // Hands over everything that waits, in order of arrival, and forgets it.
  virtual std::vector<Waiting> take_all() = 0;
};

// How far a policy lets later requests pass an earlier one:
// within `scope`, a request that has waited `after` is passed by none that arrived after it.
struct OvertakingBound {
  enum class Scope { kEverything, kTarget, kApplication };
  Scope scope = Scope::kEverything;
  std::string after;  // the name of the option that holds the time; empty: zero, never passed at all
};

struct PolicyInfo {
  std::string name;
  std::string summary;
  std::string paper;  // where it comes from; empty: folklore or our own
  std::vector<OptionInfo> options;
  OvertakingBound bound;
  std::function<Result<std::unique_ptr<Policy>>(const OptionValues&)> make;
};

// Every policy there is; the only place that knows them by name.
const std::vector<PolicyInfo>& policies();

const PolicyInfo* find_policy(std::string_view name);

// kNotFound: no such policy, with the names there are. kInvalid: a wrong option, with those it takes.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace tutti

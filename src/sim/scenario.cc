// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kLargestIndex = 1u << 20;  // of applications, iterations and ranks, which form the id of a file

Result<void> wrong(const Application& application, const std::string& what) {
  return fail(ErrorCode::kInvalid, fmt::format("application '{}': {}", application.name, what));
}

bool needs_block(Pattern pattern) {
  return pattern == Pattern::kInterleaved || pattern == Pattern::kTiles2d || pattern == Pattern::kTiles3d ||
         pattern == Pattern::kVector;
}

// The least number of requests of one operation on its busiest server.
std::uint64_t requests_on_a_server(const Scenario& scenario, const Application& application) {
  const auto parts = [](std::uint64_t whole, std::uint64_t part) { return whole / part + (whole % part != 0 ? 1 : 0); };
  std::uint64_t largest = application.stripe_size.count();
  if (application.flow > application.stripe_size) largest = application.flow.count();
  if (application.largest_request > Bytes{}) largest = std::min(largest, application.largest_request.count());
  if (!application.server_bytes.empty()) return parts(std::ranges::max(application.server_bytes).count(), largest);
  const std::uint64_t servers = application.stripe_count > 0 ? application.stripe_count : scenario.servers.count;
  return parts(parts(application.size.count(), largest), servers);
}

Result<void> check_server_bytes(const Scenario& scenario, const Application& application) {
  if (application.server_bytes.empty()) return {};
  const auto given = application.server_bytes.size();
  if (given != scenario.servers.count)
    return wrong(application,
                 fmt::format("server_bytes has {} sizes and there are {} servers; write one for each, 0 for none",
                             given, scenario.servers.count));
  if (application.stripe_count > 0 || application.first_server)
    return wrong(application, "server_bytes says what each server gets; remove stripe_count and first_server");
  Bytes sum{};
  for (const Bytes bytes : application.server_bytes) sum += bytes;
  if (sum != application.size)
    return wrong(application,
                 fmt::format("server_bytes adds up to {} and size is {}", format(sum), format(application.size)));
  return {};
}

Result<void> check_application(const Scenario& scenario, const Application& application) {
  if (application.ranks == 0 || application.ranks > kLargestIndex)
    return wrong(application, "ranks must be 1 to 1048576");
  if (application.ranks_per_node == 0) return wrong(application, "ranks_per_node must be at least 1");
  if (application.iterations == 0 || application.iterations > kLargestIndex)
    return wrong(application, "iterations must be 1 to 1048576");
  if (application.operations == 0) return wrong(application, "operations must be at least 1");
  if (application.outstanding == 0) return wrong(application, "outstanding must be at least 1");
  if (application.size == Bytes{}) return wrong(application, "size must be at least 1 byte");
  if (application.stripe_size == Bytes{}) return wrong(application, "stripe_size must be at least 1 byte");
  if (application.flow > Bytes{} && application.largest_request > Bytes{})
    return wrong(application, "flow joins requests and largest_request cuts them; set only one of the two");
  if (auto valid = check_server_bytes(scenario, application); !valid) return valid;
  if (application.stripe_count > scenario.servers.count)
    return wrong(application, fmt::format("stripe_count is {}; it must not exceed the number of servers, {}",
                                          application.stripe_count, scenario.servers.count));
  if (application.first_server && *application.first_server >= scenario.servers.count)
    return wrong(application, fmt::format("first_server is {}; servers are 0 to {}", *application.first_server,
                                          scenario.servers.count - 1));
  if (needs_block(application.pattern) &&
      (application.block == Bytes{} || application.size.count() % application.block.count() != 0))
    return wrong(application,
                 fmt::format("its pattern needs a block size that divides the size, {}", format(application.size)));
  // They are one message, which a node with a shorter queue refuses whenever it is sent.
  const std::uint64_t requests = requests_on_a_server(scenario, application);
  if (scenario.forwarding.count == 0 && requests > scenario.servers.max_waiting)
    return wrong(application, fmt::format("one operation is {} requests on a server, where at most {} may wait "
                                          "(servers.max_waiting); use a larger stripe_size or a smaller size",
                                          requests, scenario.servers.max_waiting));
  return {};
}

}  // namespace

Result<void> check(const Scenario& scenario) {
  if (scenario.servers.count == 0) return fail(ErrorCode::kInvalid, "servers.count must be at least 1");
  if (scenario.servers.depth == 0) return fail(ErrorCode::kInvalid, "servers.depth must be at least 1");
  constexpr unsigned kMostForwarding = 1 << 16;
  if (scenario.forwarding.count > 0 && std::max(scenario.forwarding.count, scenario.servers.count) > kMostForwarding)
    return fail(ErrorCode::kInvalid,
                "a scenario with forwarding nodes can have at most 65536 of them and at most 65536 servers");
  if (scenario.forwarding.count > 0 && scenario.forwarding.depth == 0)
    return fail(ErrorCode::kInvalid, "forwarding.depth must be at least 1");
  if (scenario.applications.empty()) return fail(ErrorCode::kInvalid, "a scenario needs at least one application");
  if (scenario.applications.size() > kLargestIndex)
    return fail(ErrorCode::kInvalid, "there are more than 1048576 applications");
  for (const Application& application : scenario.applications)
    if (auto valid = check_application(scenario, application); !valid) return valid;
  for (const ScenarioFault& fault : scenario.faults) {
    if (fault.server && *fault.server >= scenario.servers.count)
      return fail(ErrorCode::kInvalid, fmt::format("a fault names server {}; servers are 0 to {}", *fault.server,
                                                   scenario.servers.count - 1));
    if (fault.application && *fault.application >= scenario.applications.size())
      return fail(ErrorCode::kInvalid, fmt::format("a fault names application {}; there are {}", *fault.application,
                                                   scenario.applications.size()));
    if (fault.kind == ScenarioFault::Kind::kKill && !fault.application)
      return fail(ErrorCode::kInvalid, "a fault of kind kill needs an application");
    if (fault.until && *fault.until <= fault.at)
      return fail(ErrorCode::kInvalid, "`until` of a fault must be after `at`");
  }
  return {};
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "gate/live_coordinator.h"

#include <fmt/format.h>

#include <cstdlib>

#include "gate/live_address.h"
#include "job/live.h"

namespace tutti::gate {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

// "data-size=1MB,max-count=4"
Result<BackoffOptions> backoff_variable(const char* name) {
  OptionTexts given;
  std::string rest = variable(name).value_or("");
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string item = rest.substr(0, comma);
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos)
      return fail(ErrorCode::kInvalid, fmt::format("{}: '{}' is not of the form option=value", name, item));
    given[item.substr(0, equals)] = item.substr(equals + 1);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  auto values = OptionValues::check(name, BackoffOptions::table(), given);
  if (!values) return Failure(values.error());
  return BackoffOptions::from(*values);
}

Result<ProbeWhen> when_variable(const char* name) {
  const std::string text = variable(name).value_or("fallback");
  if (text == "never") return ProbeWhen::kNever;
  if (text == "fallback") return ProbeWhen::kFallback;
  if (text == "always") return ProbeWhen::kAlways;
  return fail(ErrorCode::kInvalid, fmt::format("{}: '{}' is not one of: never, fallback, always", name, text));
}

}  // namespace

Result<CoordinatorOptions> CoordinatorOptions::from_environment() {
  CoordinatorOptions options;
  options.client.address = default_address();
  const auto identity = job::identify_process({});
  if (!identity) return Failure(identity.error());
  options.client.set_job(*identity);
  if (auto read = options.client.read_environment(); !read) return Failure(read.error());
  options.prober.directory = variable("TUTTI_PROBE").value_or("");
  options.prober.state_directory = default_state_directory();
  const auto backoff = backoff_variable("TUTTI_PROBE_OPTIONS");
  if (!backoff) return Failure(backoff.error());
  options.prober.backoff = *backoff;
  const auto when = when_variable("TUTTI_PROBE_WHEN");
  if (!when) return Failure(when.error());
  options.probe_when = *when;
  return options;
}

Result<std::unique_ptr<Coordinator>> Coordinator::create(CoordinatorOptions options) {
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(options)));
  if (coordinator->options_.client.address == "off") return coordinator;
  auto client = LiveGateClient::create(coordinator->options_.client);
  if (!client) return Failure(client.error());
  coordinator->client_ = std::move(*client);
  return coordinator;
}

TurnResult Coordinator::begin(const TargetList& targets, Bytes bytes) {
  TurnResult turn;
  if (client_) turn.outcome = client_->begin(targets, bytes);
  const bool wanted = options_.probe_when == ProbeWhen::kAlways ||
                      (options_.probe_when == ProbeWhen::kFallback && turn.outcome != GateOutcome::kGranted);
  if (!wanted || options_.prober.directory.empty()) return turn;
  ProberOptions prober = options_.prober;
  prober.targets.clear();
  for (const TargetRange& range : targets.ranges)
    for (std::uint32_t target = range.first; target <= range.last && target < kMaxTargets; ++target)
      prober.targets.push_back(target);
  auto report = probe(prober);
  if (report)
    turn.probe = *report;
  else if (options_.client.say)
    options_.client.say(fmt::format("cannot probe: {}; proceeding", report.error().message));
  return turn;
}

void Coordinator::end() {
  if (client_) client_->end();
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "gate/coordinator.h"

#include <errno.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/units.h"
#include "gate/sockets.h"

namespace tutti::gate {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

Result<Duration> duration_variable(const char* name, Duration fallback) {
  const auto text = variable(name);
  if (!text) return fallback;
  auto value = parse_duration(*text);
  if (!value) return fail(ErrorCode::kInvalid, fmt::format("{}: {}", name, value.error().message));
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

std::string job_name() {
  for (const char* name : {"TUTTI_JOB", "SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME", "TUTTI_APP"})
    if (const auto value = variable(name)) return *value;
  return program_invocation_short_name;
}

Result<CoordinatorOptions> CoordinatorOptions::from_environment() {
  CoordinatorOptions options;
  options.client.address = default_gate_address();
  options.client.job = job_name();
  const auto answer = duration_variable("TUTTI_GATE_ANSWER", options.client.answer_bound);
  if (!answer) return Failure(answer.error());
  options.client.answer_bound = *answer;
  const auto wait = duration_variable("TUTTI_GATE_MAX_WAIT", options.client.max_wait);
  if (!wait) return Failure(wait.error());
  options.client.max_wait = *wait;
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
  auto client = Client::create(coordinator->options_.client);
  if (!client) return Failure(client.error());
  coordinator->client_ = std::move(*client);
  return coordinator;
}

Turn Coordinator::begin(const TargetList& targets, Bytes bytes) {
  Turn turn;
  if (client_) turn.outcome = client_->begin(targets, bytes);
  const bool wanted = options_.probe_when == ProbeWhen::kAlways ||
                      (options_.probe_when == ProbeWhen::kFallback && turn.outcome != Outcome::kGranted);
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
    options_.client.say(fmt::format("cannot probe: {}; going ahead", report.error().message));
  return turn;
}

void Coordinator::end() {
  if (client_) client_->end();
}

}  // namespace tutti::gate

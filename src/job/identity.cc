// SPDX-License-Identifier: Apache-2.0
#include "job/identity.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "sched/probing_table.h"

namespace tutti::job {
namespace {

constexpr std::size_t kLongestName = 200;

struct Variable {
  const char* name;
  std::string_view value;
};

std::optional<Variable> first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return Variable{name, value};
  }
  return std::nullopt;
}

template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "4711", "4711.server", "4711[12]"; nothing for other text.
std::optional<std::uint64_t> job_number(std::string_view text) {
  return whole_number<std::uint64_t>(text.substr(0, text.find_first_of(".[")));
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

Result<std::uint32_t> number_in(const Variable& variable, std::uint32_t low) {
  const auto number = whole_number<std::uint32_t>(variable.value);
  if (number && *number >= low) return *number;
  return fail(ErrorCode::kInvalid, fmt::format("{}: '{}' is not a number from {} to {}", variable.name, variable.value,
                                               low, std::numeric_limits<std::uint32_t>::max()));
}

OrderId draw(std::uint64_t number, const OrderRange& range) {
  const std::uint64_t count = std::uint64_t{range.high} - range.low + 1;
  return static_cast<OrderId>(range.low + mix(number + 0x9e3779b97f4a7c15) % count);
}

}  // namespace

Result<Identity> identify(const Environment& environment, const IdentityOptions& options) {
  Identity identity;
  if (options.order_ids.high < options.order_ids.low)
    return fail(ErrorCode::kInvalid,
                fmt::format("order ids {}-{}: the second number must not be smaller than the first",
                            options.order_ids.low, options.order_ids.high));
  const bool alone = options.application.has_value();  // the environment may describe another application
  identity.number = options.session;
  if (alone) {
    identity.number = *options.application;
    identity.numbered = true;
  } else if (const auto variable = first_set(
                 environment, {"TUTTI_APP", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"})) {
    const auto number = job_number(variable->value);
    identity.number = number ? *number : hash_of(variable->value) % 32768;
    identity.numbered = true;
  }
  constexpr std::uint64_t kLargest = std::numeric_limits<ApplicationId>::max();
  identity.application =
      static_cast<ApplicationId>(identity.number <= kLargest ? identity.number : mix(identity.number));

  identity.order = options.order.value_or(draw(identity.number, options.order_ids));
  if (const auto variable = first_set(environment, {"TUTTI_ORDER"}); variable && !alone && !options.order) {
    const auto order = number_in(*variable, 0);
    if (!order) return Failure(order.error());
    identity.order = *order;
  }
  if (options.processes == 0U) return fail(ErrorCode::kInvalid, "the number of processes is 0; it must be at least 1");
  identity.processes = options.processes.value_or(1);
  const auto started =
      first_set(environment, {"TUTTI_PROCESSES", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (started && !alone && !options.processes) {
    const auto processes = number_in(*started, 1);
    if (!processes) return Failure(processes.error());
    identity.processes = *processes;
  }
  identity.name = options.name.empty() ? job_name(environment, options.program) : options.name.substr(0, kLongestName);
  return identity;
}

std::string job_name(const Environment& environment, std::string_view program) {
  const auto named = first_set(environment, {"TUTTI_JOB", "SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME", "JOB_NAME"});
  if (named) return std::string(named->value.substr(0, kLongestName));
  const auto application = first_set(environment, {"TUTTI_APP"});
  if (application && !job_number(application->value)) program = application->value;
  return std::string(program.substr(0, kLongestName));
}

Result<OrderRange> parse_order_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto low = whole_number<OrderId>(text.substr(0, dash));
  const auto high = dash == text.npos ? low : whole_number<OrderId>(text.substr(dash + 1));
  if (low && high && *low <= *high) return OrderRange{*low, *high};
  return fail(
      ErrorCode::kInvalid,
      fmt::format("'{}' is not a range of order ids; write \"LOW-HIGH\", such as \"0-32767\", or one number", text));
}

}  // namespace tutti::job

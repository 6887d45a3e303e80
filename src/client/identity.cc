// SPDX-License-Identifier: Apache-2.0
#include "client/identity.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace tutti {
namespace {

ApplicationId from_text(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = end == text.data() + text.size() || *end == '.' || *end == '[';
  if (error == std::errc{} && whole) return static_cast<ApplicationId>(number);
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return static_cast<ApplicationId>(hash % 32768);
}

}  // namespace

ApplicationId application_from(const Environment& environment) {
  for (const char* name : {"TUTTI_APP", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"}) {
    if (const char* value = environment(name); value != nullptr && *value != '\0') return from_text(value);
  }
  return static_cast<ApplicationId>(::getsid(0));
}

std::uint32_t processes_from(const Environment& environment) {
  for (const char* name : {"TUTTI_PROCESSES", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* value = environment(name);
    if (value == nullptr) continue;
    const std::string_view text = value;
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size() && number > 0) return number;
  }
  return 1;
}

std::string job_from(const Environment& environment) {
  for (const char* name : {"TUTTI_JOB", "SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME", "JOB_NAME"}) {
    if (const char* value = environment(name); value != nullptr && *value != '\0') {
      return std::string(value).substr(0, 200);
    }
  }
  return std::string(program_invocation_short_name).substr(0, 200);
}

}  // namespace tutti

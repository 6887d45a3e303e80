// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/hints.h"

#include <cstdlib>

namespace tutti::mpi {
namespace {

constexpr const char* kConfiguration = "/etc/tutti/mpi.toml";

Lookup hints_of(MPI_Info info) {
  if (info == MPI_INFO_NULL) return {};
  return [info](const char* key) -> std::optional<std::string> {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    if (!found) return std::nullopt;
    return value;
  };
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return value;
}

}  // namespace

SettingsMessage read_all_settings(MPI_Info info) {
  Sources sources{hints_of(info), variable, {}};
  auto configuration = read_configuration(variable("TUTTI_CONFIG").value_or(kConfiguration));
  if (configuration) sources.configuration = *configuration;
  const Settings defaults;
  auto read = read_settings(sources, defaults);
  std::string problem = configuration ? "" : configuration.error().message;
  if (read.error) problem = read.error->message;
  if (problem.empty()) return {MPI_SUCCESS, read.settings};
  if (read.error && read.error->where == SettingsError::Where::kHint) {
    Process::current().say_once(problem);
    return {MPI_ERR_INFO_VALUE, defaults};
  }
  Process::current().say_once(problem + "; collective calls are left to the MPI library");
  read.settings.rearrange = false;
  read.settings.turn = TurnAt::kNever;
  return {MPI_SUCCESS, read.settings};
}

SettingsMessage change_settings(const OpenFile& file, MPI_Info info) {
  SettingsMessage message{MPI_SUCCESS, file.settings};
  if (info == MPI_INFO_NULL) return message;
  const auto read = read_settings({hints_of(info), {}, {}}, file.settings);
  if (read.error) {
    Process::current().say_once(read.error->message);
    message.error = MPI_ERR_INFO_VALUE;
    return message;
  }
  message.settings = read.settings;
  message.settings.turn = file.settings.turn;  // these apply when a file is opened
  message.settings.application = file.settings.application;
  message.settings.route = file.settings.route;
  message.settings.plan.device.network_bandwidth = file.settings.plan.device.network_bandwidth;
  message.settings.plan.device.message = file.settings.plan.device.message;
  return message;
}

void adopt_settings(OpenFile& file, const Settings& settings) {
  // The estimates are wrong now.
  if (settings.plan.device.bandwidth != file.settings.plan.device.bandwidth) file.choices = {};
  file.settings = settings;
}

}  // namespace tutti::mpi

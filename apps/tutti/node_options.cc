// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/units.h"
#include "trace/live_files.h"

namespace tutti::cli {
namespace {

constexpr Bytes kLeastBuffers(1 << 20);

// "hdd" and "ssd" are short for the presets of the papers' devices.
std::string preset_of(const std::string& device) {
  if (device == "hdd") return "hdd-7200";
  if (device == "ssd") return "ssd-2010";
  return device;
}

std::string class_of(const DeviceFigures& figures) {
  return std::holds_alternative<HddFigures>(figures) ? "hdd" : "ssd";
}

Result<void> check_buffers(Bytes buffers) {
  const Bytes memory(static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  if (buffers >= kLeastBuffers && buffers <= memory) return {};
  return fail(ErrorCode::kInvalid,
              fmt::format("buffers of {} are not possible: from {} to the memory of this machine, {}", format(buffers),
                          format(kLeastBuffers), format(memory)));
}

}  // namespace

void define_settings(CommandLine& line, NodeSettings& settings) {
  line.option("--policy", settings.policy, "Scheduling policy, see 'tutti policies' (default: concert)");
  line.option("-o,--option", settings.policy_options, "Option of the policy; may be repeated");
  line.option("--engine", settings.engine,
              "posix, or null: discards data, to measure everything except storage (default: posix)");
  line.flag("--direct", settings.direct, "Bypass the page cache (O_DIRECT) for aligned requests");
  line.option("--device", settings.device,
              "Add the service times of a modelled device: hdd, ssd, hdd-7200, ssd-2010, ssd-sata-2011, nvme (default: "
              "none)");
  line.option("--device-class", settings.device_class,
              "hdd, ssd, nvme or null: sets the default of --depth and of the window policy's width (default: from "
              "--device, else ssd)");
  line.option("--depth", settings.depth,
              "Maximum number of operations in flight at the engine (default: from --device-class)")
      .between(1, kMostDepth);
  line.option("--buffers", settings.buffers,
              "Memory limit for file data in transit, half for reads and half for writes (default: 128MiB)")
      .at_least(kLeastBuffers);
  line.option("--trace", settings.trace,
              "Record every request in files NODE.NUMBER.trace in this directory, for 'tutti trace' (default: none)");
  line.option("--trace-limit", settings.trace_limit,
              "Size of all trace files of a node together; the oldest are removed (default: 256MiB)")
      .at_least(trace::kLeastLimit);
  line.option("--predict", settings.predict,
              "Traces of earlier runs, a file or a directory, for concert and policies with -o prediction=traces "
              "(default: none)");
}

NodeSettings complete(NodeSettings given, const NodeSettings& defaults) {
  if (given.policy.empty()) {
    given.policy = defaults.policy;
    given.policy_options.insert(defaults.policy_options.begin(), defaults.policy_options.end());
  }
  for (auto member :
       {&NodeSettings::directory, &NodeSettings::engine, &NodeSettings::device, &NodeSettings::device_class,
        &NodeSettings::job_check, &NodeSettings::job_command, &NodeSettings::trace, &NodeSettings::predict})
    if ((given.*member).empty()) given.*member = defaults.*member;
  given.direct = given.direct || defaults.direct;
  if (given.depth == 0) given.depth = defaults.depth;
  if (given.buffers == Bytes{}) given.buffers = defaults.buffers;
  if (given.trace_limit == Bytes{}) given.trace_limit = defaults.trace_limit;
  return given;
}

Result<NodeOptions> to_options(const NodeSettings& settings) {
  NodeOptions options;
  options.directory = settings.directory;
  if (!settings.policy.empty()) options.policy = settings.policy;
  options.policy_options = settings.policy_options;
  if (!settings.engine.empty()) options.engine = settings.engine;
  options.direct = settings.direct;
  options.depth = settings.depth;
  if (!settings.device.empty()) {
    auto figures = device_preset(preset_of(settings.device));
    if (!figures) return Failure(figures.error());
    options.device_class = class_of(*figures);
    options.model = ModelledOptions{.figures = std::move(*figures)};
  }
  if (!settings.device_class.empty()) options.device_class = settings.device_class;
  if (!settings.job_check.empty()) options.job_check = settings.job_check;
  options.job_command = settings.job_command;
  options.trace_directory = settings.trace;
  options.predict = settings.predict;
  if (settings.trace_limit != Bytes{}) options.trace_limit = settings.trace_limit;
  if (settings.buffers == Bytes{}) return options;
  if (auto possible = check_buffers(settings.buffers); !possible) return Failure(possible.error());
  options.read_buffers = options.write_buffers = settings.buffers / 2;
  return options;
}

}  // namespace tutti::cli

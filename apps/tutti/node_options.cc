// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

#include <fmt/format.h>

#include "base/units.h"

namespace tutti::cli {
namespace {

// "hdd" is short for the preset that has the papers' disk, "ssd" for their flash.
std::string preset_of(const std::string& device) {
  if (device == "hdd") return "hdd-7200";
  if (device == "ssd") return "ssd-2010";
  return device;
}

std::string class_of(const DeviceFigures& figures) {
  return std::holds_alternative<HddFigures>(figures) ? "hdd" : "ssd";
}

}  // namespace

void NodeSettings::define(CLI::App& app) {
  app.add_option("--policy", policy, "How requests are ordered (tutti policies)")->capture_default_str();
  app.add_option("-o,--option", policy_options, "An option of the policy, as name=value; may be repeated");
  app.add_option("--engine", engine, "posix, or null to measure everything but storage")->capture_default_str();
  app.add_flag("--direct", direct, "Around the page cache (O_DIRECT)");
  app.add_option("--device", device, "Take the time of a device: hdd, ssd, hdd-7200, ssd-2010, nvme");
  app.add_option("--device-class", device_class, "hdd, ssd, nvme or null: decides how much is in flight at once");
  app.add_option("--depth", depth, "Operations in flight at the engine; 0: by the device's class");
  app.add_option("--buffers", buffers, "Memory for data on its way, half for reads, half for writes")
      ->capture_default_str();
}

Result<NodeOptions> NodeSettings::to_options() const {
  NodeOptions options;
  options.policy = policy;
  auto parsed = parse_policy_options(policy_options);
  if (!parsed) return Failure(parsed.error());
  options.policy_options = std::move(*parsed);
  options.engine = engine;
  options.direct = direct;
  options.depth = depth;
  if (!device.empty()) {
    auto figures = device_preset(preset_of(device));
    if (!figures) return Failure(figures.error());
    options.device_class = class_of(*figures);
    options.model = ModelledOptions{.figures = std::move(*figures)};
  }
  if (!device_class.empty()) options.device_class = device_class;
  const auto total = parse_bytes(buffers);
  if (!total) return Failure(total.error());
  options.read_buffers = options.write_buffers = *total / 2;
  return options;
}

std::vector<std::string> NodeSettings::to_arguments() const {
  std::vector<std::string> list{"--policy", policy, "--engine", engine, "--buffers", buffers};
  for (const std::string& option : policy_options) list.insert(list.end(), {"-o", option});
  if (direct) list.emplace_back("--direct");
  if (!device.empty()) list.insert(list.end(), {"--device", device});
  if (!device_class.empty()) list.insert(list.end(), {"--device-class", device_class});
  if (depth != 0) list.insert(list.end(), {"--depth", std::to_string(depth)});
  return list;
}

Result<PolicyOptions> parse_policy_options(const std::vector<std::string>& assignments) {
  PolicyOptions options;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorCode::kInvalid, fmt::format("\"{}\": an option is written name=value", assignment));
    options[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return options;
}

}  // namespace tutti::cli

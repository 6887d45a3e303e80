// SPDX-License-Identifier: Apache-2.0
#include "node_options.h"

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

void NodeSettings::define(CommandLine& line) {
  line.option("--policy", policy, "How requests are ordered (tutti policies)");
  line.option("-o,--option", policy_options, "An option of the policy; may be repeated");
  line.option("--engine", engine, "posix, or null to measure everything but storage");
  line.flag("--direct", direct, "Around the page cache (O_DIRECT)");
  line.option("--device", device, "Take the time of a device: hdd, ssd, hdd-7200, ssd-2010, nvme");
  line.option("--device-class", device_class, "hdd, ssd, nvme or null: decides how much is in flight at once");
  line.option("--depth", depth, "Operations in flight at the engine; 0: by the device's class");
  line.option("--buffers", buffers, "Memory for data on its way, half for reads, half for writes");
}

Result<NodeOptions> NodeSettings::to_options() const {
  NodeOptions options;
  options.policy = policy;
  options.policy_options = policy_options;
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
  options.read_buffers = options.write_buffers = buffers / 2;
  return options;
}

std::vector<std::string> NodeSettings::to_arguments() const {
  std::vector<std::string> list{"--policy", policy, "--engine", engine, "--buffers", std::to_string(buffers.count())};
  for (const auto& [name, value] : policy_options) list.insert(list.end(), {"-o", name + "=" + value});
  if (direct) list.emplace_back("--direct");
  if (!device.empty()) list.insert(list.end(), {"--device", device});
  if (!device_class.empty()) list.insert(list.end(), {"--device-class", device_class});
  if (depth != 0) list.insert(list.end(), {"--depth", std::to_string(depth)});
  return list;
}

}  // namespace tutti::cli

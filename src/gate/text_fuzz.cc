// SPDX-License-Identifier: Apache-2.0
// libFuzzer: parses any text as each kind of text that files, options and users give: cluster.toml and scenarios
// (Config), JSON, units, targets, and the state file of probes.
#include <cstdlib>
#include <string_view>

#include "base/config.h"
#include "base/json.h"
#include "base/units.h"
#include "gate/calibration.h"
#include "gate/targets.h"

namespace tutti {
namespace {

// Reads every key as each type, as readers of cluster.toml and of scenarios do.
void read(Section section, int depth) {
  for (const std::string& key : section.keys()) {
    (void)section.text(key, "");
    (void)section.choice(key, "a", {"a", "b"});
    (void)section.integer(key, 0, {0, 100});
    (void)section.number(key, 0, {0, 100});
    (void)section.boolean(key, false);
    (void)section.duration(key, {});
    (void)section.bytes(key, {});
    (void)section.scalar(key, "");
    (void)section.texts(key);
    if (depth == 0) continue;
    read(section.section(key), depth - 1);
    for (const Section& each : section.sections(key)) read(each, depth - 1);
  }
}

void parse_config(std::string_view text) {
  const auto line = text.find('\n');
  auto config = Config::parse(line == text.npos ? text : text.substr(line + 1), "fuzz");
  if (!config) return;
  if (line != text.npos) (void)config->set(text.substr(0, line));
  read(config->root(), 3);
  (void)config->finish();
}

// What was accepted is written and parsed again with the same result.
void parse_state(std::string_view text) {
  const std::string once = gate::Calibration::parse(text).text();
  if (gate::Calibration::parse(once).text() != once) std::abort();
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      parse_config(text);
      break;
    case 1:
      (void)parse_json(text);
      break;
    case 2:
      (void)parse_duration(text);
      (void)parse_bytes(text);
      (void)gate::TargetList::parse(text);
      break;
    default:
      parse_state(text);
  }
  return 0;
}

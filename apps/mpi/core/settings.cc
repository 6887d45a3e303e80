// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/settings.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/config.h"
#include "base/units.h"

namespace tutti::mpi {
namespace {

Failure wrong() {
  return fail(ErrorCode::kInvalid, "");
}

struct Range {
  std::uint64_t low = 0, high = 0;
};

Result<std::uint64_t> integer(std::string_view text, Range range) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < range.low || value > range.high)
    return wrong();
  return value;
}

template <typename Value>
Result<void> set_integer(Value& into, std::string_view text, Range range) {
  const auto value = integer(text, range);
  if (!value) return Failure(value.error());
  into = static_cast<Value>(*value);
  return {};
}

Result<void> set_bytes(Bytes& into, std::string_view text, Range range) {
  const auto value = parse_bytes(text);
  if (!value || value->count() < range.low || value->count() > range.high) return wrong();
  into = *value;
  return {};
}

Result<void> set_duration(Duration& into, std::string_view text, Duration low, Duration high) {
  const auto value = parse_duration(text);
  if (!value || *value < low || *value > high) return wrong();
  into = *value;
  return {};
}

Result<void> apply_plan(Settings& settings, std::string_view value) {
  settings.rearrange = value != "off";
  if (value == "off") return {};
  const auto kind = collective::parse_plan_kind(value);
  if (!kind) return wrong();
  settings.plan.kind = *kind;
  return {};
}

Result<void> apply_read_form(Settings& settings, std::string_view value) {
  if (value != "exchange" && value != "direct") return wrong();
  settings.plan.read_form = value == "direct" ? collective::ReadForm::kDirect : collective::ReadForm::kExchange;
  return {};
}

Result<void> apply_device(Settings& settings, std::string_view value) {
  if (value != "disk" && value != "flash") return wrong();
  settings.device_set = true;
  settings.plan.device = value == "disk" ? collective::DeviceProfile::disk() : collective::DeviceProfile::flash();
  return {};
}

Result<void> apply_turn(Settings& settings, std::string_view value) {
  if (value == "no")
    settings.turn = TurnAt::kNever;
  else if (value == "collective" || value == "yes")
    settings.turn = TurnAt::kCollective;
  else if (value == "open")
    settings.turn = TurnAt::kOpen;
  else
    return wrong();
  return {};
}

// Lustre programs pass 0 for the default of the directory, and -1 for all targets.
Result<void> apply_stripe_count(Settings& settings, std::string_view value) {
  if (value == "-1") return {};
  return set_integer(settings.stripe_count, value, {0, 65536});
}

Result<void> apply_route(Settings& settings, std::string_view value) {
  if (value != "direct" && value != "nodes") return wrong();
  settings.route = value == "nodes" ? Route::kNodes : Route::kDirect;
  return {};
}

Result<void> set_text(ShortText& into, std::string_view value) {
  if (value.size() > ShortText::kMost) return wrong();
  into = ShortText(value);
  return {};
}

Result<void> apply_report(Settings& settings, std::string_view value) {
  if (value != "0" && value != "1") return wrong();
  settings.report = value == "1";
  return {};
}

constexpr Range kBuffer{std::uint64_t{64} << 10, std::uint64_t{1} << 30};

}  // namespace

const std::vector<SettingInfo>& setting_table() {
  using std::chrono::seconds;
  static const std::vector<SettingInfo> table = {
      {"plan", "tutti_plan", "TUTTI_PLAN", "auto, resonant, timed, paper, two-phase, independent or off", apply_plan},
      {"agents_per_target", "tutti_agents_per_target", "TUTTI_AGENTS_PER_TARGET", "0 to 1024",
       [](Settings& s, std::string_view v) {
         return set_integer(s.plan.agents_per_target, v, {0, 1024});
       }},
      {"list_io", "tutti_list_io", "TUTTI_LIST_IO", "1 to 1024",
       [](Settings& s, std::string_view v) {
         return set_integer(s.plan.list_io, v, {1, 1024});
       }},
      {"aggregators", "tutti_aggregators", "TUTTI_AGGREGATORS", "0 to 1048576",
       [](Settings& s, std::string_view v) {
         return set_integer(s.plan.aggregators, v, {0, 1 << 20});
       }},
      {"buffer", "tutti_buffer", "TUTTI_BUFFER", "64KiB to 1GiB",
       [](Settings& s, std::string_view v) { return set_bytes(s.plan.buffer, v, kBuffer); }},
      {"read_form", "tutti_read_form", "TUTTI_READ_FORM", "exchange or direct", apply_read_form},
      {"device", "tutti_device", "TUTTI_DEVICE", "disk or flash", apply_device},
      {"network", "tutti_network", "TUTTI_NETWORK", "1MB to 1TB",
       [](Settings& s, std::string_view v) {
         return set_bytes(s.network, v, {1'000'000, 1'000'000'000'000});
       }},
      {"stripe_size", "striping_unit", "TUTTI_STRIPE_SIZE", "0 to 4GiB",
       [](Settings& s, std::string_view v) {
         return set_bytes(s.stripe_size, v, {0, std::uint64_t{4} << 30});
       }},
      {"stripe_count", "striping_factor", "TUTTI_STRIPE_COUNT", "-1 to 65536", apply_stripe_count},
      {"turn", "tutti_turn", "TUTTI_TURN", "no, collective or open", apply_turn},
      {"app", "tutti_app", nullptr, "0 to 4294967295",
       [](Settings& s, std::string_view v) -> Result<void> {
         std::uint64_t number = 0;
         if (auto set = set_integer(number, v, {0, 0xffffffff}); !set) return set;
         s.application = number;
         return {};
       }},
      {"phase_gap", "tutti_phase_gap", "TUTTI_PHASE_GAP", "1ms to 1h",
       [](Settings& s, std::string_view v) {
         return set_duration(s.gap, v, std::chrono::milliseconds(1), std::chrono::hours(1));
       }},
      {"route", "tutti_route", "TUTTI_ROUTE", "direct or nodes", apply_route},
      {"cluster", "tutti_cluster", "TUTTI_CLUSTER", "a path of at most 1023 bytes",
       [](Settings& s, std::string_view v) { return set_text(s.cluster, v); }},
      {"directory", "tutti_directory", "TUTTI_DIRECTORY", "a path of at most 1023 bytes",
       [](Settings& s, std::string_view v) { return set_text(s.directory, v); }},
      {"give_up", "tutti_give_up", "TUTTI_GIVE_UP", "1s to 24h",
       [](Settings& s, std::string_view v) {
         return set_duration(s.give_up, v, std::chrono::seconds(1), std::chrono::hours(24));
       }},
      {"report", nullptr, "TUTTI_REPORT", "0 or 1", apply_report},
  };
  return table;
}

ReadSettings read_settings(const Sources& sources, const Settings& before) {
  ReadSettings read{before, std::nullopt};
  const auto apply = [&read](const SettingInfo& info, const Lookup& lookup, const char* key, const char* what,
                             SettingsError::Where where) {
    if (!lookup || !key) return;
    const auto value = lookup(key);
    if (!value || value->empty() || info.apply(read.settings, *value)) return;
    if (!read.error)
      read.error = {where, fmt::format("{} {}: '{}' is not valid; accepted: {}", what, key, *value, info.accepted)};
  };
  for (const SettingInfo& info : setting_table()) {
    apply(info, sources.configuration, info.name, "configuration file:", SettingsError::Where::kSite);
    apply(info, sources.environment, info.variable, "environment variable", SettingsError::Where::kSite);
    apply(info, sources.hints, info.hint, "hint", SettingsError::Where::kHint);
  }
  return read;
}

Result<Lookup> read_configuration(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return Lookup{};
  auto config = Config::load(path);
  if (!config) return Failure(config.error());
  auto values = std::make_shared<std::map<std::string, std::string>>();
  Section section = config->section("mpi");
  for (const SettingInfo& info : setting_table())
    if (section.has(info.name)) (*values)[info.name] = section.scalar(info.name, "");
  if (auto done = config->finish(); !done) return Failure(done.error());
  return Lookup([values](const char* key) -> std::optional<std::string> {
    const auto found = values->find(key);
    if (found == values->end()) return std::nullopt;
    return found->second;
  });
}

std::string Settings::encode() const {
  static_assert(std::is_trivially_copyable_v<Settings>);
  return {reinterpret_cast<const char*>(this), sizeof *this};
}

Settings Settings::decode(std::string_view bytes) {
  Settings settings;
  if (bytes.size() == sizeof settings) std::memcpy(&settings, bytes.data(), sizeof settings);
  return settings;
}

namespace {

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

// Drivers of virtual machines report that their disks rotate, whatever is below them.
bool is_virtual(const std::filesystem::path& disk) {
  std::error_code ignored;
  const std::string where = std::filesystem::canonical(disk, ignored).string();
  for (const char* driver : {"/virtio", "/vbd-", "/vmbus", "/xen"})
    if (where.find(driver) != std::string::npos) return true;
  const std::string model = first_line(disk / "device/vendor") + " " + first_line(disk / "device/model");
  for (const char* name : {"QEMU", "VBOX", "VMware", "Virtual", "Msft", "Google"})
    if (model.find(name) != std::string::npos) return true;
  return false;
}

}  // namespace

collective::DeviceProfile assume_device(const Layout& layout, std::uint64_t device, const std::string& devices) {
  if (layout.source != "default") return collective::DeviceProfile::disk();
  std::error_code ignored;
  // Of a disk, or of the disk of a partition.
  const auto link = std::filesystem::path(devices) / fmt::format("{}:{}", major(device), minor(device));
  std::filesystem::path disk = std::filesystem::canonical(link, ignored);
  if (std::filesystem::exists(disk / "partition", ignored)) disk = disk.parent_path();
  if (first_line(disk / "queue/rotational") == "1" && !is_virtual(disk)) return collective::DeviceProfile::disk();
  return collective::DeviceProfile::flash();
}

void assume_network(collective::DeviceProfile& device, const Settings& settings, bool one_machine) {
  if (settings.network > Bytes{}) {
    device.network_bandwidth = static_cast<double>(settings.network.count());
  } else if (one_machine) {
    device.network_bandwidth = 4e9;  // a copy through shared memory
    device.message = std::chrono::microseconds(20);
  }
}

Layout choose_layout(const std::optional<Layout>& discovered, const Settings& settings) {
  if (discovered) return *discovered;
  const Bytes stripe = settings.stripe_size > Bytes{} ? settings.stripe_size : Bytes(std::uint64_t{1} << 20);
  Layout layout = Layout::round_robin(stripe, std::max(settings.stripe_count, 1u));
  layout.source = settings.stripe_count > 0 ? "settings" : "default";
  return layout;
}

}  // namespace tutti::mpi

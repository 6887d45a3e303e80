// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace tutti {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kDurations = {Unit{"ns", 1.0},  Unit{"us", 1e3},  Unit{"ms", 1e6},
                                   Unit{"s", 1e9},   Unit{"min", 6e10}, Unit{"h", 3.6e12}};
constexpr std::array kSizes = {
    Unit{"", 1.0},           Unit{"B", 1.0},          Unit{"K", 1e3},           Unit{"KB", 1e3},
    Unit{"M", 1e6},          Unit{"MB", 1e6},         Unit{"G", 1e9},           Unit{"GB", 1e9},
    Unit{"T", 1e12},         Unit{"TB", 1e12},        Unit{"KiB", 1024.0},      Unit{"MiB", 1048576.0},
    Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0}};

// Splits "1.5 MiB" into 1.5 and "MiB".
bool split(std::string_view text, double& number, std::string_view& unit) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return false;
  unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return true;
}

template <std::size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (split(text, number, name)) {
    if (number == 0 && name.empty()) return Duration::zero();
    const Unit* unit = find_unit(kDurations, name);
    if (unit && number * unit->factor < 9.2e18) return Duration(std::llround(number * unit->factor));
  }
  return fail(ErrorCode::kInvalid, fmt::format("'{}' is not a duration; write e.g. 250ms, 1.5s, 40us, 2min", text));
}

Result<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (split(text, number, name)) {
    const Unit* unit = find_unit(kSizes, name);
    if (unit && number * unit->factor < 9.2e18) return Bytes(static_cast<std::uint64_t>(std::llround(number * unit->factor)));
  }
  return fail(ErrorCode::kInvalid, fmt::format("'{}' is not a size; write e.g. 65536, 64KiB, 4MB, 1.5GiB", text));
}

std::string format(Duration duration) {
  const auto n = static_cast<double>(duration.count());
  const double size = std::abs(n);
  if (size < 1e3) return fmt::format("{} ns", duration.count());
  if (size < 1e6) return fmt::format("{:.3g} us", n / 1e3);
  if (size < 1e9) return fmt::format("{:.3g} ms", n / 1e6);
  if (size < 1e12) return fmt::format("{:.3g} s", n / 1e9);
  return fmt::format("{:.0f} s", n / 1e9);
}

std::string format(Bytes bytes) {
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto n = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  while (n >= 1024 && unit + 1 < names.size()) n /= 1024, ++unit;
  return n == std::floor(n) ? fmt::format("{:.0f} {}", n, names[unit]) : fmt::format("{:.2f} {}", n, names[unit]);
}

}  // namespace tutti

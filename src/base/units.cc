// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace tutti {
namespace {

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

// Nanoseconds; 0 if there is no such unit.
double duration_unit(std::string_view name) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                                                            {"s", 1e9}, {"min", 6e10}, {"h", 3.6e12}};
  for (const auto& [unit, factor] : kUnits)
    if (unit == name) return factor;
  return 0;
}

// Bytes: "", "B", "K" and "KB" (1000), "KiB" (1024), and so on up to T; 0 if there is no such unit.
double size_unit(std::string_view name) {
  if (name.empty() || name == "B") return 1;
  const auto power = std::string_view("KMGT").find(name.front());
  if (power == name.npos) return 0;
  const auto rest = name.substr(1);
  if (rest == "iB") return std::pow(1024, power + 1);
  return rest.empty() || rest == "B" ? std::pow(1000, power + 1) : 0;
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (split(text, number, name)) {
    if (number == 0 && name.empty()) return Duration::zero();
    const double unit = duration_unit(name);
    if (unit > 0 && number * unit < 9.2e18) return Duration(std::llround(number * unit));
  }
  return fail(ErrorCode::kInvalid, fmt::format("'{}' is not a duration; write e.g. 250ms, 1.5s, 40us, 2min", text));
}

Result<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (split(text, number, name)) {
    const double unit = size_unit(name);
    if (unit > 0 && number * unit < 9.2e18) return Bytes(static_cast<std::uint64_t>(std::llround(number * unit)));
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

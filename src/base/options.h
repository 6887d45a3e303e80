// SPDX-License-Identifier: Apache-2.0
// Options of policies (and gate disciplines): described once, checked once, read by name.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tutti {

// Option names to values as text, e.g. {"width", "250ms"}.
using OptionTexts = std::map<std::string, std::string>;

struct OptionInfo {
  enum class Kind { kDuration, kBytes, kInteger, kNumber, kChoice, kText };
  std::string name;
  Kind kind = Kind::kText;
  std::string fallback;          // the default as text; `tutti policies` shows it
  std::string disk_fallback{};   // the default on devices that are known to be rotating disks; empty: `fallback`
  std::string flash_fallback{};  // the default on devices that are known not to be rotating disks; empty: `fallback`
  std::string help;
  std::vector<std::string> choices{};  // kChoice: what is accepted
  std::int64_t low = 0;                // kInteger: smallest accepted
  std::int64_t high = INT64_MAX;       // kInteger: largest accepted
};

// Checked values of all options of one policy or discipline. Immutable. A getter asserts that the name exists and has
// that kind.
class OptionValues {
 public:
  // kInvalid names the option, the value and the accepted values. `owner` is e.g. "policy 'window'".
  static Result<OptionValues> check(std::string_view owner, const std::vector<OptionInfo>& infos,
                                    const OptionTexts& given);

  Duration duration(std::string_view name) const;
  Bytes bytes(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // kText and kChoice

 private:
  using Value = std::variant<Duration, Bytes, std::int64_t, double, std::string>;

  static Result<Value> parse(const OptionInfo& info, const std::string& text);
  template <typename T>
  const T& get(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/units.h"

namespace tutti {
namespace {

template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<OptionValues::Value> OptionValues::parse(const OptionInfo& info, const std::string& text) {
  using Kind = OptionInfo::Kind;
  switch (info.kind) {
    case Kind::kDuration: {
      auto value = parse_duration(text);
      if (!value) return Failure(value.error());
      return Value(*value);
    }
    case Kind::kBytes: {
      auto value = parse_bytes(text);
      if (!value) return Failure(value.error());
      return Value(*value);
    }
    case Kind::kInteger: {
      std::int64_t value = 0;
      if (parse_number(text, value) && value >= info.low && value <= info.high) return Value(value);
      return fail(ErrorCode::kInvalid, fmt::format("'{}' is not an integer from {} to {}", text, info.low, info.high));
    }
    case Kind::kNumber: {
      double value = 0;
      if (parse_number(text, value) && value >= static_cast<double>(info.low) &&
          value <= static_cast<double>(info.high))
        return Value(value);
      return fail(ErrorCode::kInvalid, fmt::format("'{}' is not a number from {} to {}", text, info.low, info.high));
    }
    case Kind::kChoice:
      if (std::find(info.choices.begin(), info.choices.end(), text) != info.choices.end()) return Value(text);
      return fail(ErrorCode::kInvalid, fmt::format("'{}' is not one of: {}", text, fmt::join(info.choices, ", ")));
    case Kind::kText:
      return Value(text);
  }
  return fail(ErrorCode::kInvalid, "unknown kind of option");
}

Result<OptionValues> OptionValues::check(std::string_view owner, const std::vector<OptionInfo>& infos,
                                         const OptionTexts& given) {
  for (const auto& [name, text] : given) {
    if (std::any_of(infos.begin(), infos.end(), [&name = name](const OptionInfo& info) { return info.name == name; }))
      continue;
    std::vector<std::string> names;
    for (const OptionInfo& info : infos) names.push_back(info.name);
    return fail(ErrorCode::kInvalid, fmt::format("{} has no option '{}'; it takes: {}", owner, name,
                                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  OptionValues values;
  for (const OptionInfo& info : infos) {
    const auto it = given.find(info.name);
    auto value = parse(info, it == given.end() ? info.fallback : it->second);
    if (!value)
      return fail(ErrorCode::kInvalid, fmt::format("{}: option '{}': {}", owner, info.name, value.error().message));
    values.values_.emplace(info.name, std::move(*value));
  }
  return values;
}

template <typename T>
const T& OptionValues::get(std::string_view name) const {
  const auto it = values_.find(name);
  assert(it != values_.end() && "the owner's table lists every option it reads");
  return std::get<T>(it->second);
}

Duration OptionValues::duration(std::string_view name) const {
  return get<Duration>(name);
}
Bytes OptionValues::bytes(std::string_view name) const {
  return get<Bytes>(name);
}
std::int64_t OptionValues::integer(std::string_view name) const {
  return get<std::int64_t>(name);
}
double OptionValues::number(std::string_view name) const {
  return get<double>(name);
}
const std::string& OptionValues::text(std::string_view name) const {
  return get<std::string>(name);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "policy_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tutti::cli {
namespace {

bool is_option(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return std::ranges::all_of(part.substr(0, equals), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

}  // namespace

Result<sim::PolicyChoice> parse_policy_choice(const std::string& text) {
  sim::PolicyChoice choice{.name = text.substr(0, text.find(':')), .options = {}};
  if (choice.name.empty()) return fail(ErrorCode::kInvalid, fmt::format("\"{}\": a policy without a name", text));
  std::string* value = nullptr;  // of the last option
  for (std::size_t begin = choice.name.size(); begin < text.size();) {
    const std::size_t end = std::min(text.find(':', begin + 1), text.size());
    const std::string part = text.substr(begin + 1, end - begin - 1);
    begin = end;
    if (is_option(part)) {
      const std::size_t equals = part.find('=');
      value = &(choice.options[part.substr(0, equals)] = part.substr(equals + 1));
    } else if (value != nullptr) {
      *value += ":" + part;
    } else {
      return fail(ErrorCode::kInvalid, fmt::format("\"{}\": expected POLICY or POLICY:OPTION=VALUE", text));
    }
  }
  return choice;
}

Result<void> set_policy_option(const std::string& assignment, std::vector<sim::PolicyChoice>& choices) {
  constexpr std::string_view kPrefix = "policies.";
  const std::size_t equals = assignment.find('='), dot = assignment.find('.', kPrefix.size());
  if (!assignment.starts_with(kPrefix) || dot == std::string::npos || equals == std::string::npos || dot > equals)
    return fail(ErrorCode::kInvalid, fmt::format("\"{}\": expected policies.POLICY.OPTION=VALUE", assignment));
  const std::string name = assignment.substr(kPrefix.size(), dot - kPrefix.size());
  const std::string option = assignment.substr(dot + 1, equals - dot - 1);
  bool found = false;
  for (sim::PolicyChoice& choice : choices) {
    if (choice.name != name) continue;
    found = true;
    choice.options.try_emplace(option, assignment.substr(equals + 1));
  }
  if (!found) return fail(ErrorCode::kInvalid, fmt::format("\"{}\": {} is not in --policies", assignment, name));
  return {};
}

std::string policy_text(const sim::PolicyChoice& choice) {
  std::string text = choice.name;
  for (const auto& [name, value] : choice.options) text += fmt::format(":{}={}", name, value);
  return text;
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/name_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::sim {
namespace {

std::string wrong(const std::string& path, std::uint64_t content, NameModel::When when) {
  const std::string what = content == NameModel::kAbsent ? "no file" : fmt::format("file {}", content);
  return fmt::format("a look-up of {} [{:.6f}, {:.6f}] found {}, which is not possible", path,
                     static_cast<double>(when.begin) / 1e9, static_cast<double>(when.end) / 1e9, what);
}

}  // namespace

std::size_t NameModel::add(std::string path) {
  names_.push_back({.path = std::move(path), .contents = {Content{}}});
  return names_.size() - 1;
}

std::optional<std::uint64_t> NameModel::content(std::size_t name) const {
  if (!names_[name].known) return std::nullopt;
  return names_[name].contents.back().value;
}

void NameModel::changed(std::size_t name, std::uint64_t content, When when) {
  for (Content& each : names_[name].contents) each.to = std::min(each.to, when.end);
  names_[name].contents.push_back({content, when.begin});
}

void NameModel::may_have_changed(std::size_t name, std::uint64_t content, When when) {
  names_[name].contents.push_back({content, when.begin});
  names_[name].settles_at = std::max(names_[name].settles_at, when.end);
  names_[name].known = false;
}

std::optional<std::string> NameModel::found(std::size_t name, std::uint64_t content, When when) {
  Name& entry = names_[name];
  const auto open = [&](std::uint64_t value) {
    return std::ranges::find_if(entry.contents,
                                [&](const Content& each) { return each.to == kNever && each.value == value; });
  };
  auto match = open(content);
  if (match == entry.contents.end() && content != kAbsent) match = open(kNew);
  if (match == entry.contents.end()) return wrong(entry.path, content, when);
  const Content settled{content, match->from, kNever};
  for (Content& each : entry.contents) each.to = std::min(each.to, when.end);
  entry.contents.push_back(settled);
  entry.known = true;
  return std::nullopt;
}

std::vector<std::string> NameModel::check() const {
  std::vector<std::string> all;
  for (const Name& name : names_)
    for (const auto& [content, when] : name.observations) {
      const bool possible = std::ranges::any_of(name.contents, [&, value = content, time = when](const Content& each) {
        const bool same = each.value == value || (each.value == kNew && value != kAbsent);
        return same && each.from <= time.end && each.to >= time.begin;
      });
      if (!possible) all.push_back(wrong(name.path, content, when));
    }
  return all;
}

}  // namespace tutti::sim

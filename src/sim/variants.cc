// SPDX-License-Identifier: Apache-2.0
#include "sim/variants.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::sim {
namespace {

constexpr std::size_t kMostVariants = 100'000;

using Dimensions = std::vector<std::pair<std::string, std::vector<std::string>>>;

void read_dimensions(Section section, const std::string& prefix, Dimensions& dimensions) {
  for (const std::string& key : section.keys()) {
    if (section.is_section(key)) {
      read_dimensions(section.section(key), prefix + key + ".", dimensions);
      continue;
    }
    dimensions.emplace_back(prefix + key, section.scalars(key));
    if (dimensions.back().second.empty()) section.mistake(key, "has no values; write e.g. [1, 4, 16]");
    if (prefix + key == "seed") section.mistake(key, "seeds are not swept; use --seeds N, which averages over them");
  }
}

bool is_set(const Overrides& overrides, const std::string& key) {
  if (key == "policy") return overrides.policy.has_value();
  return std::ranges::any_of(overrides.assignments,
                             [&](const std::string& assignment) { return assignment.starts_with(key + "="); });
}

}  // namespace

Dimensions read_sweep(Section section) {
  Dimensions dimensions;
  read_dimensions(section, "", dimensions);
  std::ranges::stable_partition(dimensions, [](const auto& each) { return each.first != "policy"; });
  std::size_t variants = 1;
  for (const auto& [key, values] : dimensions)
    variants = std::min(variants * std::min(std::max<std::size_t>(values.size(), 1), kMostVariants), kMostVariants + 1);
  if (variants > kMostVariants) {
    const std::string first = dimensions.front().first;
    section.mistake(first.substr(0, first.find('.')),
                    fmt::format("there are more than {} combinations", kMostVariants));
  }
  return dimensions;
}

Result<std::vector<Variant>> load_variants(const std::string& path, const Overrides& overrides) {
  auto config = Config::load(path);
  if (!config) return Failure(config.error());
  const Dimensions dimensions = read_sweep(config->section("sweep"));
  std::vector<Variant> variants{{}};
  for (const auto& [key, values] : dimensions) {
    if (is_set(overrides, key) || values.empty()) continue;
    if (variants.size() * values.size() > kMostVariants) break;  // read_sweep() has recorded it
    std::vector<Variant> longer;
    for (const Variant& variant : variants)
      for (const std::string& value : values) longer.push_back(variant), longer.back().emplace_back(key, value);
    variants = std::move(longer);
  }
  return variants;
}

Overrides with(Overrides overrides, const Variant& variant) {
  for (const auto& [key, value] : variant) {
    if (key == "policy")
      overrides.policy = value;
    else
      overrides.assignments.push_back(key + "=" + value);
  }
  return overrides;
}

}  // namespace tutti::sim

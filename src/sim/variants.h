// SPDX-License-Identifier: Apache-2.0
// The variants of a scenario file: all combinations of the values in its table [sweep].
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "sim/scenario_file.h"

namespace tutti::sim {

// Key and value of every setting, by key, with the policy last. The key "policy" is the policy, others are as in --set.
using Variant = std::vector<std::pair<std::string, std::string>>;

// One empty variant if there is no [sweep]. The last key changes fastest. Settings that `overrides` has are left out.
Result<std::vector<Variant>> load_variants(const std::string& path, const Overrides& overrides);

// `overrides` with the settings of the variant.
Overrides with(Overrides overrides, const Variant& variant);

// The keys of [sweep] with their values; records mistakes in the section. A nested table is a dotted key.
std::vector<std::pair<std::string, std::vector<std::string>>> read_sweep(Section section);

}  // namespace tutti::sim

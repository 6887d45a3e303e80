// SPDX-License-Identifier: Apache-2.0
// Policies with options, as one word of a command line.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario.h"

namespace tutti::cli {

// "concert" or "concert:stretch=8:alpha=2". What follows a colon and is not NAME= belongs to the value before it.
// kInvalid: a part before the first option, or no name. Whether policy and options exist is not checked.
Result<sim::PolicyChoice> parse_policy_choice(const std::string& text);

// "policies.concert.stretch=8": sets the option in all choices with this policy that do not name it themselves.
// kInvalid: another form, or no choice has this policy.
Result<void> set_policy_option(const std::string& assignment, std::vector<sim::PolicyChoice>& choices);

// As parse_policy_choice() reads it.
std::string policy_text(const sim::PolicyChoice& choice);

}  // namespace tutti::cli

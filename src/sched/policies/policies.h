// SPDX-License-Identifier: Apache-2.0
// One function per policy file; registry.cc makes the table of them.
#pragma once

#include "sched/policy.h"

namespace tutti {

PolicyInfo fifo_policy();
PolicyInfo to_policy();
PolicyInfo sjf_policy();
PolicyInfo hbrr_policy();
PolicyInfo mlf_policy();
PolicyInfo aioli_policy();
PolicyInfo window_policy();
PolicyInfo twins_policy();
PolicyInfo concert_policy();
PolicyInfo fair_policy();

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// AGIOS's interface has no room for reasons, so they go to standard error: each once, however often it comes up.
#pragma once

#include <string_view>

namespace tutti::agios {

// `reason` tells complaints apart; `details` are printed the first time only. Thread-safe.
void complain(std::string_view reason, std::string_view details = {});

}  // namespace tutti::agios

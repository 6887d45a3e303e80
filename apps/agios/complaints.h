// SPDX-License-Identifier: Apache-2.0
// The AGIOS interface cannot return reasons for errors, so each reason is printed once on standard error.
#pragma once

#include <string_view>

namespace tutti::agios {

// Prints `reason` and `details` unless the same reason was already printed. Thread-safe.
void complain(std::string_view reason, std::string_view details = {});

}  // namespace tutti::agios

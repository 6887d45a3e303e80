// SPDX-License-Identifier: Apache-2.0
#include "complaints.h"

#include <fmt/core.h>

#include <mutex>
#include <set>
#include <string>

namespace tutti::agios {

void complain(std::string_view reason, std::string_view details) {
  static auto& mutex = *new std::mutex;  // never destroyed: threads may complain to the very end
  static auto& known = *new std::set<std::string, std::less<>>;
  std::lock_guard guard(mutex);
  if (!known.emplace(reason).second) return;
  fmt::print(stderr, "agios: {}{}{}\n", reason, details.empty() ? "" : ": ", details);
}

}  // namespace tutti::agios

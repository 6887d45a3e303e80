// SPDX-License-Identifier: Apache-2.0
#include "complaints.h"

#include <fmt/core.h>

#include <set>
#include <string>

#include "base/mutex.h"
#include "base/print_error.h"

namespace tutti::agios {

void complain(std::string_view reason, std::string_view details) {
  static auto& mutex = *new Mutex;  // never destroyed: threads may use it at process exit
  static auto& known = *new std::set<std::string, std::less<>>;
  Lock guard(mutex);
  if (!known.emplace(reason).second) return;
  print_error("agios: {}{}{}\n", reason, details.empty() ? "" : ": ", details);
}

}  // namespace tutti::agios

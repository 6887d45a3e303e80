// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/trace.h"

namespace tutti {

std::string name_pattern(std::string_view path) {
  std::string pattern;
  pattern.reserve(path.size());
  bool in_digits = false;
  for (const char letter : path) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit)
      pattern += letter;
    else if (!in_digits)
      pattern += '#';
    in_digits = is_digit;
  }
  return pattern;
}

}  // namespace tutti

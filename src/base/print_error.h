// SPDX-License-Identifier: Apache-2.0
// Messages on standard error.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace tutti {

// As fmt::print(stderr, ...), but a message that cannot be written is lost: a log on a full disk must not end the
// program, which may be an application that has loaded one of our libraries.
template <typename... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Text to and from durations, sizes and rates, as written in configuration files and on the command line.
#pragma once

#include <tutti/base.h>

#include <string>
#include <string_view>

namespace tutti {

// "250ms", "1.5 s", "40us", "100ns", "2min", "1h"; a bare 0 is allowed.
Result<Duration> parse_duration(std::string_view text);

// "64KiB", "4 MB", "512", "1.5GiB"; K/M/G/T and KB/MB/.. are powers of 1000, KiB/MiB/.. powers of 1024.
Result<Bytes> parse_bytes(std::string_view text);

// Short text in the largest suitable unit, rounded: "250 ms", "1.50 s", "64 KiB", "4.0 MiB".
std::string format(Duration duration);

inline double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
std::string format(Bytes bytes);

}  // namespace tutti

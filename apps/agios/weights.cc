// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "configuration.h"

namespace tutti::agios {

Result<std::string> read_weights(const std::string& file) {
  std::ifstream words(file);
  if (!words) return fail(ErrorCode::kIo, fmt::format("wfq_conf: {}: {}", file, std::strerror(errno)), errno);
  std::string weights, word;
  for (int queue = 0; words >> word; ++queue) {
    double weight = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (error != std::errc() || end != word.data() + word.size() || !(weight > 0) || !std::isfinite(weight))
      return fail(ErrorCode::kInvalid,
                  fmt::format("wfq_conf: {}: the weight of queue {} is '{}'; write one positive number per queue, e.g. "
                              "10 1 2.5 for queues 0 to 2",
                              file, queue, word));
    weights += fmt::format("{}{}={}", queue == 0 ? "" : ", ", queue, weight);
  }
  return weights;
}

}  // namespace tutti::agios

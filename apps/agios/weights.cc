// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "configuration.h"

namespace tutti::agios {

Result<std::string> read_weights(const std::string& file) {
  std::ifstream lines(file);
  if (!lines) return fail(ErrorCode::kIo, fmt::format("wfq_conf: {}: cannot be read", file), errno);
  std::string weights;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    if ((words >> std::ws).eof()) continue;
    std::int64_t queue = -1;
    double weight = 0;
    std::string rest;
    if (!(words >> queue >> weight) || queue < 0 || weight <= 0 || words >> rest)
      return fail(ErrorCode::kInvalid,
                  fmt::format("wfq_conf: {}:{}: '{}' is wrong; write a queue's number and its weight, e.g. 3 2.5", file,
                              number, line));
    weights += fmt::format("{}{}={}", weights.empty() ? "" : ", ", queue, weight);
  }
  return weights;
}

}  // namespace tutti::agios

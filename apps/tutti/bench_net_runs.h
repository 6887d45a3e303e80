// SPDX-License-Identifier: Apache-2.0
// What `tutti bench net` compares: a bare socket, a cluster in this process, and the storage without Tutti.
#pragma once

#include <tutti/client.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "node/node.h"

namespace tutti::cli {

inline constexpr std::size_t kLarge = 1 << 20;
inline constexpr std::size_t kSmall = 4 << 10;

// One measurement: who moved what how, and how fast that was.
struct Row {
  std::string what;  // "socket", "null", "posix", "direct", "fio", "engine"
  std::string direction;
  std::size_t size = 0;
  std::size_t threads = 1;
  std::size_t depth = 1;  // operations under way, of each thread
  double requests_per_second = 0;
  double median_us = 0;  // from the start of an operation to its end; 0: not known

  double megabytes_per_second() const { return requests_per_second * static_cast<double>(size) / 1e6; }
};

// A loop over Unix sockets with nothing behind them: what the transport cannot beat.
Row run_socket(Row row, Duration duration);

// Nodes in this process behind Unix sockets.
class BenchCluster {
 public:
  // `options`: of each node; the rest is filled in.
  static Result<std::unique_ptr<BenchCluster>> start(const TemporaryDirectory& directory, NodeOptions options,
                                                     std::uint32_t nodes);

  // One client per thread, as processes of a job have; each has a file of `window` bytes and goes round in it.
  Result<Row> run(Row row, Duration duration, std::uint64_t window);

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// The same directory without Tutti, around the page cache: fio if it is installed, else our own engine in a loop.
Result<Row> run_storage(Row row, const TemporaryDirectory& directory, Duration duration, std::uint64_t window);

}  // namespace tutti::cli

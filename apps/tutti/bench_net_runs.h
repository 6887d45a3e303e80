// SPDX-License-Identifier: Apache-2.0
// What `tutti bench net` compares: a bare socket, a cluster in this process, and the storage without Tutti.
#pragma once

#include <tutti/client.h>

#include <memory>
#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "node/node.h"

namespace tutti::cli {

inline constexpr std::size_t kLarge = 1 << 20;
inline constexpr std::size_t kSmall = 4 << 10;

// Who moves what how.
struct Shape {
  std::string direction;
  std::size_t size = 0;
  std::size_t threads = 1;
  std::size_t depth = 1;     // operations under way, of each thread
  bool whole_pages = false;  // memory begins at a page, as those have it who go around the page cache, fio among them

  friend bool operator==(const Shape&, const Shape&) = default;
};

// A short measurement.
struct Slice {
  double requests_per_second = 0;
  double median_us = 0;  // from the start of an operation to its end; 0: not known
};

// One side of a comparison, ready to run: its sockets, connections and files are there, and do nothing between slices.
class Side {
 public:
  virtual ~Side() = default;
  virtual Result<Slice> run(Duration duration) = 0;
};
using SidePointer = std::unique_ptr<Side>;

// A loop over Unix sockets with nothing behind them, a pair and a receiving thread for each thread.
Result<SidePointer> make_socket_side(const Shape& shape);

// Nodes in this process behind Unix sockets.
class BenchCluster {
 public:
  // `options`: of each node; the rest is filled in.
  static Result<std::unique_ptr<BenchCluster>> start(const TemporaryDirectory& directory, NodeOptions options,
                                                     std::uint32_t nodes);

  // One client per thread, as processes of a job have; each has a file of `window` bytes and goes round in it.
  Result<SidePointer> side(const Shape& shape, std::uint64_t window) const;

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// The same directory without Tutti, around the page cache: fio if it is installed, else our own engine in a loop.
bool has_fio();
Result<SidePointer> make_storage_side(const Shape& shape, const TemporaryDirectory& directory, std::uint64_t window);

}  // namespace tutti::cli

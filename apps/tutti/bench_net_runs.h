// SPDX-License-Identifier: Apache-2.0
// The sides that `tutti bench net` compares: a bare socket, a cluster in this process, and storage without Tutti.
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

// The workload of one measurement.
struct Shape {
  std::string direction;
  std::size_t size = 0;
  std::size_t threads = 1;
  std::size_t depth = 1;     // operations in flight per thread
  bool whole_pages = false;  // page-aligned memory, as O_DIRECT needs

  friend bool operator==(const Shape&, const Shape&) = default;
};

// The result of one short measurement.
struct Slice {
  double requests_per_second = 0;
  double median_us = 0;  // from the start of an operation to its end; 0: not known
  double requests = 0;
  double cpu_us = 0;  // CPU time of this process per request, clients and nodes together; 0: not known
};

// One side of a comparison. Its sockets, connections and files exist during its lifetime and are idle between slices.
class Side {
 public:
  virtual ~Side() = default;
  virtual Result<Slice> run(Duration duration) = 0;
};
using SidePointer = std::unique_ptr<Side>;

// A loop over bare Unix sockets, with one socket pair and one receiving thread per thread.
Result<SidePointer> make_socket_side(const Shape& shape);

// Nodes in this process, reached through Unix sockets.
class BenchCluster {
 public:
  // `options` applies to each node; name, endpoint and directory are filled in.
  static Result<std::unique_ptr<BenchCluster>> start(const TemporaryDirectory& directory, NodeOptions options,
                                                     std::uint32_t nodes);

  // One client per thread, as in the processes of a job. Each client cycles through its own file of `window` bytes.
  Result<SidePointer> side(const Shape& shape, std::uint64_t window) const;

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// The same directory without Tutti, with O_DIRECT: fio if it is installed, else our engine in a loop.
bool has_fio();
Result<SidePointer> make_storage_side(const Shape& shape, const TemporaryDirectory& directory, std::uint64_t window);

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// Which bytes of the file an operation reads or writes, and the requests for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "layout/layout.h"
#include "sim/scenario.h"

namespace tutti::sim {

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// Identifies an operation in its phase.
struct OperationIndex {
  unsigned rank = 0;
  unsigned ranks = 1;  // number of ranks that share the file
  unsigned operation = 0;
  unsigned operations = 1;  // of each rank in this phase
};

// The extents of one operation, by pattern or server_bytes, by ascending offset; adjoining extents are joined. Only
// kRandom uses `chance`.
void extents_of(const Application& application, const OperationIndex& index, Prng& chance,
                std::vector<Extent>& extents);

// A request of an operation: a contiguous range on one server.
struct CutRequest {
  std::uint64_t offset = 0;         // in the file
  std::uint64_t object_offset = 0;  // in the server's part of it
  std::uint64_t length = 0;
  std::uint32_t server = 0;
};

// Makes requests from extents: splits them by layout, then cuts or joins by Application::largest_request and flow.
class RequestCutter {
 public:
  // Replaces the content of `cuts`, in the order of the extents.
  void cut(const Application& application, const Layout& layout, std::span<const Extent> extents,
           std::vector<CutRequest>& cuts);

 private:
  struct LastRequest {
    std::uint32_t number = ~std::uint32_t{0};  // index of the request
    std::uint64_t end = 0;                     // in the server's part of the file
  };
  bool joins_last(std::uint64_t flow, const tutti::Piece& piece, std::vector<CutRequest>& cuts);

  std::vector<LastRequest> last_;  // by server
};

}  // namespace tutti::sim

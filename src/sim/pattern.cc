// SPDX-License-Identifier: Apache-2.0
#include "sim/pattern.h"

#include <algorithm>
#include <cmath>

namespace tutti::sim {
namespace {

// A grid of exactly `ranks` boxes with sides as equal as possible; sides[0] is the fastest-running one.
struct Grid {
  std::uint64_t sides[3] = {1, 1, 1};
};

std::uint64_t largest_divisor(std::uint64_t number, double limit) {
  for (auto side = static_cast<std::uint64_t>(std::floor(limit + 1e-9)); side > 1; --side)
    if (number % side == 0) return side;
  return 1;
}

Grid grid_of(std::uint64_t ranks, unsigned dimensions) {
  Grid grid;
  if (dimensions == 3) {
    grid.sides[2] = largest_divisor(ranks, std::cbrt(static_cast<double>(ranks)));
    ranks /= grid.sides[2];
  }
  grid.sides[1] = largest_divisor(ranks, std::sqrt(static_cast<double>(ranks)));
  grid.sides[0] = ranks / grid.sides[1];
  return grid;
}

class Appender {
 public:
  explicit Appender(std::vector<Extent>& extents) : extents_(extents) { extents_.clear(); }

  void add(std::uint64_t offset, std::uint64_t length) {
    if (!extents_.empty() && extents_.back().offset + extents_.back().length == offset)
      extents_.back().length += length;
    else
      extents_.push_back({offset, length});
  }

 private:
  std::vector<Extent>& extents_;
};

// Rows of `block` bytes of the rank's box in a matrix of boxes. The height of the box is the rows of the whole phase.
void tile_rows(const Application& application, const OperationIndex& index, unsigned dimensions, Appender& extents) {
  const Grid grid = grid_of(index.ranks, dimensions);
  const std::uint64_t block = application.block.count();
  const std::uint64_t rows = application.size.count() / block;
  const std::uint64_t height = rows * index.operations;
  const std::uint64_t x = index.rank % grid.sides[0];
  const std::uint64_t y = index.rank / grid.sides[0] % grid.sides[1];
  const std::uint64_t z = index.rank / grid.sides[0] / grid.sides[1];
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t line = (z * grid.sides[1] + y) * height + index.operation * rows + row;
    extents.add((line * grid.sides[0] + x) * block, block);
  }
}

// The stripes of each server that hold its bytes. The file is on the servers that get some (place_files). Operations do
// not share stripes.
void stripes_of_servers(const Application& application, std::uint64_t number, Appender& extents) {
  const std::uint64_t stripe = application.stripe_size.count();
  const std::uint64_t rows = (std::ranges::max(application.server_bytes).count() + stripe - 1) / stripe;
  const auto columns = static_cast<std::uint64_t>(
      std::ranges::count_if(application.server_bytes, [](Bytes bytes) { return bytes > Bytes{}; }));
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t column = 0;
    for (const Bytes bytes : application.server_bytes) {
      if (bytes.count() > row * stripe)
        extents.add(((number * rows + row) * columns + column) * stripe,
                    std::min(stripe, bytes.count() - row * stripe));
      column += bytes > Bytes{} ? 1 : 0;
    }
  }
}

}  // namespace

void extents_of(const Application& application, const OperationIndex& index, Prng& chance,
                std::vector<Extent>& extents) {
  Appender out(extents);
  const std::uint64_t size = application.size.count();
  const std::uint64_t block = application.block.count() ? application.block.count() : size;
  const std::uint64_t blocks = std::max<std::uint64_t>(1, size / block);
  const std::uint64_t number = std::uint64_t{index.rank} * index.operations + index.operation;
  if (!application.server_bytes.empty()) return stripes_of_servers(application, number, out);
  switch (application.pattern) {
    case Pattern::kContiguous:
      return out.add(number * size, size);
    case Pattern::kStrided:
      return out.add((std::uint64_t{index.operation} * index.ranks + index.rank) * size, size);
    case Pattern::kInterleaved:
      for (std::uint64_t i = 0; i < blocks; ++i)
        out.add(((index.operation * blocks + i) * index.ranks + index.rank) * block, block);
      return;
    case Pattern::kTiles2d:
      return tile_rows(application, index, 2, out);
    case Pattern::kTiles3d:
      return tile_rows(application, index, 3, out);
    case Pattern::kVector:
      for (std::uint64_t i = 0; i < blocks; ++i)
        out.add((number * blocks + i) * (block + application.gap.count()), block);
      return;
    case Pattern::kRandom:
      return out.add(chance.below(std::uint64_t{index.ranks} * index.operations) * size, size);
  }
}

void RequestCutter::cut(const Application& application, const Layout& layout, std::span<const Extent> extents,
                        std::vector<CutRequest>& cuts) {
  constexpr std::uint64_t kLargest = 1u << 30;
  const std::uint64_t asked = application.largest_request.count(), flow = application.flow.count();
  const std::uint64_t largest = asked > 0 ? std::min(asked, kLargest) : kLargest;
  cuts.clear();
  last_.clear();
  for (const Extent& extent : extents)
    for (const tutti::Piece& piece : tutti::split(layout, extent.offset, Bytes(extent.length))) {
      if (flow > 0 && joins_last(flow, piece, cuts)) continue;
      for (std::uint64_t done = 0; done < piece.length.count(); done += largest)
        cuts.push_back({piece.offset + done, piece.object_offset + done, std::min(largest, piece.length.count() - done),
                        piece.target});
    }
}

// True if the piece continues the last request of its server and was joined to it.
bool RequestCutter::joins_last(std::uint64_t flow, const tutti::Piece& piece, std::vector<CutRequest>& cuts) {
  if (piece.target >= last_.size()) last_.resize(piece.target + 1);
  LastRequest& last = last_[piece.target];
  const std::uint64_t end = piece.object_offset + piece.length.count();
  if (last.end == piece.object_offset && last.number < cuts.size() &&
      cuts[last.number].length + piece.length.count() <= flow) {
    cuts[last.number].length += piece.length.count();
    last.end = end;
    return true;
  }
  last = {static_cast<std::uint32_t>(cuts.size()), end};
  return false;
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/pattern.h"

#include <algorithm>
#include <cmath>

namespace tutti::sim {
namespace {

// The most even grid of `dimensions` sides that holds exactly `ranks` boxes; sides[0] is the fastest-running one.
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

// Rows of `block` bytes of the rank's box in a matrix of boxes; the box is as many rows high as the phase has.
void tile_rows(const Application& application, const Place& place, unsigned dimensions, Appender& extents) {
  const Grid grid = grid_of(place.ranks, dimensions);
  const std::uint64_t block = application.block.count();
  const std::uint64_t rows = application.size.count() / block;
  const std::uint64_t height = rows * place.operations;
  const std::uint64_t x = place.rank % grid.sides[0];
  const std::uint64_t y = place.rank / grid.sides[0] % grid.sides[1];
  const std::uint64_t z = place.rank / grid.sides[0] / grid.sides[1];
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t line = (z * grid.sides[1] + y) * height + place.operation * rows + row;
    extents.add((line * grid.sides[0] + x) * block, block);
  }
}

}  // namespace

void extents_of(const Application& application, const Place& place, Prng& chance, std::vector<Extent>& extents) {
  Appender out(extents);
  const std::uint64_t size = application.size.count();
  const std::uint64_t block = application.block.count() ? application.block.count() : size;
  const std::uint64_t blocks = std::max<std::uint64_t>(1, size / block);
  const std::uint64_t turn = std::uint64_t{place.rank} * place.operations + place.operation;
  switch (application.pattern) {
    case Pattern::kContiguous:
      return out.add(turn * size, size);
    case Pattern::kStrided:
      return out.add((std::uint64_t{place.operation} * place.ranks + place.rank) * size, size);
    case Pattern::kInterleaved:
      for (std::uint64_t i = 0; i < blocks; ++i)
        out.add(((place.operation * blocks + i) * place.ranks + place.rank) * block, block);
      return;
    case Pattern::kTiles2d:
      return tile_rows(application, place, 2, out);
    case Pattern::kTiles3d:
      return tile_rows(application, place, 3, out);
    case Pattern::kVector:
      for (std::uint64_t i = 0; i < blocks; ++i)
        out.add((turn * blocks + i) * (block + application.gap.count()), block);
      return;
    case Pattern::kRandom:
      return out.add(chance.below(std::uint64_t{place.ranks} * place.operations) * size, size);
  }
}

}  // namespace tutti::sim

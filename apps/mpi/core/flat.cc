// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/flat.h"

#include <algorithm>
#include <span>

namespace tutti::mpi {
namespace {

using Arguments = std::span<const std::int64_t>;

// Collects the blocks of a datatype and merges neighbours.
class Collector {
 public:
  // Appends `count` elements of `child`, the first one at `displacement`.
  void add(const Flat& child, std::int64_t displacement, std::int64_t count) {
    if (count <= 0 || child.blocks.empty() || full_) return;
    flat_.size += child.size * count;
    if (child.dense()) return append({displacement + child.blocks[0].offset, child.extent * count});
    for (std::int64_t i = 0; i < count && !full_; ++i)
      for (const Block& block : child.blocks) append({displacement + i * child.extent + block.offset, block.length});
  }

  void reserve(std::int64_t blocks) {
    if (blocks > 0) flat_.blocks.reserve(std::min<std::size_t>(static_cast<std::size_t>(blocks), std::size_t{1} << 20));
  }

  Result<Flat> take() {
    if (full_) return too_many();
    return std::move(flat_);
  }

  static Failure too_many() { return fail(ErrorCode::kFull, "the datatype has more than 16777216 blocks"); }

 private:
  void append(Block block) {
    auto& blocks = flat_.blocks;
    if (block.length == 0) return;
    if (!blocks.empty() && blocks.back().offset + blocks.back().length == block.offset)
      blocks.back().length += block.length;
    else if (blocks.size() < kMostBlocks)
      blocks.push_back(block);
    else
      full_ = true;
  }

  Flat flat_;
  bool full_ = false;
};

Failure malformed() {
  return fail(ErrorCode::kInvalid, "the contents of a datatype have too few arguments or a negative count");
}

// count, block length, stride; `unit`: what the stride counts.
Result<Flat> vector(const Flat& child, Arguments arguments, std::int64_t unit) {
  if (arguments.size() < 3 || arguments[0] < 0) return malformed();
  const bool joined = child.dense() && arguments[2] * unit == arguments[1] * child.extent;
  if (!joined && static_cast<std::size_t>(arguments[0]) > kMostBlocks) return Collector::too_many();
  Collector collector;
  collector.reserve(arguments[0]);
  for (std::int64_t i = 0; i < arguments[0]; ++i) collector.add(child, i * arguments[2] * unit, arguments[1]);
  return collector.take();
}

// count, block lengths, displacements.
Result<Flat> indexed(const Construction& construction, std::int64_t unit) {
  const Arguments arguments = construction.arguments;
  if (arguments.empty() || arguments[0] < 0 || arguments.size() < 1 + 2 * static_cast<std::size_t>(arguments[0]))
    return malformed();
  const auto count = static_cast<std::size_t>(arguments[0]);
  const bool several = construction.combiner == Combiner::kStruct;
  if (construction.children.size() < (several ? count : std::size_t{1})) return malformed();
  Collector collector;
  collector.reserve(arguments[0]);
  for (std::size_t i = 0; i < count; ++i)
    collector.add(construction.children[several ? i : 0], arguments[1 + count + i] * unit, arguments[1 + i]);
  return collector.take();
}

// count, block length, displacements.
Result<Flat> indexed_block(const Flat& child, Arguments arguments, std::int64_t unit) {
  if (arguments.size() < 2 || arguments[0] < 0 || arguments.size() < 2 + static_cast<std::size_t>(arguments[0]))
    return malformed();
  Collector collector;
  collector.reserve(arguments[0]);
  for (const std::int64_t displacement : arguments.subspan(2, static_cast<std::size_t>(arguments[0])))
    collector.add(child, displacement * unit, arguments[1]);
  return collector.take();
}

// The elements of one dimension of an array that belong to the datatype.
struct Dimension {
  struct Range {
    std::int64_t first = 0, count = 0;
  };
  std::int64_t size = 0;
  std::vector<Range> ranges{};
};

// `dimensions`: the slowest one first. `base`: elements before the chosen part of the slower dimensions.
void add_array(Collector& collector, const Flat& child, std::span<const Dimension> dimensions, std::int64_t base) {
  const Dimension& slowest = dimensions.front();
  for (const Dimension::Range& range : slowest.ranges) {
    const std::int64_t first = base * slowest.size + range.first;
    if (dimensions.size() == 1) {
      collector.add(child, first * child.extent, range.count);
      continue;
    }
    for (std::int64_t i = 0; i < range.count; ++i) add_array(collector, child, dimensions.subspan(1), first + i);
  }
}

Result<Flat> array(const Flat& child, std::vector<Dimension> dimensions, std::int64_t order) {
  if (order == kOrderFortran) std::reverse(dimensions.begin(), dimensions.end());
  Collector collector;
  add_array(collector, child, dimensions, 0);
  return collector.take();
}

Result<Flat> subarray(const Flat& child, Arguments arguments) {
  if (arguments.empty() || arguments[0] < 1 || arguments.size() < 2 + 3 * static_cast<std::size_t>(arguments[0]))
    return malformed();
  const auto count = static_cast<std::size_t>(arguments[0]);
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < count; ++i)
    dimensions.push_back({arguments[1 + i], {{arguments[1 + 2 * count + i], arguments[1 + count + i]}}});
  return array(child, std::move(dimensions), arguments[1 + 3 * count]);
}

struct Share {
  std::int64_t size = 0;  // of the dimension
  Distribution distribution = Distribution::kNone;
  std::int64_t argument = kDefaultArgument;
  std::int64_t processes = 1;
  std::int64_t coordinate = 0;  // of this process
};

Dimension distribute(const Share& share) {
  Dimension dimension{share.size, {}};
  if (share.distribution == Distribution::kNone || share.processes <= 1) {
    if (share.size > 0) dimension.ranges.push_back({0, share.size});
    return dimension;
  }
  const bool block = share.distribution == Distribution::kBlock;
  const std::int64_t even = (share.size + share.processes - 1) / share.processes;
  const std::int64_t length = share.argument != kDefaultArgument ? share.argument : block ? even : 1;
  if (length < 1) return dimension;
  const std::int64_t step = block ? std::max(share.size, std::int64_t{1}) : length * share.processes;
  for (std::int64_t first = share.coordinate * length; first < share.size; first += step)
    dimension.ranges.push_back({first, std::min(length, share.size - first)});
  return dimension;
}

Result<Flat> darray(const Flat& child, Arguments arguments) {
  if (arguments.size() < 3 || arguments[2] < 1 || arguments.size() < 4 + 4 * static_cast<std::size_t>(arguments[2]))
    return malformed();
  const auto count = static_cast<std::size_t>(arguments[2]);
  const Arguments sizes = arguments.subspan(3), distributions = sizes.subspan(count);
  const Arguments each = distributions.subspan(count), processes = each.subspan(count);
  std::vector<Dimension> dimensions(count);
  std::int64_t rank = arguments[1];
  for (std::size_t i = count; i-- > 0;) {  // processes are always numbered in C order
    if (processes[i] < 1) return malformed();
    dimensions[i] =
        distribute({sizes[i], static_cast<Distribution>(distributions[i]), each[i], processes[i], rank % processes[i]});
    rank /= processes[i];
  }
  return array(child, std::move(dimensions), processes[count]);
}

}  // namespace

Result<Flat> combine(const Construction& construction) {
  const Arguments arguments = construction.arguments;
  if (construction.children.empty()) {  // a structure of no blocks
    if (construction.combiner == Combiner::kStruct) return Flat{};
    return malformed();
  }
  const Flat& child = construction.children.front();
  switch (construction.combiner) {
    case Combiner::kContiguous: {
      if (arguments.empty() || arguments[0] < 0) return malformed();
      Collector collector;
      collector.add(child, 0, arguments[0]);
      return collector.take();
    }
    case Combiner::kVector:
      return vector(child, arguments, child.extent);
    case Combiner::kHvector:
      return vector(child, arguments, 1);
    case Combiner::kIndexed:
      return indexed(construction, child.extent);
    case Combiner::kHindexed:
    case Combiner::kStruct:
      return indexed(construction, 1);
    case Combiner::kIndexedBlock:
      return indexed_block(child, arguments, child.extent);
    case Combiner::kHindexedBlock:
      return indexed_block(child, arguments, 1);
    case Combiner::kSubarray:
      return subarray(child, arguments);
    case Combiner::kDarray:
      return darray(child, arguments);
    case Combiner::kResized: {
      if (arguments.size() < 2) return malformed();
      Flat flat = child;
      flat.lower = arguments[0];
      flat.extent = arguments[1];
      return flat;
    }
  }
  return malformed();
}

}  // namespace tutti::mpi

// SPDX-License-Identifier: Apache-2.0
#include "layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tutti {

Layout Layout::round_robin(Bytes stripe_size, std::uint32_t count, std::uint32_t first) {
  Layout layout{.stripe_size = stripe_size, .stripe_count = count, .object_size = {}, .targets = {}};
  for (std::uint32_t i = 0; i < count; ++i) layout.targets.push_back((first + i) % count);
  return layout;
}

Result<void> Layout::check() const {
  if (stripe_size.count() == 0 || stripe_size.count() > std::uint64_t{1} << 40) {
    return fail(ErrorCode::kInvalid,
                fmt::format("stripe size of {} bytes: must be from 1 to 2^40", stripe_size.count()));
  }
  if (stripe_count == 0) return fail(ErrorCode::kInvalid, "stripe count is 0, must be at least 1");
  if (targets.empty()) return fail(ErrorCode::kInvalid, "the layout has no targets, must have at least one");
  if (object_size.count() % stripe_size.count() != 0) {
    return fail(ErrorCode::kInvalid, fmt::format("object size of {} bytes: must be a multiple of the stripe size, {}",
                                                 object_size.count(), stripe_size.count()));
  }
  return {};
}

Piece locate(const Layout& layout, std::uint64_t offset) {
  const auto size = layout.stripe_size.count();
  const auto stripe = offset / size;
  const auto column = stripe % layout.stripe_count;
  const auto row = stripe / layout.stripe_count;  // the stripe's number in its column
  const auto rows = layout.object_size.count() / size;
  const auto set = rows == 0 ? 0 : row / rows;
  Piece piece;
  piece.object = set * layout.stripe_count + column;
  piece.object_offset = (rows == 0 ? row : row % rows) * size + offset % size;
  piece.offset = offset;
  piece.length = Bytes(1);
  piece.target = layout.targets[piece.object % layout.targets.size()];
  return piece;
}

std::uint64_t file_offset(const Layout& layout, std::uint64_t object, std::uint64_t object_offset) {
  const auto size = layout.stripe_size.count();
  const auto rows = layout.object_size.count() / size;
  const auto set = object / layout.stripe_count;
  const auto column = object % layout.stripe_count;
  const auto row = set * rows + object_offset / size;
  return (row * layout.stripe_count + column) * size + object_offset % size;
}

std::vector<Piece> split(const Layout& layout, std::uint64_t offset, Bytes length) {
  const auto size = layout.stripe_size.count();
  const auto end = offset + length.count();
  std::vector<Piece> pieces;
  pieces.reserve(layout.stripe_count == 1 ? 1 : (end - offset) / size + 2);
  while (offset < end) {
    auto piece = locate(layout, offset);
    const auto room = size - offset % size;
    piece.length = Bytes(std::min(room, end - offset));
    offset += piece.length.count();
    auto* last = pieces.empty() ? nullptr : &pieces.back();
    if (last != nullptr && layout.stripe_count == 1 && last->object == piece.object) {
      last->length += piece.length;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

Striping striping_of(const Layout& layout) {
  const std::uint64_t stripe = layout.stripe_size.count();
  if (!std::has_single_bit(stripe) || layout.stripe_count > UINT16_MAX || layout.object_size > Bytes{}) return {};
  return {static_cast<std::uint8_t>(std::countr_zero(stripe)), static_cast<std::uint16_t>(layout.stripe_count)};
}

}  // namespace tutti

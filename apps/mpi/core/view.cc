// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/view.h"

#include <algorithm>

namespace tutti::mpi {
namespace {

bool have_overlap(const std::vector<Block>& blocks) {
  const auto before = [](const Block& a, const Block& b) { return a.offset < b.offset; };
  const auto touches = [](const Block& a, const Block& b) { return a.offset + a.length > b.offset; };
  if (std::is_sorted(blocks.begin(), blocks.end(), before))  // as MPI requires of file types
    return std::adjacent_find(blocks.begin(), blocks.end(), touches) != blocks.end();
  std::vector<Block> sorted = blocks;
  std::sort(sorted.begin(), sorted.end(), before);
  return std::adjacent_find(sorted.begin(), sorted.end(), touches) != sorted.end();
}

}  // namespace

FileView::FileView(std::int64_t displacement, std::int64_t etype_size, Flat filetype)
    : displacement_(displacement), etype_size_(etype_size), filetype_(std::move(filetype)) {
  before_.reserve(filetype_.blocks.size());
  std::int64_t sum = 0;
  if (!filetype_.blocks.empty()) lowest_ = filetype_.blocks.front().offset;
  for (const Block& block : filetype_.blocks) {
    before_.push_back(sum);
    sum += block.length;
    lowest_ = std::min(lowest_, block.offset);
    highest_ = std::max(highest_, block.offset + block.length);
  }
  overlaps_ = have_overlap(filetype_.blocks);
}

Result<std::vector<Extent>> FileView::extents(const ViewAccess& access) const {
  std::vector<Extent> extents;
  if (access.etypes < 0 || access.bytes < 0) return fail(ErrorCode::kInvalid, "the position in the view is negative");
  if (access.bytes == 0) return extents;
  if (empty()) return fail(ErrorCode::kInvalid, "the view has no bytes");
  if (displacement_ < 0 || displacement_ + lowest_ < 0 || filetype_.extent < 0)
    return fail(ErrorCode::kInvalid, "the access begins before byte 0 of the file");
  // `last` is the end of the last element that is touched, at most.
  std::int64_t start = 0, end = 0, last = 0;
  if (__builtin_mul_overflow(access.etypes, etype_size_, &start) || __builtin_add_overflow(start, access.bytes, &end) ||
      __builtin_mul_overflow(end / filetype_.size + 1, filetype_.extent, &last) ||
      __builtin_add_overflow(last, displacement_, &last) || __builtin_add_overflow(last, highest_, &last))
    return fail(ErrorCode::kInvalid, "the access ends after byte 2^63 - 1 of the file");
  if (filetype_.dense()) {
    const auto offset =
        static_cast<std::uint64_t>(displacement_ + filetype_.blocks[0].offset) + static_cast<std::uint64_t>(start);
    extents.push_back({offset, static_cast<std::uint64_t>(access.bytes)});
    return extents;
  }
  std::int64_t element = start / filetype_.size;
  std::int64_t inside = start % filetype_.size;
  auto block = static_cast<std::size_t>(std::upper_bound(before_.begin(), before_.end(), inside) - before_.begin()) - 1;
  inside -= before_[block];
  for (std::int64_t done = 0; done < access.bytes;) {
    const Block& current = filetype_.blocks[block];
    const std::int64_t length = std::min(current.length - inside, access.bytes - done);
    const auto offset =
        static_cast<std::uint64_t>(displacement_ + element * filetype_.extent + current.offset + inside);
    if (!extents.empty() && extents.back().offset + extents.back().length == offset)
      extents.back().length += static_cast<std::uint64_t>(length);
    else
      extents.push_back({offset, static_cast<std::uint64_t>(length)});
    if (extents.size() > kMostBlocks) return fail(ErrorCode::kFull, "the access has more than 16777216 extents");
    done += length;
    inside = 0;
    if (++block == filetype_.blocks.size()) {
      block = 0;
      ++element;
    }
  }
  return extents;
}

std::uint64_t bytes_before(const std::vector<Extent>& extents, std::uint64_t end) {
  std::uint64_t sum = 0;
  for (const Extent& extent : extents)
    if (extent.offset < end) sum += std::min(extent.length, end - extent.offset);
  return sum;
}

}  // namespace tutti::mpi

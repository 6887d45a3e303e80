// SPDX-License-Identifier: Apache-2.0
// Large blocks of memory on huge pages, where the kernel has them: tables of a million entries then miss the TLB
// rarely. Blocks come straight from the kernel, without the padding that an allocator needs for such an alignment.
#pragma once

#include <cstddef>

namespace tutti {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A zeroed block of one huge page; throws std::bad_alloc.
void* map_huge_page();
void unmap_huge_page(void* block);

// Of all blocks that are mapped now; malloc's own figures do not count them.
std::size_t mapped_huge_bytes();

}  // namespace tutti

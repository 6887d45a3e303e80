// SPDX-License-Identifier: Apache-2.0
// Large blocks of memory on huge pages, where the kernel has them: tables of a million entries then miss the TLB
// rarely. Blocks come straight from the kernel, without the padding that an allocator needs for such an alignment.
#pragma once

#include <cstddef>
#include <new>

namespace tutti {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A zeroed block of at least `bytes`; throws std::bad_alloc.
void* map_huge_pages(std::size_t bytes);
void unmap_huge_pages(void* block, std::size_t bytes);  // the same number as when it was mapped

// Of all blocks that are mapped now; malloc's own figures do not count them.
std::size_t mapped_huge_bytes();

// For containers: small blocks come from the heap, large ones on huge pages.
template <typename T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT: allocators convert
  bool operator==(const HugePageAllocator&) const { return true; }

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kHugePage ? ::operator new(bytes) : map_huge_pages(bytes));
  }
  void deallocate(T* block, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    bytes < kHugePage ? ::operator delete(block) : unmap_huge_pages(block, bytes);
  }
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Large blocks of memory on huge pages where the kernel has them, so that tables of a million entries cause few TLB
// misses. Blocks are mapped directly from the kernel; an allocator would waste memory on the alignment.
// All functions are thread-safe.
#pragma once

#include <cstddef>
#include <new>

namespace tutti {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A zeroed block of at least `bytes`; throws std::bad_alloc.
void* map_huge_pages(std::size_t bytes);
void unmap_huge_pages(void* block, std::size_t bytes);  // `bytes` as passed to map_huge_pages()

// Total size of the blocks that are mapped now. malloc statistics do not include them.
std::size_t mapped_huge_bytes();

// For containers: blocks of at least one huge page are mapped with map_huge_pages(), smaller ones are on the heap.
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

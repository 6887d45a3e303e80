// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace tutti {
namespace {

std::atomic<std::size_t> mapped{0};

}  // namespace

void* map_huge_page() {
  // Twice as much is sure to contain an aligned page; the rest goes back at once.
  void* start = ::mmap(nullptr, 2 * kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  auto* bytes = static_cast<std::byte*>(start);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(bytes, before);
  ::munmap(bytes + before + kHugePage, kHugePage - before);
  ::madvise(bytes + before, kHugePage, MADV_HUGEPAGE);  // small pages do as well where this is refused
  mapped += kHugePage;
  return bytes + before;
}

void unmap_huge_page(void* block) {
  ::munmap(block, kHugePage);
  mapped -= kHugePage;
}

std::size_t mapped_huge_bytes() {
  return mapped;
}

}  // namespace tutti

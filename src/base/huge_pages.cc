// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace tutti {
namespace {

std::atomic<std::size_t> mapped{0};

std::size_t rounded(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

void* map_huge_pages(std::size_t bytes) {
  bytes = rounded(bytes);
  // Maps one huge page more, so that the range contains an aligned block, and unmaps the rest.
  void* start = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  auto* memory = static_cast<std::byte*>(start);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(memory, before);
  ::munmap(memory + before + bytes, kHugePage - before);
  ::madvise(memory + before, bytes, MADV_HUGEPAGE);  // on failure the block uses small pages
  mapped += bytes;
  return memory + before;
}

void unmap_huge_pages(void* block, std::size_t bytes) {
  ::munmap(block, rounded(bytes));
  mapped -= rounded(bytes);
}

std::size_t mapped_huge_bytes() {
  return mapped;
}

}  // namespace tutti

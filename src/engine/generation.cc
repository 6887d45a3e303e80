// SPDX-License-Identifier: Apache-2.0
#include "engine/generation.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace tutti {
namespace {

// FNV-1a: the same on all nodes, whatever library they were built with.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

// Handles of FUSE contain a number that belongs to the mount: nodes with mounts of their own have different ones.
// Remembers the last device, because fstatfs() of a FUSE mount is a message to its servers.
bool is_fuse(int descriptor, dev_t device) {
  thread_local dev_t last = 0;
  thread_local bool fuse = false;
  struct statfs system {};
  if (device == last) return fuse;
  if (fstatfs(descriptor, &system) != 0) return true;
  last = device;
  return fuse = system.f_type == FUSE_SUPER_MAGIC;
}

}  // namespace

std::uint64_t generation_of(int descriptor, dev_t device) {
  constexpr std::uint64_t kKind = 0xffULL << 56, kTime = 0xfeULL << 56;
  alignas(file_handle) std::array<std::byte, sizeof(file_handle) + MAX_HANDLE_SZ> memory{};
  auto* handle = reinterpret_cast<file_handle*>(memory.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (!is_fuse(descriptor, device) && name_to_handle_at(descriptor, "", handle, &mount, AT_EMPTY_PATH) == 0) {
    const std::string_view bytes(reinterpret_cast<const char*>(memory.data() + sizeof *handle), handle->handle_bytes);
    const auto kind = static_cast<std::uint64_t>(handle->handle_type % 0xfd + 1) << 56;
    return (hash_of(bytes) & ~kKind) | kind;
  }
  struct statx more {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &more) != 0 || (more.stx_mask & STATX_BTIME) == 0) return 0;
  const auto time = static_cast<std::uint64_t>(more.stx_btime.tv_sec) * 1'000'000'000 + more.stx_btime.tv_nsec;
  return (time & ~kKind) | kTime;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Tells a file from a removed file whose inode number it has.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace tutti {

// The generation of an open file on `device` (st_dev). Made from the handle that NFS servers use, which contains the
// file system's generation of the inode, else from the time of the file's creation. Equal on all nodes whose mounts are
// of the same type. The upper byte says how it was found. 0: not known, as on FUSE mounts without times of creation.
std::uint64_t generation_of(int descriptor, dev_t device);

// Generations that were found in different ways, and 0, cannot be compared.
inline bool may_be_equal(std::uint64_t generation, std::uint64_t other) {
  return generation == other || generation == 0 || other == 0 || (generation ^ other) >> 56 != 0;
}

}  // namespace tutti

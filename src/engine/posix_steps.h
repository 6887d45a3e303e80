// SPDX-License-Identifier: Apache-2.0
// The system calls that an operation of engine `posix` consists of. Internal to it.
#pragma once

#include <sys/uio.h>

#include <cstdint>

#include "engine/engine.h"

namespace tutti {

// The part of an operation that one system call transfers.
struct Step {
  int descriptor = -1;
  bool direct = false;
  const iovec* memory = nullptr;
  unsigned count = 0;
};

// True if the page cache holds the range up to the end of the file and its last page is up to date (read-ahead
// completes in order, so the other pages are, too). Always false on kernels before 6.5.
bool is_cached(int descriptor, std::uint64_t offset, std::uint64_t length);

// The longest sequence of iovecs from the current position that one system call can transfer: with the direct
// descriptor while everything is aligned, the rest through the page cache, local files piece by piece.
Step next_step(Operation& operation);

// True if nothing is left to transfer.
bool advance(Operation& operation, std::uint64_t moved);

// Carries out a copy, on a thread that may block: copy_file_range(), or reads and writes where the file system has no
// copies. Looks at the deadline before each piece. Sets the results of the operation.
void copy_range(Operation& operation);

// True if the whole operation can be a transfer of pages by the ring: a direct one, or a buffered write.
bool moves_pages(Operation& operation);

// Call after a transfer of pages. True if the operation is complete. Otherwise it continues: after a piece of a
// buffered write with pages, else without, which also reports the error, if any.
bool pages_moved(Operation& operation, int result);

}  // namespace tutti

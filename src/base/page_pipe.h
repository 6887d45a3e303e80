// SPDX-License-Identifier: Apache-2.0
// Pages of a file on their way to a socket without being copied: a pipe that holds references to them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

// Move-only; not thread-safe. A default-constructed one is empty. What becomes of a page's content before the socket's
// reader has taken it is seen by that reader, as by anybody who reads while others write.
class PagePipe {
 public:
  static constexpr std::size_t kMost = 1 << 20;  // bytes one can hold

  PagePipe() = default;
  PagePipe(PagePipe&& other) noexcept;
  PagePipe& operator=(PagePipe&& other) noexcept;
  ~PagePipe();

  std::size_t size() const { return size_; }

  // Takes what there is of the range, up to the end of the file. False: not to be had like this, or not all of it, and
  // the pipe is empty. Waits for storage if the page cache does not have it.
  bool fill(int file, std::uint64_t offset, std::size_t length);

  // Moves up to `most` bytes to a socket that does not block. As send(2): -1 and errno.
  std::ptrdiff_t drain(int socket, std::size_t most);

 private:
  bool open();
  void release();

  int reading_ = -1, writing_ = -1;
  std::size_t size_ = 0;  // bytes that went in
  std::size_t left_ = 0;  // and are still there
};

}  // namespace tutti

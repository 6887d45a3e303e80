// SPDX-License-Identifier: Apache-2.0
// Bytes on their way between a file, a socket and memory by reference: a pipe that holds the pages they are in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// Move-only; not thread-safe. A default-constructed one is empty and closed. What becomes of a page's content before
// somebody has copied it out is seen by him, as by anybody who reads while others write.
class PagePipe {
 public:
  static constexpr std::size_t kMost = 1 << 20;    // bytes one can hold
  static constexpr std::size_t kLeast = 64 << 10;  // fewer are quicker copied than moved by reference

  PagePipe() = default;
  PagePipe(PagePipe&& other) noexcept;
  PagePipe& operator=(PagePipe&& other) noexcept;
  ~PagePipe();

  std::size_t size() const { return size_; }  // bytes that went in
  std::size_t left() const { return left_; }  // and are still there

  bool is_open() const { return reading_ >= 0; }

  // An empty one. False: there are none to be had, and it is closed.
  bool open();

  // In, if open. As recv(2) and send(2): how many bytes, or -1 and errno. EAGAIN: it is full, or the socket is empty.
  // The memory stays as it is until somebody has copied it out.
  std::ptrdiff_t take(int socket, std::size_t most);
  std::ptrdiff_t take(std::span<const std::byte> memory);

  // Takes what there is of the range, up to the end of the file. False: not to be had like this, or not all of it, and
  // it is closed. Waits for storage if the page cache does not have it.
  bool fill(int file, std::uint64_t offset, std::size_t length);

  // Out: by reference to a socket that does not block, or copied once, into a file or into memory.
  std::ptrdiff_t drain(int socket, std::size_t most);
  std::ptrdiff_t write(int file, std::uint64_t offset);
  bool read(std::span<std::byte> into);  // left() bytes

  // In and out by somebody else's calls, an io_uring's: where, and what splice(2) returned.
  int reading_end() const { return reading_; }
  int writing_end() const { return writing_; }
  std::ptrdiff_t came(std::ptrdiff_t count);
  std::ptrdiff_t went(std::ptrdiff_t count);

 private:
  void release();

  int reading_ = -1, writing_ = -1;
  std::size_t size_ = 0;
  std::size_t left_ = 0;
};

}  // namespace tutti

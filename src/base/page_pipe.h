// SPDX-License-Identifier: Apache-2.0
// A kernel pipe that moves pages between a file, a socket and memory by reference (splice(2), vmsplice(2)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tutti {

// Move-only; not thread-safe. A default-constructed pipe is empty and closed. The pipe holds references: changes to a
// page before its content was copied out are visible in the copy.
class PagePipe {
 public:
  static constexpr std::size_t kMost = 1 << 20;    // capacity in bytes
  static constexpr std::size_t kLeast = 64 << 10;  // below this size, copying is faster
  // For one buffered write to a local file. If more is written at once, Linux allocates larger units of its page cache.
  // Writing to these was up to seven times slower on a virtual machine (Linux 6.18, ext4).
  static constexpr std::size_t kFilePiece = 64 << 10;

  PagePipe() = default;
  PagePipe(PagePipe&& other) noexcept { swap(other); }
  PagePipe& operator=(PagePipe other) noexcept {
    swap(other);
    return *this;
  }
  ~PagePipe() {
    if (is_open()) release();
  }

  std::size_t size() const { return size_; }  // bytes put in since open()
  std::size_t left() const { return left_; }  // bytes put in and not yet taken out

  bool is_open() const { return reading_ >= 0; }

  // Makes this an open, empty pipe. False: no pipe is available, and this one is closed.
  bool open();

  // Put bytes in; the pipe is open. Return the number of bytes, or -1 and errno as recv(2) and send(2) do. EAGAIN: the
  // pipe is full, or the socket is empty. The caller keeps `memory` unchanged until its content was copied out.
  std::ptrdiff_t take(int socket, std::size_t most);
  std::ptrdiff_t take(std::span<const std::byte> memory);

  // Opens the pipe and puts in the range, up to the end of the file. False: the file does not support it or the pipe
  // could not take all of it, and the pipe is closed. Waits for storage if the range is not in the page cache.
  bool fill(int file, std::uint64_t offset, std::size_t length);

  // Take bytes out: by reference to a non-blocking socket, or with one copy into memory or a file, kFilePiece at most.
  std::ptrdiff_t drain(int socket, std::size_t most);
  std::ptrdiff_t write(int file, std::uint64_t offset);
  bool read(std::span<std::byte> into);  // left() bytes

  // For callers that run splice(2) themselves, such as an io_uring: the two descriptors, and the calls that record the
  // result of splice(2). They return their argument.
  int reading_end() const { return reading_; }
  int writing_end() const { return writing_; }
  std::ptrdiff_t put_in(std::ptrdiff_t count);
  std::ptrdiff_t took_out(std::ptrdiff_t count);

 private:
  void release();
  void swap(PagePipe& other) noexcept {
    std::swap(reading_, other.reading_);
    std::swap(writing_, other.writing_);
    std::swap(size_, other.size_);
    std::swap(left_, other.left_);
  }

  int reading_ = -1, writing_ = -1;
  std::size_t size_ = 0;
  std::size_t left_ = 0;
};

}  // namespace tutti

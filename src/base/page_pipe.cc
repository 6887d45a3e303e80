// SPDX-License-Identifier: Apache-2.0
#include "base/page_pipe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti {
namespace {

// Blocks SIGPIPE in this thread, because splice(2) has no MSG_NOSIGNAL: a closed connection gives only an error.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoPipeSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // Removes a pending SIGPIPE. If the peer closes after it has read some bytes, there is a signal but no error.
  void swallow() const {
    const timespec at_once{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&set_, nullptr, &at_once);
  }

 private:
  sigset_t set_, before_;
};

struct Ends {
  int reading = -1, writing = -1;
};

// Keeps unused pipes for reuse. At most kLimit pipes exist, used or not, because each needs two descriptors.
// Thread-safe.
class Pipes {
 public:
  static constexpr std::size_t kLimit = 64;

  static Pipes& instance() {
    static Pipes* const pipes = new Pipes;  // never destroyed: pipes may be released at process exit
    return *pipes;
  }

  Ends take() {
    {
      Lock lock(mutex_);
      if (!free_.empty()) {
        const Ends ends = free_.back();
        free_.pop_back();
        return ends;
      }
      if (count_ >= kLimit) return {};
      ++count_;
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
      forget();
      return {};
    }
    if (::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(PagePipe::kMost)) < 0) {
      drop({ends[0], ends[1]});
      return {};
    }
    return {ends[0], ends[1]};
  }

  void keep(const Ends& ends) {
    Lock lock(mutex_);
    free_.push_back(ends);
  }

  void drop(const Ends& ends) {
    ::close(ends.reading);
    ::close(ends.writing);
    forget();
  }

 private:
  void forget() {
    Lock lock(mutex_);
    --count_;
  }

  Mutex mutex_;
  std::vector<Ends> free_ TUTTI_GUARDED_BY(mutex_);
  std::size_t count_ TUTTI_GUARDED_BY(mutex_) = 0;
};

}  // namespace

bool PagePipe::open() {
  release();
  const Ends ends = Pipes::instance().take();
  reading_ = ends.reading;
  writing_ = ends.writing;
  return reading_ >= 0;
}

void PagePipe::release() {
  if (reading_ < 0) return;
  if (left_ == 0)
    Pipes::instance().keep({reading_, writing_});
  else
    Pipes::instance().drop({reading_, writing_});
  reading_ = writing_ = -1;
  size_ = left_ = 0;
}

bool PagePipe::fill(int file, std::uint64_t offset, std::size_t length) {
  if (length > kMost || !open()) return false;
  auto at = static_cast<loff_t>(offset);
  while (left_ < length) {
    const auto moved = ::splice(file, &at, writing_, nullptr, length - left_, SPLICE_F_NONBLOCK);
    if (moved == 0) break;  // the end of the file
    if (moved < 0) {
      release();
      return false;
    }
    put_in(moved);
  }
  return true;
}

std::ptrdiff_t PagePipe::take(int socket, std::size_t most) {
  return put_in(::splice(socket, nullptr, writing_, nullptr, most, SPLICE_F_NONBLOCK));
}

std::ptrdiff_t PagePipe::take(std::span<const std::byte> memory) {
  const iovec part{const_cast<std::byte*>(memory.data()), memory.size()};
  return put_in(::vmsplice(writing_, &part, 1, SPLICE_F_NONBLOCK));
}

std::ptrdiff_t PagePipe::drain(int socket, std::size_t most) {
  const NoPipeSignal quiet;
  const auto moved = ::splice(reading_, nullptr, socket, nullptr, most, SPLICE_F_NONBLOCK);
  const int error = errno;
  if (moved < static_cast<std::ptrdiff_t>(most)) quiet.swallow();
  errno = error;
  return took_out(moved);
}

std::ptrdiff_t PagePipe::write(int file, std::uint64_t offset) {
  auto at = static_cast<loff_t>(offset);
  return took_out(::splice(reading_, nullptr, file, &at, std::min(left_, kFilePiece), 0));
}

bool PagePipe::read(std::span<std::byte> into) {
  while (left_ > 0) {
    const auto moved = took_out(::read(reading_, into.data(), left_));
    if (moved <= 0 && errno != EINTR) return false;
    if (moved > 0) into = into.subspan(static_cast<std::size_t>(moved));
  }
  return true;
}

std::ptrdiff_t PagePipe::put_in(std::ptrdiff_t count) {
  if (count > 0) {
    size_ += static_cast<std::size_t>(count);
    left_ += static_cast<std::size_t>(count);
  }
  return count;
}

std::ptrdiff_t PagePipe::took_out(std::ptrdiff_t count) {
  if (count > 0) left_ -= static_cast<std::size_t>(count);
  return count;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Engine `posix`: operations go into one io_uring from any thread; one thread takes completions out.
#include <fmt/core.h>
#include <liburing.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "engine/engine.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kQuick = std::chrono::milliseconds(2);       // a write into the page cache takes no longer
constexpr auto kPatience = std::chrono::milliseconds(200);  // how long a slow one is remembered

// One system call's worth of an operation.
struct Step {
  int descriptor = -1;
  bool direct = false;
  const iovec* memory = nullptr;
  unsigned count = 0;
};

bool aligned(const void* address, std::uint64_t length) {
  return (reinterpret_cast<std::uintptr_t>(address) | length) % kDirectAlignment == 0;
}

// Whether the page cache has the range as far as the file goes, and its last page is up to date: what was read ahead
// comes in order. Not on kernels before 6.5.
bool is_cached(int descriptor, std::uint64_t offset, std::uint64_t length) {
  constexpr long kCachestat = 451;
  constexpr std::uint64_t kPage = 4096;
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  const std::uint64_t end = std::min<std::uint64_t>(offset + length, static_cast<std::uint64_t>(status.st_size));
  if (end <= offset) return false;
  struct {
    std::uint64_t offset, length;
  } range{offset, end - offset};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (syscall(kCachestat, descriptor, &range, &found, 0) != 0) return false;
  if (found.cached < (end - 1) / kPage - offset / kPage + 1) return false;
  char last = 0;
  const iovec byte{&last, 1};
  return preadv2(descriptor, &byte, 1, static_cast<off_t>(end - 1), RWF_NOWAIT) == 1;
}

// The longest run of pieces from where the operation stands that one call can move the same way. Direct where
// everything is aligned; the rest of an operation, its tail at least, through the page cache.
Step next_step(Operation& operation) {
  const Operation::Progress& progress = operation.progress;
  const std::size_t left = std::min<std::size_t>(operation.memory.size() - progress.piece, IOV_MAX);
  iovec* const first = &operation.memory[progress.piece];
  const Step buffered{operation.file->descriptor(), false, first, static_cast<unsigned>(left)};
  const int direct = operation.file->direct_descriptor();
  if (direct < 0 || progress.avoid_direct || progress.offset % kDirectAlignment != 0) return buffered;
  unsigned whole = 0;
  while (whole < left && aligned(first[whole].iov_base, first[whole].iov_len)) ++whole;
  if (whole > 0) return {direct, true, first, whole};
  if (!aligned(first->iov_base, 0) || first->iov_len < kDirectAlignment) return buffered;
  operation.progress.partial = {first->iov_base, first->iov_len / kDirectAlignment * kDirectAlignment};
  return {direct, true, &operation.progress.partial, 1};
}

// True once nothing is left to move.
bool advance(Operation& operation, std::uint64_t moved) {
  Operation::Progress& progress = operation.progress;
  operation.transferred += moved;
  progress.offset += moved;
  while (progress.piece < operation.memory.size()) {
    iovec& piece = operation.memory[progress.piece];
    const std::uint64_t here = std::min<std::uint64_t>(moved, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + here;
    piece.iov_len -= here;
    moved -= here;
    if (piece.iov_len > 0) return false;
    ++progress.piece;
  }
  return true;
}

// Around the page cache pages move as they are, if they are all there is to move.
bool moves_pages(Operation& operation) {
  if (operation.pages == nullptr || operation.file->direct_descriptor() < 0) return false;
  const std::uint64_t length = operation.length();
  if ((operation.offset | length) % kDirectAlignment != 0 || length > PagePipe::kMost) return false;
  if (operation.kind == Operation::Kind::kRead) return operation.pages->open();
  return operation.pages->left() == length;
}

// What is left of a write's pages, or what came of a read, is copied into the memory, and the rest goes there, too.
void leave_pages(Operation& operation) {
  operation.progress.paged = false;
  if (operation.kind == Operation::Kind::kWrite) return operation.gather();
  const std::size_t came = operation.pages->left();
  const bool complete = operation.pages->read({static_cast<std::byte*>(operation.memory[0].iov_base), came});
  assert(complete);
  (void)complete;
  *operation.pages = {};
  operation.pages = nullptr;
  advance(operation, came);
}

// True once the operation is over. Without pages it goes on where they did not do it, and shows what is wrong.
bool pages_moved(Operation& operation, int result) {
  const bool read = operation.kind == Operation::Kind::kRead;
  if (result > 0 && read) {
    operation.pages->came(result);
    if (operation.pages->size() == operation.length()) {
      operation.transferred = operation.pages->size();
      return true;
    }
  }
  if (result > 0 && !read) {
    operation.pages->went(result);
    if (advance(operation, static_cast<std::uint64_t>(result))) return true;
  }
  leave_pages(operation);
  return false;
}

// The ids under which the ring knows the rights of users. Not thread-safe.
class Personalities {
 public:
  explicit Personalities(io_uring& ring) : ring_(ring) {}

  // 0: this process's own rights. Negative: not to be had.
  int of(const std::shared_ptr<const Credentials>& owner) {
    if (*owner == own_credentials()) return 0;
    if (const auto found = ids_.find(owner); found != ids_.end()) return found->second;
    if (ids_.size() >= kLimit) forget_all();
    const ActingAs acting(*owner);
    if (!acting.ok()) return -EACCES;
    const int id = io_uring_register_personality(&ring_);
    if (id > 0) ids_.emplace(owner, id);
    return id > 0 ? id : -EACCES;
  }

 private:
  static constexpr std::size_t kLimit = 1024;

  // What is in flight keeps its own reference to the rights.
  void forget_all() {
    for (const auto& [owner, id] : ids_) io_uring_unregister_personality(&ring_, id);
    ids_.clear();
  }

  io_uring& ring_;
  std::unordered_map<std::shared_ptr<const Credentials>, int> ids_;  // by address, which the pointer keeps in use
};

class PosixEngine final : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const PosixOptions& options) {
    std::unique_ptr<PosixEngine> engine(new PosixEngine);
    const int status = io_uring_queue_init(options.entries, &engine->ring_, 0);
    if (status < 0)
      return fail(ErrorCode::kIo, fmt::format("cannot set up io_uring: {}", std::strerror(-status)), -status);
    engine->reaper_ = std::thread([self = engine.get()] { self->reap(); });
    return engine;
  }

  ~PosixEngine() override {
    if (!reaper_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      io_uring_sqe* entry = next_entry();
      io_uring_prep_nop(entry);
      io_uring_sqe_set_data(entry, nullptr);
      flush();
    }
    reaper_.join();
    io_uring_queue_exit(&ring_);
  }

  std::string name() const override { return "posix"; }
  bool takes_pages() const override { return true; }

  void submit(std::span<Operation* const> operations) override {
    std::vector<Operation*> done, pending;
    for (Operation* operation : operations) {
      operation->error = 0;
      operation->transferred = 0;
      operation->progress = {};
      operation->progress.offset = operation->offset;
      switch (start(*operation)) {
        case Start::kDone:
          done.push_back(operation);
          break;
        case Start::kPending:
          pending.push_back(operation);
          break;
        case Start::kJoined:
          break;
      }
    }
    issue(pending, done);
    deliver(done);
  }

 private:
  enum class Start { kDone, kPending, kJoined };

  PosixEngine() = default;

  Start start(Operation& operation) {
    if (operation.kind == Operation::Kind::kSync) return join_sync(operation);
    if (advance(operation, 0)) return Start::kDone;
    if (try_at_once(operation)) return Start::kDone;
    operation.progress.paged = moves_pages(operation);
    if (!operation.progress.paged) operation.gather();
    return Start::kPending;
  }

  // Group commit: a sync that comes while one runs cannot count on it to cover the writes before it; it shares the
  // next with everybody else who comes until that one starts.
  static Start join_sync(Operation& operation) {
    BackingFile::SyncGroup& group = operation.file->sync;
    std::lock_guard lock(group.mutex);
    if (group.failed != 0) {
      operation.error = group.failed;
      return Start::kDone;
    }
    if (group.running) {
      group.next.push_back(&operation);
      return Start::kJoined;
    }
    group.running = true;
    group.now.assign(1, &operation);
    return Start::kPending;
  }

  // What the page cache can take or give without waiting needs no ring and no second thread.
  bool try_at_once(Operation& operation) {
    BackingFile& file = *operation.file;
    if (file.direct_descriptor() >= 0) return false;
    if (operation.kind == Operation::Kind::kWrite) return write_at_once(operation);
    if (operation.pages != nullptr && take_pages(operation)) return true;
    while (true) {
      const Step step = next_step(operation);
      const ssize_t moved = preadv2(step.descriptor, step.memory, static_cast<int>(step.count),
                                    static_cast<off_t>(operation.progress.offset), RWF_NOWAIT);
      if (moved == 0) return true;  // the end of the file
      if (moved < 0) return false;
      if (advance(operation, static_cast<std::uint64_t>(moved))) return true;
    }
  }

  // Takes the pages themselves where the page cache has all of them.
  static bool take_pages(Operation& operation) {
    const BackingFile& file = *operation.file;
    const std::uint64_t length = operation.length();
    if (!file.local() || !is_cached(file.descriptor(), operation.offset, length)) return false;
    if (!operation.pages->fill(file.descriptor(), operation.offset, length)) return false;
    operation.transferred = operation.pages->size();
    return true;
  }

  // Some file systems (ext4 among them) cannot say whether a write would wait. Where the page cache is this machine's
  // own it hardly ever does; as soon as one has taken long, the ring and its threads get them for a while.
  bool write_at_once(Operation& operation) {
    BackingFile& file = *operation.file;
    const bool ask = file.writes_may_nowait.load(std::memory_order_relaxed);
    const bool quick =
        file.local() && Clock::now().time_since_epoch() >= patient_until_.load(std::memory_order_relaxed);
    if (!ask && !quick) return false;
    const ActingAs acting(*file.owner());
    if (!acting.ok()) return false;
    if (operation.pages != nullptr) {
      if (quick && !write_pages(operation)) return false;  // the ring finds out why
      operation.gather();
      if (advance(operation, 0)) return true;
    }
    while (true) {
      const Step step = next_step(operation);
      const Stopwatch stopwatch(*this);
      const ssize_t moved = pwritev2(step.descriptor, step.memory, static_cast<int>(step.count),
                                     static_cast<off_t>(operation.progress.offset), ask ? RWF_NOWAIT : 0);
      if (moved < 0 && ask && errno == EOPNOTSUPP) file.writes_may_nowait.store(false, std::memory_order_relaxed);
      if (moved <= 0) return false;  // the ring finds out why
      if (advance(operation, static_cast<std::uint64_t>(moved))) return true;
    }
  }

  // What lies before the pages, and the pages. False: it failed somewhere.
  bool write_pages(Operation& operation) {
    const int descriptor = operation.file->descriptor();
    while (operation.pages->left() > 0) {
      const std::uint64_t at = operation.progress.offset, ahead = operation.pages_at;
      const Stopwatch stopwatch(*this);
      const ssize_t moved =
          operation.transferred < ahead
              ? pwrite(descriptor, operation.memory[0].iov_base, ahead - operation.transferred, static_cast<off_t>(at))
              : operation.pages->write(descriptor, at);
      if (moved <= 0) return false;
      advance(operation, static_cast<std::uint64_t>(moved));
    }
    return true;
  }

  // Remembers writes that waited long; to be pushed aside by other threads is no sign of a slow disk.
  class Stopwatch {
   public:
    explicit Stopwatch(PosixEngine& engine) : engine_(engine) {}
    ~Stopwatch() {
      if (const auto end = Clock::now(); end - begun_ > kQuick && times_asleep() != asleep_)
        engine_.patient_until_.store((end + kPatience).time_since_epoch(), std::memory_order_relaxed);
    }

   private:
    static long times_asleep() {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    }

    PosixEngine& engine_;
    const long asleep_ = times_asleep();
    const Clock::time_point begun_ = Clock::now();
  };

  // Puts the operations' next steps into the ring; those that cannot be started go to `done`.
  void issue(std::span<Operation* const> operations, std::vector<Operation*>& done) {
    if (operations.empty()) return;
    std::lock_guard lock(mutex_);
    for (Operation* operation : operations)
      if (!queue(*operation)) done.push_back(operation);
    flush();
  }

  bool queue(Operation& operation) {
    int personality = 0;
    if (operation.kind == Operation::Kind::kWrite) {
      // Rights were checked when the file was opened; writes still need them for quotas and for what happens to
      // set-user-id bits.
      personality = personalities_.of(operation.file->owner());
      if (personality < 0) {
        operation.error = -personality;
        return false;
      }
    }
    io_uring_sqe* entry = next_entry();
    if (operation.kind == Operation::Kind::kSync) {
      io_uring_prep_fsync(entry, operation.file->descriptor(), 0);
    } else if (operation.progress.paged) {
      prepare_splice(*entry, operation);
    } else {
      const Step step = next_step(operation);
      operation.progress.direct = step.direct;
      if (operation.kind == Operation::Kind::kRead)
        io_uring_prep_readv(entry, step.descriptor, step.memory, step.count, operation.progress.offset);
      else
        io_uring_prep_writev(entry, step.descriptor, step.memory, step.count, operation.progress.offset);
    }
    entry->personality = static_cast<std::uint16_t>(personality);
    io_uring_sqe_set_data(entry, &operation);
    return true;
  }

  static void prepare_splice(io_uring_sqe& entry, const Operation& operation) {
    const int file = operation.file->direct_descriptor();
    const auto offset = static_cast<std::int64_t>(operation.progress.offset);
    const auto length = static_cast<unsigned>(operation.length());
    if (operation.kind == Operation::Kind::kRead)
      io_uring_prep_splice(&entry, file, offset, operation.pages->writing_end(), -1, length, 0);
    else
      io_uring_prep_splice(&entry, operation.pages->reading_end(), -1, file, offset, length, 0);
  }

  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    while (entry == nullptr) {
      flush();
      entry = io_uring_get_sqe(&ring_);
    }
    return entry;
  }

  // The kernel takes everything unless it is short of memory or of room for completions, which reap() makes.
  void flush() {
    while (io_uring_sq_ready(&ring_) > 0)
      if (io_uring_submit(&ring_) < 0) std::this_thread::yield();
  }

  void reap() {
    struct Completion {
      Operation* operation;
      int result;
    };
    std::array<io_uring_cqe*, 64> entries;
    std::array<Completion, 64> completions;
    std::vector<Operation*> done, again;
    bool stopped = false;
    while (!stopped) {
      io_uring_cqe* first = nullptr;
      if (io_uring_wait_cqe(&ring_, &first) < 0) continue;
      const unsigned count = io_uring_peek_batch_cqe(&ring_, entries.data(), entries.size());
      for (unsigned i = 0; i < count; ++i)
        completions[i] = {static_cast<Operation*>(io_uring_cqe_get_data(entries[i])), entries[i]->res};
      io_uring_cq_advance(&ring_, count);
      // Whoever submitted these held the lock while doing so: taking it here orders their writes before our reads.
      { std::lock_guard lock(mutex_); }
      for (unsigned i = 0; i < count; ++i) {
        if (completions[i].operation == nullptr)
          stopped = true;
        else
          finish(*completions[i].operation, completions[i].result, done, again);
      }
      issue(again, done);
      deliver(done);
      done.clear();
      again.clear();
    }
  }

  static void finish(Operation& operation, int result, std::vector<Operation*>& done, std::vector<Operation*>& again) {
    // A thread that submitted and ended took its requests with it: they have not happened and start over.
    const bool repeat = result == -EINTR || result == -EAGAIN || result == -ECANCELED;
    if (operation.kind == Operation::Kind::kSync)
      return repeat ? again.push_back(&operation) : finish_sync(operation, result, done, again);
    if (operation.progress.paged) return (pages_moved(operation, result) ? done : again).push_back(&operation);
    if (result == -EINVAL && operation.progress.direct) {
      operation.progress.avoid_direct = true;
      return again.push_back(&operation);
    }
    if (repeat || (result > 0 && !advance(operation, static_cast<std::uint64_t>(result))))
      return again.push_back(&operation);
    if (result < 0) operation.error = -result;
    if (result == 0 && operation.kind == Operation::Kind::kWrite) operation.error = EIO;
    done.push_back(&operation);
  }

  static void finish_sync(Operation& leader, int result, std::vector<Operation*>& done,
                          std::vector<Operation*>& again) {
    const std::shared_ptr<BackingFile> file = leader.file;
    BackingFile::SyncGroup& group = file->sync;
    std::lock_guard lock(group.mutex);
    if (result < 0) {
      group.failed = -result;
      file->poisoned = true;
      group.now.insert(group.now.end(), group.next.begin(), group.next.end());
      group.next.clear();
    }
    for (Operation* operation : group.now) operation->error = group.failed;
    done.insert(done.end(), group.now.begin(), group.now.end());
    group.now.clear();
    group.now.swap(group.next);
    group.running = !group.now.empty();
    if (group.running) again.push_back(group.now.front());
  }

  std::atomic<Clock::duration> patient_until_{
      Clock::duration::min()};  // since the clock's epoch; until then no write is made at once

  std::mutex mutex_;  // guards submission
  io_uring ring_{};
  Personalities personalities_{ring_};
  std::thread reaper_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_posix_engine(const PosixOptions& options) {
  return PosixEngine::create(options);
}

}  // namespace tutti

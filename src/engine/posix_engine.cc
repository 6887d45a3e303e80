// SPDX-License-Identifier: Apache-2.0
// Engine `posix`: any thread submits operations to one io_uring; one thread processes its completions.
#include <fmt/core.h>
#include <liburing.h>
#include <sys/resource.h>
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
#include <utility>

#include "base/clock.h"
#include "base/live_world.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/posix_steps.h"
#include "engine/ring_timer.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCopiers = 2;                           // threads of each user
constexpr auto kSlowWrite = std::chrono::milliseconds(2);     // a longer write had to wait for the device
constexpr auto kUseRingFor = std::chrono::milliseconds(200);  // after a slow write

// Registers the credentials of users with the ring. Not thread-safe.
class Personalities {
 public:
  explicit Personalities(io_uring& ring) : ring_(ring) {}

  // The ring's id for `owner`. 0: this process's own credentials. Negative: -errno.
  int of(const std::shared_ptr<const Credentials>& owner) {
    if (*owner == own_credentials()) return 0;
    if (const auto found = ids_.find(owner); found != ids_.end()) return found->second;
    const ActingAs acting(*owner);
    if (!acting.ok()) return -EACCES;
    const int id = io_uring_register_personality(&ring_);
    if (id > 0) ids_.emplace(owner, id);
    return id > 0 ? id : -EACCES;
  }

  bool full() const { return ids_.size() >= kLimit; }
  // Entries that were submitted keep their own reference to the credentials; others must not name any.
  void forget_all() {
    for (const auto& [owner, id] : ids_) io_uring_unregister_personality(&ring_, id);
    ids_.clear();
  }

 private:
  static constexpr std::size_t kLimit = 1024;

  io_uring& ring_;
  std::unordered_map<std::shared_ptr<const Credentials>, int>
      ids_;  // keyed by address; the pointer keeps the address unique
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
    copiers_.reset();
    {
      Lock lock(mutex_);
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
      operation->expired = false;
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
    if (operation.kind == Operation::Kind::kCopy) return begin_copy(operation);
    if (advance(operation, 0)) return Start::kDone;
    if (try_at_once(operation)) return Start::kDone;
    operation.progress.paged = moves_pages(operation);
    if (!operation.progress.paged) operation.copy_pages_to_memory();
    return Start::kPending;
  }

  // The ring has no copies, so threads make them.
  Start begin_copy(Operation& operation) {
    Lock lock(mutex_);
    if (!copiers_) copiers_ = make_live_workers(kCopiers);
    copiers_->post(operation.file->owner()->uid, [&operation] {
      copy_range(operation);
      Operation* const done = &operation;
      deliver({&done, 1});
    });
    return Start::kJoined;
  }

  // Group commit: a running sync may not cover writes that completed after it started. A sync submitted in the meantime
  // therefore joins the next one.
  static Start join_sync(Operation& operation) {
    BackingFile::SyncGroup& group = operation.file->sync;
    Lock lock(group.mutex);
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

  // Transfers that the page cache completes without waiting bypass the ring and its threads.
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

  // Passes page references if the page cache has all of them.
  static bool take_pages(Operation& operation) {
    const BackingFile& file = *operation.file;
    const std::uint64_t length = operation.length();
    if (!file.local() || !is_cached(file.descriptor(), operation.offset, length)) return false;
    if (!operation.pages->fill(file.descriptor(), operation.offset, length)) return false;
    operation.transferred = operation.pages->size();
    return true;
  }

  // Some file systems (such as ext4) do not support RWF_NOWAIT for writes. On local file systems a buffered write
  // rarely waits, so it is made directly. After a slow write, all writes use the ring for kUseRingFor.
  bool write_at_once(Operation& operation) {
    BackingFile& file = *operation.file;
    const bool ask = file.writes_may_nowait.load(std::memory_order_relaxed);
    const bool quick =
        file.local() && Clock::now().time_since_epoch() >= use_ring_until_.load(std::memory_order_relaxed);
    if (!ask && !quick) return false;
    const ActingAs acting(*file.owner());
    if (!acting.ok()) return false;
    if (operation.pages != nullptr) {
      if (quick && !write_pages(operation)) return false;  // the ring finds out why
      operation.copy_pages_to_memory();
      if (advance(operation, 0)) return true;
    }
    while (true) {
      if (!operation.in_time()) return true;
      const Step step = next_step(operation);
      const SlowWriteDetector detector(*this);
      const ssize_t moved = pwritev2(step.descriptor, step.memory, static_cast<int>(step.count),
                                     static_cast<off_t>(operation.progress.offset), ask ? RWF_NOWAIT : 0);
      if (moved < 0 && ask && errno == EOPNOTSUPP) file.writes_may_nowait.store(false, std::memory_order_relaxed);
      if (moved <= 0) return false;  // the ring finds out why
      if (advance(operation, static_cast<std::uint64_t>(moved))) return true;
    }
  }

  // Writes the bytes before the pages, then the pages. False: an error occurred.
  bool write_pages(Operation& operation) {
    const int descriptor = operation.file->descriptor();
    while (operation.pages->left() > 0) {
      if (!operation.in_time()) return false;
      const std::uint64_t at = operation.progress.offset, ahead = operation.pages_at;
      const SlowWriteDetector detector(*this);
      const ssize_t moved =
          operation.transferred < ahead
              ? pwrite(descriptor, operation.memory[0].iov_base, ahead - operation.transferred, static_cast<off_t>(at))
              : operation.pages->write(descriptor, at);
      if (moved <= 0) return false;
      advance(operation, static_cast<std::uint64_t>(moved));
    }
    return true;
  }

  // Detects a slow write. Only counts if the thread slept voluntarily: preemption does not mean a slow disk.
  class SlowWriteDetector {
   public:
    explicit SlowWriteDetector(PosixEngine& engine) : engine_(engine) {}
    ~SlowWriteDetector() {
      if (const auto end = Clock::now(); end - begun_ > kSlowWrite && voluntary_switches() != switches_before_)
        engine_.use_ring_until_.store((end + kUseRingFor).time_since_epoch(), std::memory_order_relaxed);
    }

   private:
    static long voluntary_switches() {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    }

    PosixEngine& engine_;
    const long switches_before_ = voluntary_switches();
    const Clock::time_point begun_ = Clock::now();
  };

  // Submits the operations' next steps to the ring. Operations that cannot be started are appended to `done`.
  void issue(std::span<Operation* const> operations, std::vector<Operation*>& done) {
    if (operations.empty()) return;
    Lock lock(mutex_);
    for (Operation* operation : operations)
      if (!queue(*operation)) done.push_back(operation);
    flush();
  }

  bool queue(Operation& operation) TUTTI_REQUIRES(mutex_) {
    if (!operation.in_time()) return false;
    int personality = 0;
    if (operation.kind == Operation::Kind::kWrite) {
      // Rights were checked in open(). Writes still need the credentials for quotas and to clear set-user-id bits.
      if (personalities_.full()) {
        flush();
        personalities_.forget_all();
      }
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
    if (operation.kind == Operation::Kind::kWrite && operation.deadline != TimePoint::max()) watch(operation);
    return true;
  }

  // ---- deadlines of writes in the ring ----
  // The kernel may keep an entry for one of its threads, or until a file is ready. A timeout entry in the ring
  // (ring_timer.h) makes reap() cancel what is late. The kernel ends a cancelled write with ECANCELED or
  // EINTR, and finish() then finds that its time is over.

  void watch(Operation& operation) TUTTI_REQUIRES(mutex_) {
    operation.progress.in_ring = in_ring_.size();
    in_ring_.push_back(&operation);
    set_timer(operation.deadline);
  }

  void unwatch(Operation& operation) TUTTI_REQUIRES(mutex_) {
    const std::size_t index = std::exchange(operation.progress.in_ring, SIZE_MAX);
    if (index == SIZE_MAX) return;
    in_ring_[index] = in_ring_.back();
    in_ring_[index]->progress.in_ring = index;
    operation.progress.in_ring = SIZE_MAX;  // it may be the last one
    in_ring_.pop_back();
  }

  void set_timer(TimePoint deadline) TUTTI_REQUIRES(mutex_) {
    const auto left = timer_.watch(deadline, real_clock().steady());
    if (!left) return;
    io_uring_sqe* entry = next_entry();
    __kernel_timespec time{};
    time.tv_sec = *left / std::chrono::seconds(1);
    time.tv_nsec = (*left % std::chrono::seconds(1)).count();
    io_uring_prep_timeout(entry, &time, 0, 0);
    io_uring_sqe_set_data(entry, &timer_entry_);
    flush();  // the kernel copies `time`
  }

  // A timeout has ended.
  void cancel_late(TimePoint now) TUTTI_REQUIRES(mutex_) {
    TimePoint next = TimePoint::max();
    for (Operation* operation : in_ring_) {
      if (operation->deadline >= now) {
        next = std::min(next, operation->deadline);
        continue;
      }
      io_uring_sqe* entry = next_entry();
      io_uring_prep_cancel(entry, operation, 0);
      io_uring_sqe_set_data(entry, &cancel_entry_);
    }
    flush();
    set_timer(next);
  }

  static void prepare_splice(io_uring_sqe& entry, const Operation& operation) {
    const int direct = operation.file->direct_descriptor();
    const int file = direct >= 0 ? direct : operation.file->descriptor();
    const auto offset = static_cast<std::int64_t>(operation.progress.offset);
    if (operation.kind == Operation::Kind::kRead) {
      const auto length = static_cast<unsigned>(operation.length());
      return io_uring_prep_splice(&entry, file, offset, operation.pages->writing_end(), -1, length, 0);
    }
    const std::size_t most = direct >= 0 ? operation.length() : PagePipe::kFilePiece;
    const auto length = static_cast<unsigned>(std::min(operation.pages->left(), most));
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

  // Submission fails only if the kernel is short of memory or of completion entries, which reap() frees.
  void flush() {
    while (io_uring_sq_ready(&ring_) > 0)
      if (io_uring_submit(&ring_) < 0) std::this_thread::yield();
  }

  // The end of an entry of the ring.
  struct Completion {
    void* data = nullptr;  // nullptr: the engine stops
    int result = 0;
    // nullptr: of a timer or of a cancellation.
    Operation* operation() const {
      return data == &timer_entry_ || data == &cancel_entry_ ? nullptr : static_cast<Operation*>(data);
    }
  };

  // The submitting threads held the lock: locking it here also orders their writes before our reads.
  void take_out(std::span<const Completion> completions) {
    Lock lock(mutex_);
    bool timer_ended = false;
    for (const Completion& completion : completions) {
      timer_ended = timer_ended || completion.data == &timer_entry_;
      if (completion.data != nullptr && completion.operation() != nullptr) unwatch(*completion.operation());
    }
    if (const TimePoint now = real_clock().steady(); timer_ended && timer_.ended(now)) cancel_late(now);
  }

  void reap() {
    std::array<io_uring_cqe*, 64> entries;
    std::array<Completion, 64> completions;
    std::vector<Operation*> done, again;
    bool stopped = false;
    while (!stopped) {
      io_uring_cqe* first = nullptr;
      if (io_uring_wait_cqe(&ring_, &first) < 0) continue;
      const unsigned count = io_uring_peek_batch_cqe(&ring_, entries.data(), entries.size());
      for (unsigned i = 0; i < count; ++i) completions[i] = {io_uring_cqe_get_data(entries[i]), entries[i]->res};
      io_uring_cq_advance(&ring_, count);
      take_out(std::span(completions).first(count));
      for (const Completion& completion : std::span(completions).first(count)) {
        if (completion.data == nullptr)
          stopped = true;
        else if (completion.operation() != nullptr)
          finish(*completion.operation(), completion.result, done, again);
      }
      issue(again, done);
      deliver(done);
      done.clear();
      again.clear();
    }
  }

  static void finish(Operation& operation, int result, std::vector<Operation*>& done, std::vector<Operation*>& again) {
    // The kernel cancels requests of a thread that has ended. They were not executed and are submitted again.
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
    Lock lock(group.mutex);
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

  std::atomic<Clock::duration> use_ring_until_{Clock::duration::min()};  // time since the clock's epoch

  // Addresses that mark entries of the ring that belong to no operation.
  static inline char timer_entry_ = 0, cancel_entry_ = 0;

  Mutex mutex_;                                               // guards submission
  std::vector<Operation*> in_ring_ TUTTI_GUARDED_BY(mutex_);  // writes with deadlines
  RingTimer timer_ TUTTI_GUARDED_BY(mutex_);
  io_uring ring_{};
  Personalities personalities_{ring_};
  std::unique_ptr<Workers> copiers_ TUTTI_GUARDED_BY(mutex_);  // from the first copy on
  std::thread reaper_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_posix_engine(const PosixOptions& options) {
  return PosixEngine::create(options);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Engines execute a node's operations on open files asynchronously.
#pragma once

#include <sys/uio.h>
#include <tutti/base.h>
#include <tutti/sched.h>

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/page_pipe.h"
#include "base/world.h"
#include "engine/backing_file.h"
#include "engine/device.h"

namespace tutti {

class CompletionSink;

// One transfer between memory and a contiguous range of a file, one copy between two files, or one sync of a file. The
// caller owns it, and must not move, change or free it between submit() and the sink's completed().
struct Operation {
  enum class Kind : std::uint8_t { kRead, kWrite, kSync, kCopy };

  Kind kind = Kind::kRead;
  std::shared_ptr<BackingFile> file{};
  std::uint64_t offset = 0;
  boost::container::small_vector<iovec, 1>
      memory{};  // contiguous in the file from `offset` on; this list is unspecified after completion
  // kCopy: from here to `file`, without `memory`.
  std::shared_ptr<BackingFile> source{};
  std::uint64_t source_offset = 0, copy_length = 0;
  CompletionSink* sink = nullptr;
  // Consecutive operations of one submit() with the same batch are parts of one batch of the scheduler; nullptr: it has
  // one part. Never dereferenced.
  const void* batch = nullptr;
  // A read may put its bytes here instead of in `memory`; then pages->size() is not 0 and equals `transferred`.
  // A write with one element in `memory` may have its bytes from `pages_at` on here instead.
  PagePipe* pages = nullptr;
  std::size_t pages_at = 0;
  // Of a write or copy, on Clock::steady(). Engines that change files begin no system call for it later. What waits in
  // the kernel then is cancelled, as far as the kernel has not begun it.
  TimePoint deadline = TimePoint::max();

  // Valid in completed():
  int error = 0;                  // 0 or errno
  bool expired = false;           // the rest was not transferred because of the deadline; `error` is ETIMEDOUT
  std::uint64_t transferred = 0;  // less than length() after an error, or at the end of the file that is read

  struct Progress {  // used by the engine only
    std::size_t piece = 0;
    std::uint64_t offset = 0;
    iovec partial{};
    bool direct = false;
    bool avoid_direct = false;
    bool paged = false;              // the current transfer uses `pages`
    std::size_t in_ring = SIZE_MAX;  // index among the writes in the ring; SIZE_MAX: it is not there
  } progress{};
  struct Modelled {  // used by the modelled engine only
    CompletionSink* sink = nullptr;
    Operation* next = nullptr;  // the next part of the same request of the device
    bool device_done = false, data_done = false;
  } modelled{};

  std::uint64_t length() const;
  // Call it directly before a system call. False, with `expired` and `error`: the deadline has passed.
  bool in_time();
  // For a write with pages: copies the remaining pages into `memory` and clears `pages`.
  void copy_pages_to_memory();
};

// Receives completed operations. Called on any thread of the engine or inside submit(): must not block, may submit.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void completed(std::span<Operation* const> operations) = 0;
};

// All members are thread-safe. All operations must have completed before destruction.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;

  // True if writes with `pages` are faster. Every engine accepts them.
  virtual bool takes_pages() const { return false; }

  // Operations may run in any order and in parallel. Each one completes exactly once.
  virtual void submit(std::span<Operation* const> operations) = 0;

  void submit(Operation& operation) {
    Operation* one = &operation;
    submit(std::span<Operation* const>(&one, 1));
  }
};

// Calls completed() of each operation's sink, once for consecutive operations with the same sink.
void deliver(std::span<Operation* const> operations);

// Transfers and stores nothing: writes succeed, reads succeed with full length and leave the memory unchanged.
std::unique_ptr<Engine> make_null_engine();

struct PosixOptions {
  unsigned entries = 256;  // of the submission ring
};

// Uses any mounted file system through one io_uring: one vectored system call per Operation, with the rights of
// BackingFile::owner(). Files with a direct descriptor bypass the page cache if offset, length and memory are multiples
// of kDirectAlignment; `pages` are then transferred without a copy. Syncs of one open file that are submitted while a
// sync runs share the next sync.
Result<std::unique_ptr<Engine>> make_posix_engine(const PosixOptions& options = {});

inline constexpr std::size_t kDirectAlignment = 4096;

struct ModelledOptions {
  DeviceFigures figures{};
  // Position of files on this device: it holds every `stripe_count`th stripe of a file, densely packed, starting at a
  // pseudo-random position within `spread` that depends on the file and the seed.
  Bytes stripe_size{64 << 10};
  std::uint64_t stripe_count = 1;
  Bytes spread{std::uint64_t{16} << 30};
  std::uint64_t seed = 0;
  double slowdown = 1;  // factor on all service times
  // Position of an operation on the device; replaces the rule above.
  std::function<std::uint64_t(const Operation&)> position{};
};

// An engine that models the time of a device; another engine handles the data.
class ModelledEngine : public Engine {
 public:
  // Service times of operations that start from now on are multiplied by `factor`.
  virtual void set_slowdown(double factor) = 0;
  // Total time in which the device was busy.
  virtual Duration busy() const = 0;
};

// Operations take the time that the device would need, on the world's clock. Parts of a batch that adjoin on the device
// are one request of the device. They wait in the device's queue and are
// served in the device's order; the caller limits the queue depth. The world outlives the engine.
std::unique_ptr<ModelledEngine> make_modelled_engine(World& world, std::unique_ptr<Engine> inner,
                                                     const ModelledOptions& options);

// An injected fault: an errno, or a short transfer without error.
struct Fault {
  int error = 0;
  std::uint64_t at_most = UINT64_MAX;
};

// For tests: calls `rule` for every operation (on any thread) before `inner` gets it.
std::unique_ptr<Engine> make_faulty_engine(std::unique_ptr<Engine> inner,
                                           std::function<std::optional<Fault>(const Operation&)> rule);

}  // namespace tutti

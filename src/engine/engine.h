// SPDX-License-Identifier: Apache-2.0
// Where a node's data goes: engines take operations on open files and say when they are done.
#pragma once

#include <sys/uio.h>
#include <tutti/base.h>
#include <tutti/sched.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/page_pipe.h"
#include "engine/backing_file.h"
#include "engine/device.h"

namespace tutti {

class CompletionSink;

// One transfer between memory and a contiguous range of a file, or one sync of a file. Belongs to the caller, stays
// where it is from submit() until its sink has it back, and is not touched by the caller in between.
struct Operation {
  enum class Kind : std::uint8_t { kRead, kWrite, kSync };

  Kind kind = Kind::kRead;
  std::shared_ptr<BackingFile> file{};
  std::uint64_t offset = 0;
  std::vector<iovec> memory{};  // piece after piece from `offset` on, no gaps; its content is unspecified afterwards
  CompletionSink* sink = nullptr;
  // A read may leave its bytes here instead of in `memory`: pages->size() says so, and is `transferred` then.
  // A write of one piece of memory may bring some of its bytes here, those from `pages_at` on.
  PagePipe* pages = nullptr;
  std::size_t pages_at = 0;

  // Valid in completed():
  int error = 0;                  // 0 or errno
  std::uint64_t transferred = 0;  // a read that met the end of the file, or anything that failed: less than asked for

  struct Progress {  // the engine's own
    std::size_t piece = 0;
    std::uint64_t offset = 0;
    iovec partial{};
    bool direct = false;
    bool avoid_direct = false;
    bool paged = false;  // what moves now are pages
  } progress{};

  std::uint64_t length() const;
  // Of a write: what its pages still hold goes where it belongs in its memory, and there are no pages any more.
  void gather();
};

// Gets operations back, from any thread of the engine or from within submit(): must not block, may submit.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void completed(std::span<Operation* const> operations) = 0;
};

// All members are thread-safe. Destruction needs every operation to be back.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;

  // Whether it is good for writes to bring pages. Operations may do so in any case.
  virtual bool takes_pages() const { return false; }

  // Operations may be served in any order and at once. Everything submitted comes back exactly once.
  virtual void submit(std::span<Operation* const> operations) = 0;

  void submit(Operation& operation) {
    Operation* one = &operation;
    submit(std::span<Operation* const>(&one, 1));
  }
};

// Hands each operation to its own sink, those of one sink that follow each other in one call.
void deliver(std::span<Operation* const> operations);

// Moves nothing and stores nothing: writes succeed, reads leave the memory as it is and always fill it.
std::unique_ptr<Engine> make_null_engine();

struct PosixOptions {
  unsigned entries = 256;  // of the submission ring
};

// Any file system the kernel has mounted, through one io_uring: a vectored operation per Operation, with the rights
// of the file's owner. Files with a direct descriptor are read and written around the page cache where offset,
// length and memory are multiples of kDirectAlignment, and through it where not; pages move between them and the device
// without a copy. Syncs of one open file that come while one runs share the next.
Result<std::unique_ptr<Engine>> make_posix_engine(const PosixOptions& options = {});

inline constexpr std::size_t kDirectAlignment = 4096;

struct ModelledOptions {
  DeviceFigures figures{};
  // How files lie on this device: it holds every `stripe_count`th stripe of a file, densely, from a place on that is
  // the file's own, somewhere in `spread`; the seed decides where.
  Bytes stripe_size{64 << 10};
  std::uint64_t stripe_count = 1;
  Bytes spread{std::uint64_t{16} << 30};
  std::uint64_t seed = 0;
  double slowdown = 1;  // takes so many times as long as the figures say
};

// Takes the time a device would take, in real time: the same model as the simulator's. What is submitted waits in the
// device's own queue and is served by its own order; how much that is, is the caller's choice.
std::unique_ptr<Engine> make_modelled_engine(std::unique_ptr<Engine> inner, const ModelledOptions& options);

// What goes wrong with an operation: an error instead of it, or fewer bytes than asked for with no error.
struct Fault {
  int error = 0;
  std::uint64_t at_most = UINT64_MAX;
};

// For tests: asks `rule` about every operation (from any thread) before handing it to `inner`.
std::unique_ptr<Engine> make_faulty_engine(std::unique_ptr<Engine> inner,
                                           std::function<std::optional<Fault>(const Operation&)> rule);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The two ends of a transfer (transfer.h), each local or in the cluster. Not thread-safe except where stated.
#pragma once

#include <tutti/client.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "stop_signals.h"

namespace tutti::cli {

// A part of a file that is mapped into memory, for system calls. This process itself must not touch it: it would be
// ended by a signal if another one made the file shorter. A system call gives EFAULT then. Move-only.
class MappedPart {
 public:
  MappedPart() = default;
  explicit MappedPart(std::span<const std::byte> memory) : memory_(memory) {}
  MappedPart(MappedPart&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  MappedPart& operator=(MappedPart&&) = delete;
  ~MappedPart();
  std::span<const std::byte> memory() const { return memory_; }

 private:
  std::span<const std::byte> memory_{};
};

// Counts requests of many files that are under way, so that a thread can wait for all their replies together: it is
// woken once instead of once per reply. Thread-safe.
class Replies {
 public:
  void begin() {
    const Lock lock(mutex_);
    ++missing_;
  }
  void end() {
    const Lock lock(mutex_);
    if (--missing_ == 0) complete_.notify_all();
  }
  // Waits until every request that has begun has ended.
  void wait() {
    Lock lock(mutex_);
    complete_.wait(lock, [this]() TUTTI_REQUIRES(mutex_) { return missing_ == 0; });
  }

 private:
  Mutex mutex_;
  std::condition_variable_any complete_;
  std::size_t missing_ TUTTI_GUARDED_BY(mutex_) = 0;
};

// The result of a request that is sent before its result is needed, so that the requests of many files are under way
// at the same time. The reply may arrive after this object is gone.
template <typename T>
class SentAhead {
 public:
  // Pass the result to the request as `done`.
  std::function<void(Result<T>)> expect(std::shared_ptr<Replies> replies) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    result_ = promise->get_future();
    replies->begin();
    return [promise = std::move(promise), replies = std::move(replies)](Result<T> result) {
      promise->set_value(std::move(result));
      replies->end();
    };
  }
  bool sent() const { return result_.valid(); }
  // Waits. Once per request.
  Result<T> take() { return result_.get(); }

 private:
  std::future<Result<T>> result_;
};

// An open file that is read from its beginning to its end.
class Source {
 public:
  virtual ~Source() = default;

  // The status of the file after it was opened, and the current one.
  virtual const FileStatus& opened() const = 0;
  virtual Result<FileStatus> status() = 0;
  // The permission bits for a copy. Nothing: the source has no meaningful permissions (standard input).
  virtual std::optional<std::uint32_t> permissions() const = 0;
  // Fills `into` from `offset` unless the file ends earlier. kStopped: a signal arrived. If the size of the file is not
  // known, parts must be read in order, one at a time; else several threads may read.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  // Instead of read(): all bytes of this part, without a copy. Empty: not possible; read() finds out why.
  virtual MappedPart map(std::uint64_t /*offset*/, std::size_t /*length*/) { return {}; }
  // The file, if it is in the cluster; else nullptr.
  virtual File* cluster_file() { return nullptr; }
  // Call at the end. An error if the file was changed while it was read and is not longer than before, so that the copy
  // may be neither the old nor the new content.
  virtual Result<void> check_end(std::uint64_t bytes_read) = 0;
};

// A file that is to be written. Call look(), create(), write() or copy() repeatedly, stabilise() if the data must
// survive a power failure, then commit().
//
// begin_look(), begin_create(), begin_write() and begin_commit() are optional: they send the first request of the call
// of the same name, which then waits for the reply. Nothing happens here for local files.
class Destination {
 public:
  virtual ~Destination() = default;

  virtual void begin_look() {}
  virtual void begin_create(std::optional<std::uint32_t> /*permissions*/) {}
  virtual void begin_commit() {}

  // The status of the existing file with this name, if any; symbolic links are followed. Changes nothing. An error if
  // the existing file cannot be replaced or written to. If assumes_new(): nothing, without asking.
  virtual Result<std::optional<FileStatus>> look() = 0;
  // True: commit() replaces no file. It fails with EEXIST or, if the file system cannot do that, EINVAL.
  virtual bool assumes_new() const { return false; }
  // The path of the destination. After look(): inside the directory that was given, links followed.
  virtual const std::string& path() const = 0;
  // After look(): the path that was given is a directory, and path() a file in it.
  virtual bool in_directory() const = 0;
  // After look(): the data is written straight to an existing FIFO, device or descriptor, without a temporary file.
  virtual bool direct() const = 0;

  // Creates the temporary file, or opens the destination if direct().
  virtual Result<void> create(std::optional<std::uint32_t> permissions) = 0;
  // If direct(), parts must be written in order, one at a time; else several threads may write.
  virtual Result<void> write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  // Instead of write(), for a whole file: `from` must stay unchanged until finish_write() has returned. True: begun.
  virtual bool begin_write(std::span<const std::byte> /*from*/) { return false; }
  virtual Result<void> finish_write() { return {}; }
  // As write(), from an open file of the cluster, and not through the memory of this process: to a file of the same
  // cluster its nodes copy, to a local one the kernel, if the part is one stripe. Returns the bytes copied, as
  // Source::read(). Not if direct().
  virtual Result<std::size_t> copy(File& source, std::uint64_t offset, std::size_t length) = 0;
  virtual bool in_cluster() const { return false; }
  // Bytes that are known to be written.
  virtual std::uint64_t written() const = 0;
  // Begins to bring to stable storage what was written so far, and does not wait, so that storage works while the rest
  // is copied. stabilise() reports its errors. Local files: nothing, because on ext4 it delays some writes by a second.
  virtual void begin_stabilising() {}
  // Brings the data to stable storage.
  virtual Result<void> stabilise() = 0;
  // Sets the permissions and renames the temporary file to its final name; `stable`: durably.
  virtual Result<void> commit(bool stable) = 0;
  // After commit(): the directory whose names must be made stable by sync_directory(). Empty: none.
  virtual std::optional<std::string> directory() const { return std::nullopt; }

  // The temporary file; empty: there is none, because create() was not called, the data is written directly, or the
  // file has its final name.
  virtual const std::string& temporary() const = 0;
  virtual Result<void> remove_temporary() = 0;
};

// "-": standard input. An error if it is a directory.
Result<std::unique_ptr<Source>> open_local_source(const std::string& path, const StopSignals& signals);
// `opened`: the result of Client::open().
Result<std::unique_ptr<Source>> cluster_source(const std::string& path, Result<std::shared_ptr<File>> opened);

// `name`: of the new file if the path is a directory.
// `known_directory`: the path is a directory, so look() need not ask.
// `assume_new`: in a known directory of the cluster, see Destination::assumes_new().
struct DestinationName {
  std::string path, name;
  bool known_directory = false;
  bool assume_new = false;
};
std::unique_ptr<Destination> local_destination(DestinationName name);
// `replies` counts the requests of its begin functions.
std::unique_ptr<Destination> cluster_destination(Client& client, DestinationName name,
                                                 std::shared_ptr<Replies> replies);

// True if `other`, a status taken between `before` and `after`, is of the same file as these two.
//
// Device numbers are not compared: they differ between machines for one file of a shared file system, and a node does
// not send them. Inode numbers of two file systems can be equal by chance, so everything else has to be equal, too,
// above all the time of the last change, which no program can choose. If the file is being written, the values of
// `other` are between those of `before` and `after`. A wrong `false` loses no data: the file is replaced by a copy of
// itself.
bool same_file(const FileStatus& before, const FileStatus& other, const FileStatus& after);

// A name in the same directory that no other transfer uses, at most 255 bytes long.
std::string temporary_name(const std::string& name);
// True if `error` of chmod means that the file system cannot store modes (FAT, some network file systems).
bool cannot_store_modes(int error);
void warn_about_mode(const std::string& path, std::uint32_t permissions);

}  // namespace tutti::cli

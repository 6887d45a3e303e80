// SPDX-License-Identifier: Apache-2.0
// An open file: splits reads and writes by layout, stamps them, sends the messages in parallel and combines the
// results. No call blocks. Internal to the client.
#pragma once

#include <map>

#include "base/mutex.h"
#include "client/core.h"

namespace tutti {

// A call that sends exactly one message returns it, for Router::await_reply(); otherwise nullptr. Thread-safe.
class OpenFile final : public std::enable_shared_from_this<OpenFile> {
 public:
  // `opened`: its inode and generation identify the file in every request.
  OpenFile(std::shared_ptr<Core> core, std::string path, const FileStatus& opened, Layout layout);
  ~OpenFile();  // closes

  // As tutti::File::read_list() and write_list(). The caller owns the memory and must keep it until `done` is called.
  // `given`: the stamp of an operation that several processes carry out together; nullptr: makes a new stamp.
  CallPointer read(const std::vector<ReadPart>& parts, Done<std::size_t> done, const Stamp* given = nullptr);
  CallPointer write(const std::vector<WritePart>& parts, Done<std::size_t> done, const Stamp* given = nullptr);
  // As read(), of one range for which fits_one_pipe() is true. The data stays in the kernel where that is possible:
  // message.pages.
  struct Received {
    net::Incoming message{};
    std::size_t bytes = 0;
  };
  CallPointer read_by_reference(const wire::Extent& range, Done<Received> done);
  bool fits_one_pipe(const wire::Extent& range) const;
  // As tutti::File::copy_from().
  struct CopyRange {
    std::uint64_t source_offset = 0, offset = 0, length = 0;
  };
  CallPointer copy_from(const OpenFile& source, const CopyRange& range, Done<std::size_t> done);
  void fsync(bool data_only, Done<std::size_t> done);
  CallPointer truncate(std::uint64_t size, Done<void> done);
  CallPointer status(Done<FileStatus> done);

  Core& core() { return *core_; }
  std::uint64_t key() const { return state_->key; }  // Core::opened()
  const std::string& path() const { return state_->path; }
  const FileStatus& opened() const { return state_->opened; }
  const Layout& layout() const { return *state_->layout; }
  TimeSpent time_spent() const;

 private:
  // What requests in flight need to know about the file. It outlives the OpenFile.
  struct FileState {
    Core* core = nullptr;  // must outlive the requests
    std::string path;
    FileStatus opened;
    std::uint64_t key = 0;
    bool checksums = false;
    std::shared_ptr<const Layout> layout;
    Striping striping;
    mutable Mutex mutex;
    TimeSpent spent TUTTI_GUARDED_BY(mutex);
    // Acknowledged writes at one node that may not be on stable storage.
    struct Unsynced {
      wire::Instance::Boot boot{};  // of the node when it acknowledged the first of them
      std::uint64_t last = 0;       // number of the last write
    };
    std::map<std::size_t, Unsynced> unsynced TUTTI_GUARDED_BY(mutex);  // by node
    std::uint64_t writes TUTTI_GUARDED_BY(mutex) = 0;                  // acknowledged so far, at all nodes

    wire::DataHead head(const Stamp& stamp, TargetId target, const Call::Attempt& attempt) const;
    void acknowledged(std::size_t node, const wire::Instance::Boot& boot) TUTTI_REQUIRES(mutex);
    void forget_unsynced(const std::map<std::size_t, Unsynced>& known);
    // The error of a sync: `why`, or that the node's machine has restarted and has lost the writes.
    bool lost_with_machine(std::size_t node, const Unsynced& known) const;
    Error sync_error(std::size_t node, const Unsynced& known, const Error& why) const;
  };
  // One read, write or sync of the caller; it is complete when all its messages are answered.
  struct PendingOperation;
  // A range of the file with its memory.
  struct MemoryExtent {
    wire::Extent range;
    std::size_t part = 0;         // index in the caller's list
    std::byte* memory = nullptr;  // read into or written from
    std::uint64_t got = 0;        // bytes transferred
  };
  // One message to the node of one target.
  struct TargetMessage {
    TargetId target = 0;
    boost::container::small_vector<MemoryExtent, 1> extents;
    std::uint64_t bytes = 0;
  };

  // One extent per part, in the same order.
  template <typename Part>
  static std::vector<MemoryExtent> extents_of(const std::vector<Part>& parts);
  // Splits them by layout and by the size of messages.
  Result<std::vector<TargetMessage>> plan(std::span<const MemoryExtent> parts) const;
  std::vector<TargetMessage> plan_copy(const wire::Extent& range) const;
  Stamp issue(const std::vector<TargetMessage>& messages) const;
  template <typename Request>
  struct TransferCall;
  // `kept`: receives the payload of the only reply, instead of the memory of `parts`.
  template <typename Request>
  CallPointer transfer(std::span<const MemoryExtent> parts, Done<std::size_t> done, const Stamp* given,
                       net::Incoming* kept = nullptr);
  // A call about the whole file, for the owner of its first target.
  template <typename Request>
  std::shared_ptr<FunctionCall<typename Request::Reply>> file_call(Retry retry);
  // `writes`: the node's unsynced writes; nullptr: there are none.
  void send_fsync(const std::shared_ptr<PendingOperation>& operation, std::size_t node, bool data_only,
                  const FileState::Unsynced* writes);

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<FileState> state_;
};

}  // namespace tutti

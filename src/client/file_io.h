// SPDX-License-Identifier: Apache-2.0
// An open file: splits by layout, stamps, sends in parallel, joins. Internal to the client.
#pragma once

#include <map>
#include <mutex>

#include "client/core.h"

namespace tutti {

class OpenFile final : public File, public std::enable_shared_from_this<OpenFile> {
 public:
  OpenFile(std::shared_ptr<Core> core, std::string path, std::uint64_t inode, Layout layout);
  ~OpenFile() override;

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override;
  Result<std::size_t> write(std::uint64_t offset, std::span<const std::byte> from) override;
  Result<std::size_t> read_list(std::vector<ReadPart> parts) override;
  Result<std::size_t> write_list(std::vector<WritePart> parts) override;
  void read_async(std::vector<ReadPart> parts, Done done) override;
  void write_async(std::vector<WritePart> parts, Done done) override;
  void fsync_async(bool data_only, Done done) override;
  Result<void> fsync(bool data_only) override;
  Result<void> truncate(std::uint64_t size) override;
  Result<FileStatus> status() override;
  const std::string& path() const override { return state_->path; }
  TimeSpent time_spent() const override;

 private:
  // What requests under way need of the file; outlives it.
  struct State {
    Core* core = nullptr;  // outlives the requests
    std::string path;
    std::uint64_t inode = 0;
    std::uint64_t key = 0;
    bool checksums = false;
    Layout layout;
    mutable std::mutex mutex;
    TimeSpent spent;
    std::map<std::size_t, std::uint64_t> unsynced;  // node that took writes -> generation of its connection

    wire::DataHead head(const Stamp& stamp, TargetId target, const Call::Attempt& attempt) const;
    void add(const wire::Timing& timing);
  };
  // One operation: results come in piece by piece.
  struct Join;
  // Contiguous in the file, on one target, and in memory.
  struct Slice {
    wire::Extent extent;
    std::size_t part = 0;         // of the caller's list
    std::byte* memory = nullptr;  // read into or written from
    std::uint64_t got = 0;        // of a read
  };
  // One message: slices of one target.
  struct Group {
    TargetId target = 0;
    std::vector<Slice> slices;
    std::uint64_t bytes = 0;
  };

  struct Range {
    std::uint64_t offset;
    std::byte* memory;
    std::size_t size;
  };
  static std::vector<Range> ranges_of(const std::vector<ReadPart>& parts);
  static std::vector<Range> ranges_of(const std::vector<WritePart>& parts);
  Result<std::vector<Group>> plan(std::span<const Range> ranges) const;
  Stamp issue(const std::vector<Group>& groups) const;
  using Send = CallPointer (OpenFile::*)(const std::shared_ptr<Join>& join, std::size_t group);
  // The call, if there is exactly one.
  CallPointer transfer(std::span<const Range> ranges, Send send, Done done);
  Result<std::size_t> transfer_and_wait(std::span<const Range> ranges, Send send);
  CallPointer send_read(const std::shared_ptr<Join>& join, std::size_t group);
  CallPointer send_write(const std::shared_ptr<Join>& join, std::size_t group);
  void send_fsync(const std::shared_ptr<Join>& join, std::size_t node, bool data_only, Retry retry);

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<State> state_;
};

}  // namespace tutti

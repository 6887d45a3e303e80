// SPDX-License-Identifier: Apache-2.0
// The calls of tutti::Client in asynchronous form, for the blocking client (live_client.cc) and the simulator.
// Internal.
#pragma once

#include <tutti/client.h>

#include <memory>
#include <string>
#include <vector>

#include "client/core.h"
#include "client/file_io.h"

namespace tutti {

// include/tutti/client.h describes the calls. Each one reports its result through `done`. If it needs exactly one
// request to a node, it returns that request, for Router::await_reply(); otherwise nullptr. Thread-safe.
class AsyncClient {
 public:
  // `umask` is applied to the modes of new files and directories.
  AsyncClient(std::shared_ptr<Core> core, std::uint32_t umask) : core_(std::move(core)), umask_(umask) {}

  Core& core() const { return *core_; }
  // An existing file as if all of it were on this target: all requests are sent to the node of that target.
  std::shared_ptr<OpenFile> on_target(const std::string& path, const FileStatus& opened, TargetId target) const;

  CallPointer open(const std::string& path, const OpenOptions& options, Done<std::shared_ptr<OpenFile>> done);
  CallPointer status(const std::string& path, bool follow, Done<FileStatus> done);
  CallPointer make_directory(const std::string& path, std::uint32_t mode, Done<void> done);
  CallPointer read_directory(const std::string& path, Done<std::vector<DirectoryItem>> done);
  CallPointer read_directory_status(const std::string& path, Done<std::vector<DirectoryItemStatus>> done);
  CallPointer rename(const std::string& from, const std::string& to, std::uint32_t flags, Done<void> done);
  CallPointer unlink(const std::string& path, Done<void> done);
  void sync_directory(const std::string& path, Done<void> done);
  CallPointer remove_directory(const std::string& path, Done<void> done);
  CallPointer change_status(const std::string& path, const StatusChanges& changes, bool follow, Done<FileStatus> done);
  CallPointer symlink(const std::string& path, const std::string& target, Done<void> done);
  CallPointer read_link(const std::string& path, Done<std::string> done);
  CallPointer link(const std::string& from, const std::string& to, Done<void> done);
  CallPointer get_attribute(const std::string& path, const std::string& name, Done<std::string> done);
  CallPointer set_attribute(const std::string& path, const std::string& name, const std::string& value,
                            std::uint32_t flags, Done<void> done);
  CallPointer list_attributes(const std::string& path, Done<std::vector<std::string>> done);
  CallPointer remove_attribute(const std::string& path, const std::string& name, Done<void> done);
  CallPointer file_system_status(Done<FileSystemStatus> done);

 private:
  template <typename Item>
  struct Listing;

  CallPointer create_or_look_up(const std::string& path, const OpenOptions& options, Done<FileStatus> done);
  void make_file(const std::string& path, const FileStatus& opened, const OpenOptions& options,
                 Done<std::shared_ptr<OpenFile>> done);
  template <typename Item>
  CallPointer list(const std::string& path, Done<std::vector<Item>> done);
  template <typename Item>
  CallPointer list_more(const std::shared_ptr<Listing<Item>>& listing);

  // Normalises the path and sends the request.
  template <typename Request>
  CallPointer ask(const std::string& path, Request request, Retry retry, Done<typename Request::Reply> done) {
    auto normal = normalise(path);
    if (!normal) return done(Failure(normal.error())), nullptr;
    request.path = std::move(*normal);
    return core_->ask(request, retry, std::move(done));
  }
  template <typename Request>
  CallPointer ask_both(const std::string& from, const std::string& to, Request request, Done<void> done);

  const std::shared_ptr<Core> core_;
  const std::uint32_t umask_;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The directory that a node serves. Every call acts directly on the backing file system, with the rights of the caller.
// No path leads outside the directory, also not through symbolic links.
#pragma once

#include "base/clock.h"
#include "engine/file_system.h"

namespace tutti {

class Root final : public FileSystem {
 public:
  struct Options {
    bool direct = false;  // also open files with O_DIRECT where the file system supports it
    std::size_t max_open_files = 4096;
    Workers* workers = nullptr;  // as in BackingFile
  };

  static Result<std::unique_ptr<Root>> open(const std::string& directory, const Options& options);
  ~Root() override;
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const std::string& directory() const { return directory_; }
  bool local() const override;
  std::size_t open_files() const override { return files_.size(); }

  Result<std::shared_ptr<BackingFile>> open_file(const Caller& caller, const std::string& path,
                                                 Direction direction) override;
  Result<std::shared_ptr<BackingFile>> reopen(const BackingFile& file, Direction direction) override;
  Result<void> truncate(const BackingFile& file, std::uint64_t size, TimePoint deadline) override;
  Result<struct stat> stat(const BackingFile& file) override;
  Result<FileStat> look_up(const Caller& caller, const std::string& path, Links links, int access) override;
  Result<FileStat> create(const Access& by, const std::string& path, const CreateOptions& options) override;
  Result<struct stat> make_directory(const Access& by, const std::string& path, mode_t mode) override;
  Result<Listing> list(const Caller& caller, const std::string& path, const ListOptions& options) override;
  Result<void> rename(const Access& by, const Move& move) override;
  Result<struct stat> link(const Access& by, const Move& move) override;
  Result<void> unlink(const Access& by, const std::string& path) override;
  Result<void> sync_directory(const Caller& caller, const std::string& path) override;
  Result<void> remove_directory(const Access& by, const std::string& path) override;
  Result<struct stat> change(const Access& by, const std::string& path, Links links, const Changes& changes) override;
  Result<struct stat> symlink(const Access& by, const std::string& path, const std::string& target) override;
  Result<std::string> read_link(const Caller& caller, const std::string& path) override;
  Result<std::string> get_attribute(const Caller& caller, const std::string& path, const std::string& name) override;
  Result<void> set_attribute(const Access& by, const std::string& path, const Attribute& attribute) override;
  Result<std::vector<std::string>> list_attributes(const Caller& caller, const std::string& path) override;
  Result<void> remove_attribute(const Access& by, const std::string& path, const std::string& name) override;
  Result<struct statvfs> usage() override;

 private:
  Root(std::string directory, int descriptor, const Options& options);

  struct Located {
    int descriptor;
    std::string name;  // for messages
  };
  Result<std::shared_ptr<BackingFile>> open_descriptor(const Caller& caller, const Located& located,
                                                       Direction direction);
  Result<std::shared_ptr<BackingFile>> open_as_owner(const Caller& caller, const Located& located);
  Result<std::shared_ptr<BackingFile>> adopt(BackingFileKey key, const Located& located, int descriptor);

  const std::string directory_;
  const int descriptor_;
  const Options options_;
  BackingFiles files_;
};

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// The directory a node serves: every call acts on the backing file system itself, with the rights of the caller, and
// no path leads out of the directory, through symbolic links neither.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backing_file.h"
#include "engine/credentials.h"

namespace tutti {

// Thread-safe. Calls block on the file system: keep them off threads that must not wait.
// Paths are relative, without "." and ".."; the directory itself is "". Errors carry errno in Error::system; a path
// that would leave the directory gets EACCES.
class Root {
 public:
  struct Options {
    bool direct = false;  // files get a descriptor around the page cache, where the file system has that
    std::size_t max_open_files = 4096;
  };
  using Caller = std::shared_ptr<const Credentials>;

  enum class Links { kFollow, kStop };  // a symbolic link as the last component

  struct Entry {
    std::string name;
    std::uint64_t inode = 0;
    std::uint8_t type = 0;     // DT_REG, ...
    std::uint64_t cursor = 0;  // continues after this entry
  };
  struct Listing {
    std::vector<Entry> entries;  // without "." and ".."
    bool end = false;
  };
  struct ListOptions {
    std::uint64_t cursor = 0;  // 0: from the start
    std::size_t most = 1024;
  };
  struct CreateOptions {
    mode_t mode = 0644;
    bool exclusive = false;
    bool truncate = false;
    int access = 0;  // R_OK, W_OK: needed if the file exists
  };
  struct Changes {
    std::optional<mode_t> mode{};
    std::optional<uid_t> uid{};
    std::optional<gid_t> gid{};
    std::optional<timespec> accessed{}, modified{};
  };
  struct Move {
    std::string from, to;
    unsigned flags = 0;  // RENAME_NOREPLACE, RENAME_EXCHANGE
  };
  struct Attribute {
    std::string name, value;
    int flags = 0;  // XATTR_CREATE, XATTR_REPLACE
  };

  static Result<std::unique_ptr<Root>> open(const std::string& directory, const Options& options);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const std::string& directory() const { return directory_; }
  bool local() const;  // as BackingFile::local()
  std::size_t open_files() const { return files_.size(); }

  // Regular files only. Opened for both directions if the caller may, else for `direction` alone. The owner of a file
  // may write to it whatever its mode, but then only write.
  Result<std::shared_ptr<BackingFile>> open_file(const Caller& caller, const std::string& path, Direction direction);
  // The same file, whatever its name is now, for another direction.
  Result<std::shared_ptr<BackingFile>> reopen(const BackingFile& file, Direction direction);
  Result<void> truncate(const BackingFile& file, std::uint64_t size);
  Result<struct stat> stat(const BackingFile& file);

  Result<struct stat> look_up(const Caller& caller, const std::string& path, Links links, int access);
  Result<struct stat> create(const Caller& caller, const std::string& path, const CreateOptions& options);
  Result<struct stat> make_directory(const Caller& caller, const std::string& path, mode_t mode);
  Result<Listing> list(const Caller& caller, const std::string& path, const ListOptions& options);
  Result<void> rename(const Caller& caller, const Move& move);
  Result<struct stat> link(const Caller& caller, const Move& move);
  Result<void> unlink(const Caller& caller, const std::string& path);
  Result<void> remove_directory(const Caller& caller, const std::string& path);
  Result<struct stat> change(const Caller& caller, const std::string& path, Links links, const Changes& changes);
  Result<struct stat> symlink(const Caller& caller, const std::string& path, const std::string& target);
  Result<std::string> read_link(const Caller& caller, const std::string& path);
  Result<std::string> get_attribute(const Caller& caller, const std::string& path, const std::string& name);
  Result<void> set_attribute(const Caller& caller, const std::string& path, const Attribute& attribute);
  Result<std::vector<std::string>> list_attributes(const Caller& caller, const std::string& path);
  Result<void> remove_attribute(const Caller& caller, const std::string& path, const std::string& name);
  Result<struct statvfs> usage();

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

// SPDX-License-Identifier: Apache-2.0
// The file system that a node serves: names, attributes and open files. The live implementation is a directory
// (engine/root.h), the simulated one is in memory (sim/). File data is read and written through an Engine.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tutti/base.h>
#include <tutti/sched.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backing_file.h"
#include "engine/credentials.h"
#include "engine/generation.h"

namespace tutti {

// As struct stat, with the generation of the file (engine/generation.h).
struct FileStat : ::stat {
  std::uint64_t generation = 0;
};

// Thread-safe. Calls may block: call on a Workers thread.
//
// Every call acts with the rights of its caller. Paths are relative, without "." and ".."; the root directory is "".
// Errors have errno in Error::system; a path that leads outside the root gives EACCES.
//
// Calls that change something take a deadline on Clock::steady(). It is checked directly before the system call that
// makes the change. After the deadline nothing is changed and the error is kTimeout.
class FileSystem {
 public:
  using Caller = std::shared_ptr<const Credentials>;

  // The user and the deadline of a change. No deadline by default.
  struct Access {
    Access(Caller who, TimePoint until = {}) : caller(std::move(who)), deadline(until) {}  // NOLINT: implicit
    Caller caller;
    TimePoint deadline;  // zero: none
  };

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

  virtual ~FileSystem() = default;

  virtual bool local() const = 0;  // as BackingFile::local()
  virtual std::size_t open_files() const = 0;

  // Regular files only. For reading, the file is opened only for that, because a program that is open for writing
  // cannot be executed. For writing it is opened for both if the caller may read it. The owner of a file may always
  // open it for writing, regardless of its mode.
  virtual Result<std::shared_ptr<BackingFile>> open_file(const Caller& caller, const std::string& path,
                                                         Direction direction) = 0;
  // Opens the same file for another direction, even if it was renamed.
  virtual Result<std::shared_ptr<BackingFile>> reopen(const BackingFile& file, Direction direction) = 0;
  virtual Result<void> truncate(const BackingFile& file, std::uint64_t size, TimePoint deadline) = 0;
  virtual Result<struct stat> stat(const BackingFile& file) = 0;

  virtual Result<FileStat> look_up(const Caller& caller, const std::string& path, Links links, int access) = 0;
  virtual Result<FileStat> create(const Access& by, const std::string& path, const CreateOptions& options) = 0;
  virtual Result<struct stat> make_directory(const Access& by, const std::string& path, mode_t mode) = 0;
  virtual Result<Listing> list(const Caller& caller, const std::string& path, const ListOptions& options) = 0;
  virtual Result<void> rename(const Access& by, const Move& move) = 0;
  virtual Result<struct stat> link(const Access& by, const Move& move) = 0;
  virtual Result<void> unlink(const Access& by, const std::string& path) = 0;
  virtual Result<void> sync_directory(const Caller& caller, const std::string& path) = 0;
  virtual Result<void> remove_directory(const Access& by, const std::string& path) = 0;
  virtual Result<struct stat> change(const Access& by, const std::string& path, Links links,
                                     const Changes& changes) = 0;
  virtual Result<struct stat> symlink(const Access& by, const std::string& path, const std::string& target) = 0;
  virtual Result<std::string> read_link(const Caller& caller, const std::string& path) = 0;
  virtual Result<std::string> get_attribute(const Caller& caller, const std::string& path, const std::string& name) = 0;
  virtual Result<void> set_attribute(const Access& by, const std::string& path, const Attribute& attribute) = 0;
  virtual Result<std::vector<std::string>> list_attributes(const Caller& caller, const std::string& path) = 0;
  virtual Result<void> remove_attribute(const Access& by, const std::string& path, const std::string& name) = 0;
  virtual Result<struct statvfs> usage() = 0;
};

}  // namespace tutti

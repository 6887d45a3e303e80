// SPDX-License-Identifier: Apache-2.0
// The simulated file system: names, modes, sizes and attributes in memory, shared by all nodes of a run; and the engine
// that reads and writes its data.
//
// Names and sizes are on stable storage at once. Data is first in the cache of the machine that wrote it, and on stable
// storage when that machine syncs the file or another machine writes the same block. A power cut loses unsynced data of
// that machine. All machines read the latest data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/file_system.h"
#include "sim/simulator.h"

namespace tutti::sim {

// One file or directory. Data is stored in blocks, if Volume::Options::content is set.
struct Inode {
  static constexpr std::uint64_t kBlock = 4096;
  using Block = std::vector<std::byte>;

  std::uint64_t number = 0;
  std::uint64_t generation = 0;
  mode_t mode = 0;  // including the type
  uid_t uid = 0;
  gid_t gid = 0;
  nlink_t links = 1;
  std::uint64_t size = 0;
  TimePoint accessed{}, modified{}, changed{};
  std::string target;  // of a symbolic link
  std::map<std::string, std::string> attributes;
  std::map<std::uint64_t, Block> data, stable;    // by block number; missing: zeros
  std::map<std::uint64_t, const Process*> dirty;  // unsynced blocks, and the machine whose cache has them
};
using InodePointer = std::shared_ptr<Inode>;

// An open file keeps its inode, even if its names are removed.
struct OpenInode final : BackingFile {
  OpenInode(BackingFileKey key, InodePointer pointer) : BackingFile(std::move(key), {}), inode(std::move(pointer)) {}
  const InodePointer inode;
};

inline Inode& inode_of(const BackingFile& file) {
  return *static_cast<const OpenInode&>(file).inode;
}

// The fault of one operation of an engine.
struct DiskFault {
  int error = 0;                       // errno
  std::uint64_t at_most = UINT64_MAX;  // bytes transferred before the error or, without an error, before the end
  Duration delay{};                    // until it completes; a sync takes effect after it
};
using DiskRule = std::function<std::optional<DiskFault>(const Operation&)>;

// Receives every change of file data when it is applied. Only with Volume::Options::content.
class VolumeEvents {
 public:
  virtual ~VolumeEvents() = default;
  virtual void written(const Inode& inode, std::uint64_t block) = 0;
  virtual void truncated(const Inode& inode, std::uint64_t size) = 0;
  // A power cut has replaced the block by its content on stable storage.
  virtual void reverted(const Inode& inode, std::uint64_t block) = 0;
};

// The directory of a path; the root is "".
inline std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// The volume that all nodes share. Not thread-safe.
class Volume {
 public:
  struct Options {
    bool content = false;  // store file data; else only sizes are stored
  };
  Volume(Simulator& simulator, const Options& options);

  void observe(VolumeEvents* events) { events_ = events; }

  // Access for a node in `process`. Deadlines are compared with the clock of the process.
  std::unique_ptr<FileSystem> mount(Process& process);
  // Operations take no time; make_modelled_engine() adds the time of a device. `rule` is called for each operation.
  std::unique_ptr<Engine> make_engine(Process& process, DiskRule rule = {});

  // Data that this machine wrote and did not sync is lost.
  void cut_power(const Process& machine);
  std::uint64_t power_cuts(const Process& machine) const;

  // Direct access for set-up and checks, without a node. Creates missing parent directories.
  InodePointer make_file(const std::string& path, std::uint64_t size, mode_t mode = 0666);
  InodePointer find(const std::string& path) const;
  // All files that exist or are open. For checks that nothing keeps them after the end of a run.
  std::vector<std::weak_ptr<const Inode>> inodes() const;

 private:
  friend class MountedVolume;
  friend class VolumeEngine;

  InodePointer new_inode(mode_t mode);
  void write(Inode& inode, std::uint64_t offset, std::span<const std::byte> from, const Process& by);
  void read(const Inode& inode, std::uint64_t offset, std::span<std::byte> into) const;
  void truncate(Inode& inode, std::uint64_t size);
  void sync(Inode& inode, const Process& by);
  TimePoint now() const { return TimePoint(Duration(simulator_.now())); }

  Simulator& simulator_;
  const Options options_;
  VolumeEvents* events_ = nullptr;
  std::map<std::string, InodePointer> names_;  // by path; the root is ""
  std::map<std::uint64_t, std::weak_ptr<Inode>> inodes_;
  std::uint64_t last_generation_ = 0;
  std::uint64_t next_candidate_ = 0;  // inode number to use again next, if its file is gone
  std::map<const Process*, std::uint64_t> power_cuts_;
};

}  // namespace tutti::sim

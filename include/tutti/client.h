// SPDX-License-Identifier: Apache-2.0
// Read and write files through a Tutti cluster.
//
//   auto client = tutti::Client::connect({.cluster = *tutti::load_cluster("tutti-data/cluster.toml")});
//   auto file = (*client)->open("run/checkpoint.0", {.write = true, .create = true});
//   (*client)->begin_phase({.total = size});            // optional: the servers order by it
//   (*file)->write(0, bytes);
//   (*file)->fsync();
//   (*client)->end_phase();
//
// include/tutti/tutti_client.h is the same in plain C.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

struct NodeAddress {
  std::string name;
  std::string endpoint;  // "unix:/path", "tcp:host:port", "local:name"
  std::vector<TargetId> targets;
};

// Who serves what. Every client of a cluster has the same description.
struct Cluster {
  std::vector<NodeAddress> nodes;             // at least one; every target has one owner
  Bytes stripe_size{std::uint64_t{1} << 20};  // where the file system underneath does not say
  std::uint32_t stripe_count = 0;             // 0: all targets
  std::string key_file;                       // for TCP
  bool munge = false;
  bool discover_layouts = false;  // ask the file system underneath for each file's stripes

  // How long a node may take for a request before it counts as lost. No node applies a request after this time, so
  // that a stand-in can apply it again (docs/design/fencing.md).
  Duration request_timeout = std::chrono::seconds(30);
  // A node that has not run for so long never runs again: what a request may be late by.
  Duration lease = std::chrono::seconds(2);
};

// cluster.toml: stripe_size, stripe_count, key_file, munge, discover_layouts, request_timeout, lease, and one [[node]]
// per node with name, endpoint and targets ("0-3,8"). Relative paths are relative to the file.
Result<Cluster> load_cluster(const std::string& path);
Result<void> save_cluster(const Cluster& cluster, const std::string& path);
// TUTTI_CLUSTER, else tutti-data/cluster.toml.
std::string default_cluster_file();
// Node names, endpoints and owners of targets make sense.
Result<void> check_cluster(const Cluster& cluster);

struct ClientOptions {
  Cluster cluster;
  // Nothing: TUTTI_APP, else the batch system's job number, else the session's.
  std::optional<ApplicationId> application{};
  // Processes of the application, each of which moves about as much as this one. Nothing: 1 if `application` is given,
  // else TUTTI_PROCESSES, else as many as srun or mpirun have started, else 1.
  std::optional<std::uint32_t> processes{};
  // A name for people, under which phase sizes are remembered; nothing: TUTTI_JOB, else the batch system's job name,
  // else the program's.
  std::string job{};
  // Where sizes of phases are remembered from run to run; nothing: TUTTI_STATE, else not at all.
  std::string state_directory{};
  // Without I/O for so long, the next operation begins a new phase.
  Duration phase_gap = std::chrono::seconds(1);
  // An operation that has not succeeded after this time fails with kTimeout, whatever can still be tried.
  Duration give_up = std::chrono::seconds(120);
  bool checksums = false;  // of file data on the way, on top of those of the network
};

struct OpenOptions {
  bool read = true;
  bool write = false;
  bool create = false;     // if there is none
  bool exclusive = false;  // with create: kDuplicate if there is one
  bool truncate = false;
  std::uint32_t mode = 0644;
};

struct FileStatus {
  std::uint64_t inode = 0;
  std::uint32_t mode = 0;  // type and permissions, as in struct stat
  std::uint32_t links = 0;
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // of 512 bytes
  std::uint64_t device = 0;
  TimePoint accessed{}, modified{}, changed{};

  bool is_directory() const { return (mode & 0170000) == 0040000; }
};

struct DirectoryItem {
  std::string name;
  std::uint64_t inode = 0;
  std::uint8_t type = 0;  // DT_REG, ...
};

struct StatusChanges {
  std::optional<std::uint32_t> mode{}, uid{}, gid{};
  std::optional<TimePoint> accessed{}, modified{};
};

struct FileSystemStatus {
  std::uint64_t block_size = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;
};

// Where the time of an operation went, summed over its requests.
struct TimeSpent {
  Duration queued{}, waiting{}, engine{};
};

// A part of a list read or write.
struct ReadPart {
  std::uint64_t offset = 0;
  std::span<std::byte> into{};
};
struct WritePart {
  std::uint64_t offset = 0;
  std::span<const std::byte> from{};
};

struct PhaseAnnouncement {
  Bytes total{};           // this application will read and write, all targets and processes together; 0: learn it
  std::uint64_t kind = 0;  // phases that repeat with sizes of their own, e.g. 1 checkpoints, 2 input
};

// An open file. Thread-safe. Keeps its client's connections alive.
class File {
 public:
  // How many bytes, or what went wrong.
  using Done = std::function<void(Result<std::size_t>)>;

  virtual ~File() = default;  // closes

  // Bytes read: fewer than asked for only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  // All of it, or an error; after one, how much was written is not known.
  virtual Result<std::size_t> write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  // Many parts as one operation.
  virtual Result<std::size_t> read_list(std::vector<ReadPart> parts) = 0;
  virtual Result<std::size_t> write_list(std::vector<WritePart> parts) = 0;

  // `done` is called once, on a thread of the client's, which must not be kept; the memory is in use until then.
  virtual void read_async(std::vector<ReadPart> parts, Done done) = 0;
  virtual void write_async(std::vector<WritePart> parts, Done done) = 0;
  virtual void fsync_async(bool data_only, Done done) = 0;

  // What was written through this file before is on stable storage.
  virtual Result<void> fsync(bool data_only = false) = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  virtual Result<FileStatus> status() = 0;

  virtual const std::string& path() const = 0;
  // Of all operations of this file so far.
  virtual TimeSpent time_spent() const = 0;
};

// Thread-safe. Paths are relative to what the cluster serves; leading, trailing and double '/' and "." do not count,
// ".." is refused. Modes of new files and directories lose the bits of the umask the process had when it connected.
class Client {
 public:
  // kUnreachable if no node answers.
  static Result<std::unique_ptr<Client>> connect(ClientOptions options);
  virtual ~Client() = default;  // what is under way fails with kStopped

  virtual Result<std::shared_ptr<File>> open(const std::string& path, const OpenOptions& options) = 0;

  virtual Result<FileStatus> status(const std::string& path, bool follow = true) = 0;
  virtual Result<void> make_directory(const std::string& path, std::uint32_t mode = 0755) = 0;
  virtual Result<std::vector<DirectoryItem>> read_directory(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to, std::uint32_t flags = 0) = 0;
  virtual Result<void> unlink(const std::string& path) = 0;
  virtual Result<void> remove_directory(const std::string& path) = 0;
  virtual Result<FileStatus> change_status(const std::string& path, const StatusChanges& changes,
                                           bool follow = true) = 0;
  virtual Result<void> symlink(const std::string& path, const std::string& target) = 0;
  virtual Result<std::string> read_link(const std::string& path) = 0;
  virtual Result<void> link(const std::string& from, const std::string& to) = 0;
  virtual Result<std::string> get_attribute(const std::string& path, const std::string& name) = 0;
  virtual Result<void> set_attribute(const std::string& path, const std::string& name, const std::string& value,
                                     std::uint32_t flags = 0) = 0;
  virtual Result<std::vector<std::string>> list_attributes(const std::string& path) = 0;
  virtual Result<void> remove_attribute(const std::string& path, const std::string& name) = 0;
  virtual Result<FileSystemStatus> file_system_status() = 0;

  // Says that a burst of I/O begins and ends. Without it, a pause tells phases apart.
  virtual void begin_phase(const PhaseAnnouncement& announcement) = 0;
  virtual void end_phase() = 0;

  virtual ApplicationId application() const = 0;
  virtual const Cluster& cluster() const = 0;
};

}  // namespace tutti

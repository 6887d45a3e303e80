// SPDX-License-Identifier: Apache-2.0
// Read and write files through a Tutti cluster.
//
//   std::vector<std::byte> bytes(1 << 20);
//   auto client = tutti::Client::connect({.cluster = *tutti::load_cluster("tutti-data/cluster.toml")});
//   auto file = (*client)->open("run/checkpoint.0", {.write = true, .create = true});
//   (*client)->begin_phase({.total = tutti::Bytes(bytes.size())});  // optional: servers use the size for their order
//   (*file)->write(0, bytes);
//   (*file)->fsync();
//   (*client)->end_phase();
//
// The same API in plain C: tutti/tutti_client.h.
#pragma once

#include <tutti/base.h>
#include <tutti/job.h>
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

// The nodes of a cluster and the targets that each one serves. All clients of a cluster must use the same description.
struct Cluster {
  std::vector<NodeAddress> nodes;             // at least one; every target belongs to exactly one node
  Bytes stripe_size{std::uint64_t{1} << 20};  // of files whose layout is not discovered
  std::uint32_t stripe_count = 0;             // of files whose layout is not discovered; 0: all targets
  std::string key_file;                       // shared key for TCP connections
  bool munge = false;                         // authenticate TCP connections with MUNGE
  // User id that nodes may run as, besides root and the client's own user. Checked on Unix sockets and with MUNGE.
  // load_cluster() uses the owner of the file unless the file sets `node_user`.
  std::optional<std::uint32_t> node_user{};
  bool discover_layouts = false;  // read each file's stripes from the underlying file system
  OrderRange order_ids{};         // range of the jobs' order ids, unless TUTTI_ORDER sets one

  // A node that neither answers a request nor reports progress within this time counts as lost. No node applies a
  // request after this time, so another node can safely apply it again (docs/design/fencing.md).
  Duration request_timeout = std::chrono::seconds(30);
  // A node process that was stopped for longer than this never runs again; its watchdog ends it.
  Duration fence_time = std::chrono::seconds(2);
};

// cluster.toml: stripe_size, stripe_count, key_file, munge, node_user (name or number), discover_layouts, order_ids
// ("LOW-HIGH"), request_timeout, fence_time, and one [[node]] per node with name, endpoint and targets ("0-3,8").
// Relative paths are relative to the file. [defaults] has settings of nodes, which clients ignore (docs/operations.md).
// `path` may be a directory that holds cluster.toml.
Result<Cluster> load_cluster(const std::string& path);
Result<void> save_cluster(const Cluster& cluster, const std::string& path);
// The environment variable TUTTI_CLUSTER, else "tutti-data/cluster.toml".
std::string default_cluster_file();
// kInvalid: no nodes or no targets, a name or target that occurs twice, a wrong endpoint or wrong stripe values.
Result<void> check_cluster(const Cluster& cluster);

struct ClientOptions {
  Cluster cluster;
  // Default: TUTTI_APP, else the batch system's job number, else the POSIX session id.
  std::optional<ApplicationId> application{};
  // False: `application` is no job number, so that nodes do not compare it with the batch system's.
  bool application_is_job = true;
  // Number of processes of the application. Each is assumed to transfer about as much as this one. Default: 1 if
  // `application` is set, else TUTTI_PROCESSES, else the number that srun or mpirun started, else 1.
  std::optional<std::uint32_t> processes{};
  // If a policy must choose between applications, it serves the lowest order id first. Default: a hash of the
  // application's number; if `application` is not set, TUTTI_ORDER is used first.
  std::optional<OrderId> order{};
  // Name of the job. Phase sizes are remembered under this name. Default: TUTTI_JOB, else the batch system's job name,
  // else the program's name.
  std::string job{};
  // Directory in which phase sizes are remembered from run to run. Default: TUTTI_STATE, else they are not remembered.
  std::string state_directory{};
  // Endpoint of the gate that begin_phase() asks for a turn, such as "unix:/run/tutti/gate.sock". Default: TUTTI_GATE,
  // else no gate. "off": no gate.
  std::string gate{};
  // The first operation after a pause of this length begins a new phase.
  Duration phase_gap = std::chrono::seconds(1);
  // Limit on an operation including all retries. After it the operation fails with kTimeout. A sync may take longer
  // while its node reports that it is running.
  Duration give_up = std::chrono::seconds(120);
  // Limit on a sync. Default: none.
  std::optional<Duration> sync_timeout{};
  bool checksums = false;  // end-to-end checksums of file data, in addition to those of the network
};

struct OpenOptions {
  bool read = true;
  bool write = false;
  bool create = false;     // if the file does not exist
  bool exclusive = false;  // with create: kDuplicate if the file exists
  bool truncate = false;
  std::uint32_t mode = 0644;
};

struct FileStatus {
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;  // differs from that of removed files with the same inode number; 0: not known
  std::uint32_t mode = 0;        // type and permissions, as in struct stat
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

struct DirectoryItemStatus {
  std::string name;
  FileStatus status;  // of a symbolic link: its own
};

struct StatusChanges {
  std::optional<std::uint32_t> mode{}, uid{}, gid{};
  std::optional<TimePoint> accessed{}, modified{};
};

struct FileSystemStatus {
  std::uint64_t block_size = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;
};

// Time that operations spent in the nodes, summed over their requests.
struct TimeSpent {
  Duration queued{}, waiting{}, engine{};
};

// One contiguous range of a list read or list write. The caller owns the memory.
struct ReadPart {
  std::uint64_t offset = 0;
  std::span<std::byte> into{};
};
struct WritePart {
  std::uint64_t offset = 0;
  std::span<const std::byte> from{};
};

// How a file is striped: stripe i is on targets[i % stripe_count]. On CephFS this holds for the first objects only; the
// next stripe_count objects are on the targets after these, cyclic.
struct FileLayout {
  Bytes stripe_size{};
  std::uint32_t stripe_count = 0;
  std::vector<TargetId> targets{};
  std::string source{};  // where the layout was read from: "lustre", "ceph", "cluster configuration", ...
  Bytes object_size{};   // on CephFS: stripe_count objects of this size follow each other. 0: objects never end
};

// An open file. Thread-safe. Keeps its client's connections open.
class File {
 public:
  using Done = std::function<void(Result<std::size_t>)>;  // bytes transferred, or the error

  virtual ~File() = default;  // closes the file

  // Returns the bytes read. Fewer than requested only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) = 0;
  // Writes everything or returns an error. After an error it is unknown how much was written.
  virtual Result<std::size_t> write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  // All parts are one operation.
  virtual Result<std::size_t> read_list(std::vector<ReadPart> parts) = 0;
  virtual Result<std::size_t> write_list(std::vector<WritePart> parts) = 0;

  // Copies `range` of `source`, a file of the same client that is open for reading, to this file. The nodes copy: no
  // data passes through the client. Returns the bytes copied; fewer than requested only at the end of the source. After
  // an error it is unknown how much was copied. kInvalid: a file of another client. EINVAL: the ranges overlap in one
  // file.
  struct CopyRange {
    std::uint64_t source_offset = 0, offset = 0, length = 0;
  };
  virtual Result<std::size_t> copy_from(const File& source, const CopyRange& range) = 0;

  // As read(), into a regular file of this machine that is open for writing without O_APPEND: to its position `at`. If
  // the data lies in one stripe of at most 1 MiB and the node is on this machine, it does not pass through the memory
  // of this process. After an error it is unknown how much was written.
  virtual Result<std::size_t> read_to(int descriptor, std::uint64_t at, std::uint64_t offset, std::size_t length) = 0;

  // `done` is called once, on a thread of the client, and must not block. The caller must keep the memory valid and
  // unchanged until then.
  virtual void read_async(std::vector<ReadPart> parts, Done done) = 0;
  virtual void write_async(std::vector<WritePart> parts, Done done) = 0;
  virtual void fsync_async(bool data_only, Done done) = 0;
  // This process's part of an operation that several processes carry out together. One process makes the stamp with
  // Client::stamp_together().
  virtual void read_async(std::vector<ReadPart> parts, const Stamp& stamp, Done done) = 0;
  virtual void write_async(std::vector<WritePart> parts, const Stamp& stamp, Done done) = 0;

  // On success, all writes through this file that completed before the call are on stable storage.
  virtual Result<void> fsync(bool data_only = false) = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  virtual Result<FileStatus> status() = 0;
  // The status when it was opened or created, without a request. Its size may be that before OpenOptions::truncate.
  virtual const FileStatus& opened() const = 0;

  virtual const std::string& path() const = 0;
  virtual FileLayout layout() const = 0;
  // Total of all operations of this file.
  virtual TimeSpent time_spent() const = 0;
};

// A connection to all nodes of a cluster. Thread-safe.
//
// Paths are relative to the directory that the cluster serves. Leading, trailing and repeated '/' and "." are ignored;
// ".." is refused. The process's umask at the time of connect() applies to new files and directories.
class Client {
 public:
  // kUnreachable if no node answers.
  static Result<std::unique_ptr<Client>> connect(ClientOptions options);
  virtual ~Client() = default;  // pending operations fail with kStopped

  virtual Result<std::shared_ptr<File>> open(const std::string& path, const OpenOptions& options) = 0;

  virtual Result<FileStatus> status(const std::string& path, bool follow = true) = 0;

  // open(), status() and rename() without waiting: many of them at a time cost less than one after another. `done` is
  // called once, on a thread of the client or before the call returns, and must not block.
  virtual void open_async(const std::string& path, const OpenOptions& options,
                          std::function<void(Result<std::shared_ptr<File>>)> done) = 0;
  virtual void status_async(const std::string& path, bool follow, std::function<void(Result<FileStatus>)> done) = 0;
  virtual void rename_async(const std::string& from, const std::string& to, std::uint32_t flags,
                            std::function<void(Result<void>)> done) = 0;

  virtual Result<void> make_directory(const std::string& path, std::uint32_t mode = 0755) = 0;
  virtual Result<std::vector<DirectoryItem>> read_directory(const std::string& path) = 0;
  // The same with the status of each item, in a few requests for the whole directory. Items whose status cannot be read
  // are left out.
  virtual Result<std::vector<DirectoryItemStatus>> read_directory_status(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to, std::uint32_t flags = 0) = 0;
  virtual Result<void> unlink(const std::string& path) = 0;
  // Makes the names in a directory durable, for example after a rename.
  virtual Result<void> sync_directory(const std::string& path) = 0;
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

  // Mark the begin and the end of a phase. Without these calls, a pause of `phase_gap` separates phases. If a gate is
  // configured, begin_phase() waits for the job's turn on the targets of its open files, and end_phase() returns the
  // turn. If the gate does not answer or the turn is not granted in time, the phase begins without it (docs/gate.md).
  // With `file`, an open file of this client, the phase uses only that file: turn and size apply to the targets of its
  // layout. kInvalid: a total above 2^62 bytes, or a file of another client.
  virtual Result<void> begin_phase(const PhaseAnnouncement& announcement, const File* file = nullptr) = 0;
  // The same without waiting. `done` is called once, when the phase has begun, possibly before this call returns.
  virtual void begin_phase_async(const PhaseAnnouncement& announcement, const File* file,
                                 std::function<void(Result<void>)> done) = 0;
  virtual void end_phase() = 0;
  // Backoff without a gate: writes probe data to the targets of the file's layout (docs/gate.md). Returns true as soon
  // as the targets are idle, false after the longest backoff. The probe data is written to a temporary file in the same
  // directory. kInvalid: a file of another client.
  virtual Result<bool> probe(const File& file) = 0;
  // Makes the stamp of one operation that several processes carry out together, such as a collective write. `shares`
  // are those of all processes. One process makes the stamp and sends it to the others. All pass it to read_async() or
  // write_async().
  virtual Stamp stamp_together(std::span<const TargetShare> shares) = 0;

  // Says what operations that began at least `since` ago wait for, as a text for users, such as "node2 has not answered
  // for 5 s". Empty: there are none.
  virtual std::string waiting_for(Duration since) = 0;

  virtual ApplicationId application() const = 0;
  virtual const Cluster& cluster() const = 0;
};

}  // namespace tutti

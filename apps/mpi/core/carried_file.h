// SPDX-License-Identifier: Apache-2.0
// A file whose data is carried by the nodes of a cluster.
#pragma once

#include <tutti/client.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "layout/layout.h"
#include "mpi/core/data_file.h"

namespace tutti::mpi {

// All parts of one call are one request: the client sends one message per target of up to 4 MiB. Nodes that are lost
// are replaced by others, as the client does it; every call ends within the client's time limit.
//
// Thread-safe, except close().
class CarriedFile final : public DataFile {
 public:
  struct Options {
    // Connects at the first use. Called again if it failed.
    std::function<Result<std::shared_ptr<Client>>()> connect;
    std::string path;  // in the cluster
    bool read = true, write = false;
    std::uint64_t inode = 0;  // of the file that MPI opened; 0: not known
  };

  explicit CarriedFile(Options options) : options_(std::move(options)) {}

  // kNotFound: the path is another file in the cluster. Errors of the client.
  Result<void> open() override;
  // Call it after open().
  Layout layout() const;

  // The stamp of an operation of several processes, with this size in all. Call it after open().
  Stamp stamp_together(Bytes bytes);

  Result<void> write(std::span<const FilePart> parts, const Issue& issue) override;
  Result<std::uint64_t> read(std::span<const FilePart> parts, const Issue& issue) override;
  void prefetch(std::span<const Extent> extents) override;
  Result<void> sync() override;
  Result<void> close() override;

 private:
  Result<std::size_t> read_once(const std::vector<ReadPart>& parts, const Issue& issue);
  Failure failed(const char* what, const Error& error) const;

  const Options options_;
  Mutex opening_;
  std::shared_ptr<Client> client_;  // outlives file_; both are set once, in open()
  std::shared_ptr<File> file_;
  std::atomic<bool> written_{false};
};

// Where a file of the mount is in a cluster.
struct ClusterPath {
  std::string cluster;  // the cluster file, absolute
  std::string path;     // in the cluster
  bool disks = false;   // the nodes' devices are disks
};
// `cluster`: the cluster file, or the directory that holds it; empty: as the client library finds it. `directory`: the
// directory that the cluster serves, as this process sees it; empty: `directory` of [defaults] in the cluster file.
// kNotFound: the file is not in that directory. kInvalid: the directory is not known. Errors of load_cluster().
struct ClusterChoice {
  std::string cluster{}, directory{};
};
Result<ClusterPath> find_in_cluster(const ClusterChoice& choice, const std::string& file);

}  // namespace tutti::mpi

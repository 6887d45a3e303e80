// SPDX-License-Identifier: Apache-2.0
// What this library knows about open files and about its process.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "collective/adaptive_choice.h"
#include "mpi/core/carried_file.h"
#include "mpi/core/job_turns.h"
#include "mpi/core/kept_memory.h"
#include "mpi/core/report.h"
#include "mpi/core/settings.h"
#include "mpi/core/view.h"

namespace tutti::mpi {

// A split collective between its begin and its end.
struct SplitCall {
  bool active = false;
  bool plain = false;  // the MPI library carries it out
  std::uint64_t bytes = 0;
  int result = MPI_SUCCESS;
};

// One open file. MPI forbids concurrent collective calls on a file, so it needs no lock. Independent calls of other
// threads use `counters` and `carried`, which are thread-safe, and what does not change meanwhile. What decides whether
// a call is rearranged is the same on all ranks.
struct OpenFile {
  MPI_Comm comm = MPI_COMM_NULL;  // this library's own, of the ranks that opened the file
  int rank = 0, size = 1;
  bool one_machine = false;  // all ranks are on it
  int amode = 0;
  Settings settings{};
  Layout layout{};
  bool turns = false;  // the job asks for turns
  FileView view{};
  bool view_known = true;  // false: the file type of this rank's view cannot be flattened
  bool native = true;      // data representation
  bool atomic = false;
  std::atomic<bool> left_to_mpi{false};  // because of a failure, or of where the file is
  std::unique_ptr<DataFile> data{};
  CarriedFile* carried = nullptr;  // `data`, if nodes carry it
  CallMemory call_memory{};        // of collective calls
  FileCounters counters{};
  std::array<collective::AdaptiveChoice, 2> choices{};  // of plan `auto`, by direction
  SplitCall split{};

  bool writable() const { return (amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0; }
  bool readable() const { return (amode & MPI_MODE_WRONLY) == 0; }
  bool sequential() const { return (amode & MPI_MODE_SEQUENTIAL) != 0; }
};

// Thread-safe. Never destroyed, because programs may call MPI from exit handlers.
class Process {
 public:
  static Process& current();

  // nullptr: the file was not opened through this library, or is not handled by it.
  std::shared_ptr<OpenFile> find(MPI_File file);
  void add(MPI_File file, std::shared_ptr<OpenFile> open);
  void remove(MPI_File file);

  // The number of this process's application: made at the first MPI_File_open of rank 0 of its communicator, from
  // TUTTI_APP or the batch system if they say, else at random. The other ranks adopt it.
  struct Application {
    std::uint64_t number = 0;
    std::string name{};
  };
  Application application(std::optional<std::uint64_t> hint);
  void adopt(std::uint64_t number);

  // The turns of this process, nullptr if neither a gate nor probing is configured.
  JobTurns* turns(const Application& application);
  JobTurns* turns();
  void end_turns();

  // This process's connection to a cluster, for this application; made at the first call. `settings`: of the file for
  // which it is made. Errors of load_cluster() and Client::connect().
  Result<std::shared_ptr<Client>> client(const std::string& cluster_file, const Settings& settings);
  void disconnect();

  // Prints a line to standard error, once per line.
  void say_once(const std::string& line);

  void count(const FileCounters& counters, std::uint64_t ranks);
  // The report of MPI_Finalize; empty if there is nothing to report.
  std::string report();

 private:
  // Cluster file and application.
  using ClientKey = std::pair<std::string, std::uint64_t>;

  std::atomic<std::size_t> open_{0};
  Mutex connecting_;  // held while a thread connects; taken before mutex_
  std::map<ClientKey, std::shared_ptr<Client>> clients_ TUTTI_GUARDED_BY(connecting_);
  Mutex mutex_;
  std::map<MPI_File, std::shared_ptr<OpenFile>> files_ TUTTI_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> application_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<JobTurns> turns_ TUTTI_GUARDED_BY(mutex_);
  bool turns_made_ TUTTI_GUARDED_BY(mutex_) = false;
  std::set<std::string> said_ TUTTI_GUARDED_BY(mutex_);
  FileCounters total_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t ranks_ TUTTI_GUARDED_BY(mutex_) = 0;
};

// Ranks agree on one of these at the end of a step; the largest wins. All other values are MPI error classes.
inline constexpr std::int64_t kFine = 0;
inline constexpr std::int64_t kFallBack = -1;

// The largest severity of all ranks: an error before kFallBack before kFine.
std::int64_t agree(const OpenFile& file, std::int64_t mine);
// The same, with the smallest `value` and the longest times of all ranks.
struct Agreement {
  std::int64_t code = kFine;
  std::int64_t value = INT64_MAX;
  std::int64_t all = 0, io = 0;  // time of the call and of its reads and writes, in nanoseconds
};
Agreement agree(const OpenFile& file, const Agreement& mine);

// Calls the error handler of the file and returns the code.
int raise_error(MPI_File file, int error_class);
// The MPI error class of an error of the operating system.
int error_class_of(const Error& error);

// Asks for the job's turn if it needs one: rank 0 asks, all ranks wait. `bytes`: of all ranks, 0 if not known.
void begin_turn(OpenFile& file, Bytes bytes);
void end_use(OpenFile& file);

}  // namespace tutti::mpi

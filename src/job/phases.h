// SPDX-License-Identifier: Apache-2.0
// The phases of one process: their begin, end and size, and the stamps of its operations.
#pragma once

#include <tutti/job.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "job/identity.h"
#include "job/stamper.h"

namespace tutti::job {

using OpenFileKey = std::uint64_t;  // chosen by the caller; one per open file

// The processes of an application do not communicate. Each assumes that the others do the same I/O: it multiplies the
// bytes of its own operations by the number of processes, and compares the result with the total that was announced, or
// counted in the previous phase. If only some processes do I/O, `processes` must be their number. Bytes of the
// application are converted to bytes on its busiest target with the model in spread.h, which uses the files that are
// open at the first operation of the phase. While no file is open, sizes are unknown.
//
// Without begin() and end(), a pause of `gap` separates phases. Files are then used as in the last announcement; before
// the first announcement, as shared files.
//
// Time is an argument; no clock, no I/O. Not thread-safe.
class Phases {
 public:
  struct Options {
    ApplicationId application = 0;
    OrderId order = 0;
    std::uint32_t processes = 1;  // of the application
    std::uint32_t targets = 1;    // of the cluster
    Duration gap = std::chrono::seconds(1);
  };

  explicit Phases(const Options& options);

  // Adds a file that operations may use. The key must not be in use.
  void opened(OpenFileKey file, std::shared_ptr<const Layout> layout);
  void closed(OpenFileKey file);
  // The targets of all open files, or of `file`, ascending. Empty: no file is open.
  std::vector<TargetId> targets(std::optional<OpenFileKey> file = std::nullopt) const;

  // Begins a phase; ends one that is still open. With `file`, the phase uses only that open file; after the file is
  // closed, it uses all open files. kInvalid: a total above 2^62 bytes; nothing changes then.
  Result<void> begin(const PhaseAnnouncement& announcement, std::optional<OpenFileKey> file = std::nullopt);
  void end();

  // The stamp of an operation that this process issues now. Call completed() once afterwards.
  Stamp issue(OperationId operation, std::span<const TargetShare> shares, TimePoint now);
  // For an operation of several processes: one process makes the stamp from the shares of all, and sends it to the
  // others. Each process calls joined() for every request that it issues with this stamp, and completed() once
  // afterwards. Only the process that made the stamp counts the bytes.
  Stamp issue_together(OperationId operation, std::span<const TargetShare> shares_of_all, TimePoint now);
  void joined(TimePoint now);
  void completed(TimePoint now);

  // Sizes in bytes of the application, by kind of phase. Save them, and call remember() in the next run of the job.
  std::map<PhaseKind, Bytes> learned() const { return stamper_.learned(); }
  Bytes learned(PhaseKind kind) const { return stamper_.learned(kind); }
  void remember(PhaseKind kind, Bytes size) { stamper_.remember(kind, size); }

 private:
  Stamp stamp(OperationId operation, Bytes bytes, TimePoint now);
  std::span<const std::shared_ptr<const Layout>> layouts_of(std::optional<OpenFileKey> file) const;

  Options options_;
  Stamper stamper_;
  Spread spread_;
  PhaseFiles files_ = PhaseFiles::kShared;
  std::optional<OpenFileKey> file_;  // empty: all open files
  bool stale_ = false;               // the open files or their use changed since spread_ was computed
  bool announced_ = false;           // between begin() and end()
  std::uint64_t running_ = 0;        // operations
  TimePoint last_{};                 // the last time of issue or completion
  std::vector<OpenFileKey> keys_;    // of the open files, in the same order as layouts_
  std::vector<std::shared_ptr<const Layout>> layouts_;
};

}  // namespace tutti::job

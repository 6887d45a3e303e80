// SPDX-License-Identifier: Apache-2.0
// Converts bytes of an application to bytes on its busiest target.
#pragma once

#include <tutti/job.h>

#include <memory>
#include <span>

#include "layout/layout.h"

namespace tutti::job {

// Sizes above this count as this, so that the sum of two does not overflow.
inline constexpr Bytes kMostBytes{std::uint64_t{1} << 62};

// A model of how the bytes of a phase are distributed over targets. One process computes it from the layouts of the
// files that it has open. A stripe column is one position in the stripe pattern of a file; it is on one target.
//
// Shared files: the bytes of all processes are distributed evenly over the stripe columns of all open files, and fill
// each file from its beginning. With one file on one of eight targets, all bytes are on that target. With one file on
// all eight, each target has an eighth, rounded to stripes.
//
// One file per process: each process moves total/processes bytes, distributed over its own files as above. On average,
// a target is used by processes * (distinct targets of these files) / (targets of the cluster) processes, at least one
// and at most all. The bytes of one process are multiplied by that number.
//
// Limits:
// - The model assumes that files are used from beginning to end. A program that uses only some stripes of a file puts
//   up to stripe_count times more bytes on one target.
// - Files that were opened for another purpose make the distribution wider than it is.
// - If files per process are placed at random, some targets are busier than the average.
// - For CephFS files with several stripe columns the model assumes large files, whose objects are on all targets. Small
//   files count as up to stripe_count times too large.
class Spread {
 public:
  struct FileUse {
    std::uint32_t processes = 1;
    std::uint32_t targets = 1;  // of the cluster
    PhaseFiles files = PhaseFiles::kShared;
  };

  Spread() = default;  // unknown
  // Skips layouts that are not valid. Uses at most 65536 stripe columns and assumes that the others are similar.
  static Spread over(std::span<const std::shared_ptr<const Layout>> layouts, const FileUse& use);

  bool known() const { return row_ > Bytes{}; }
  // Bytes on the busiest target, of `total` bytes of the application. Never decreases as `total` grows; at most
  // `total`. If not known(): `total`.
  Bytes busiest(Bytes total) const;

 private:
  // The file with the most stripe columns:
  std::uint64_t file_columns_ = 0;
  Bytes row_{};   // one stripe in each column
  Bytes peak_{};  // bytes of a row on the busiest target
  // All files:
  std::uint64_t columns_ = 0;
  std::uint64_t most_ = 0;  // columns on the busiest target
  std::uint32_t parts_ = 1;
  double sharing_ = 1;  // processes that use one target
};

}  // namespace tutti::job

// SPDX-License-Identifier: Apache-2.0
// The prober: algorithm 1 of the thesis (gate/backoff.h) against a real file system.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gate/backoff.h"
#include "gate/calibration.h"

namespace tutti::gate {

struct ProberOptions {
  // Where probe files go. "%t" stands for a target's number: on a striped file system, one directory per target whose
  // files are laid on that target alone (Lustre: `lfs setstripe -c 1 -i N`), so that each target is probed.
  std::string directory;
  std::vector<std::uint32_t> targets{};   // what "%t" becomes; none: 0
  BackoffOptions backoff{};               // backoff.targets is set from `targets`
  double threshold = 0;                   // bytes per second; 0: calibrated, and kept in state_directory
  std::string state_directory{};          // empty: what was learned is forgotten
  std::uint64_t seed = 0;                 // of the random sleeps; 0: another one each time
  std::function<void(Duration)> sleep{};  // instead of sleeping (tests)
};

struct ProbeReport {
  bool quiet = false;    // false: went ahead after max_count rounds
  double rate = 0;       // bytes per second, slowest write of the last round
  double threshold = 0;  // 0: none known yet
  std::uint32_t rounds = 0;
  Bytes written{};
};

// Probes until the file system is quiet or max_count is reached. Probe files have no name where the file system can
// do that (O_TMPFILE); else they are unlinked before anything is written, and leftovers of killed probers are removed.
// kIo: the directory cannot be written.
Result<ProbeReport> probe(const ProberOptions& options);

// The same with the first part of the real data in place of dummy data: each round writes the next `data_size` bytes of
// `data` to `file` at `offset`, flushes them and decides. What is left is the caller's to write.
// On success `report.written` bytes are in the file; on an error nobody knows how many.
struct RealData {
  int file = -1;  // open for writing
  std::uint64_t offset = 0;
  std::span<const std::byte> data;
};
Result<ProbeReport> probe_with(const RealData& real, const ProberOptions& options);

// The same through the caller's own writes, for stores that are no directory: `write` moves so many bytes as probe
// data. `options.directory` is only what the calibration is kept for.
using ProbeWrite = std::function<Result<void>(Bytes)>;
Result<ProbeReport> probe_through(const ProbeWrite& write, const ProberOptions& options);

// Removes probe files in `directory` whose makers are dead. Returns how many.
std::size_t remove_stale_probe_files(const std::string& directory);

// What is known of the file system `path` is on, with probe writes of this size and kind; one small file each.
class CalibrationStore {
 public:
  struct Subject {
    std::string path;  // anything on the file system
    Bytes data_size;
    bool real_data;  // no file is made for it, so the rates are not those of dummy data
  };
  // An empty directory keeps nothing.
  CalibrationStore(const std::string& directory, const Subject& subject);
  Calibration load() const;
  void observe(double bytes_per_second, TimePoint now);  // silently does nothing if it cannot be kept

 private:
  std::string file_;
};

// $TUTTI_STATE_DIR, $XDG_STATE_HOME/tutti or ~/.local/state/tutti; empty if there is none of them.
std::string default_state_directory();

}  // namespace tutti::gate

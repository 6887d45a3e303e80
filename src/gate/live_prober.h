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
  // Directory for probe files. "%t" is replaced by the number of a target: to probe each target of a striped file
  // system, make one directory per target whose files are only on that target (Lustre: `lfs setstripe -c 1 -i N`).
  std::string directory;
  std::vector<std::uint32_t> targets{};   // values for "%t"; empty: 0
  BackoffOptions backoff{};               // backoff.targets is set from `targets`
  double threshold = 0;                   // bytes per second; 0: calibrated and saved in state_directory
  std::string state_directory{};          // empty: the calibration is not saved
  std::uint64_t seed = 0;                 // of the random sleeps; 0: random
  std::function<void(Duration)> sleep{};  // replaces sleeping, in tests
};

struct ProbeReport {
  bool quiet = false;    // false: proceeded after max_count rounds
  double rate = 0;       // bytes per second of the slowest write in the last round
  double threshold = 0;  // 0: unknown
  std::uint32_t rounds = 0;
  Bytes written{};
};

// Probes until the file system is quiet or max_count is reached. Probe files have no name if the file system supports
// O_TMPFILE. Else they are unlinked before they are written, and files of killed probers are removed.
// kIo: the directory cannot be written.
Result<ProbeReport> probe(const ProberOptions& options);

// The same with the first part of the real data instead of dummy data: each round writes the next `data_size` bytes of
// `data` to `file`, starting at `offset`, flushes them and decides. The caller writes the rest.
// On success `report.written` bytes are in the file. After an error the number is unknown.
struct RealData {
  int file = -1;  // open for writing
  std::uint64_t offset = 0;
  std::span<const std::byte> data;
};
Result<ProbeReport> probe_with(const RealData& real, const ProberOptions& options);

// The same with a write function of the caller, for storage that is not a directory. `write` writes the given number of
// bytes to the given target (below options.backoff.targets). `options.directory` only selects the calibration.
using ProbeWrite = std::function<Result<void>(const Backoff::Write&)>;
Result<ProbeReport> probe_through(const ProbeWrite& write, const ProberOptions& options);

// Removes probe files in `directory` whose processes are dead. Returns how many.
std::size_t remove_stale_probe_files(const std::string& directory);

// Saves the calibration of a file system, for probe writes of one size and kind, in one small file.
class CalibrationStore {
 public:
  struct Subject {
    std::string path;  // any path on the file system
    Bytes data_size;
    bool real_data;  // rates differ, because no file is created
  };
  // An empty directory saves nothing.
  CalibrationStore(const std::string& directory, const Subject& subject);
  Calibration load() const;
  void observe(double bytes_per_second, TimePoint now);  // errors of saving are ignored

 private:
  std::string file_;
};

// $TUTTI_STATE_DIR, else $XDG_STATE_HOME/tutti, else ~/.local/state/tutti; empty if no variable is set.
std::string default_state_directory();

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of the thesis (section 3.1.1): probe the file system, then proceed or back off. This class only decides.
// The caller (gate/live_prober.h or the simulator) writes the probe data and sleeps.
//
//   Backoff backoff(options, threshold, seed);
//   while (true) {
//     Backoff::Step step = backoff.next();
//     if (Proceed)  break;
//     if (Write)    { write step.bytes to target step.target; backoff.wrote(time taken); }
//     if (Sleep)    sleep(step.time);
//   }
//
// With priming (section 3.1.2) each round starts with a small write to every target that is not measured. With the
// min-prober a round has several writes with a pause between them, and the slowest write decides. On a striped file
// every target is probed, and the slowest target decides.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/options.h"
#include "base/prng.h"

namespace tutti::gate {

struct BackoffOptions {
  Bytes data_size{3'000'000};                        // DATA_SIZE of each probe write
  std::uint32_t max_count = 8;                       // MAX_COUNT: after this many rounds the job proceeds in any case
  double base = 2;                                   // BASE
  std::uint32_t starting_exponent = 1;               // STARTING_EXPONENT
  std::uint32_t max_exponent = 6;                    // upper limit of the exponent (truncated exponential backoff)
  Duration time_constant = std::chrono::seconds(1);  // BACKOFF_TIME_CONST
  Duration fixed_sleep = std::chrono::seconds(1);    // FIXED_SLEEP_TIME
  Bytes priming{256 << 10};                          // of each target; 0: no priming
  std::uint32_t probes = 3;                          // writes per round and target; 1: the plain prober
  Duration probe_pause = std::chrono::milliseconds(100);  // between those writes
  std::uint32_t targets = 1;                              // probed one after the other

  // The same options as text, for the command line and the environment.
  static const std::vector<OptionInfo>& table();
  static BackoffOptions from(const OptionValues& values);
};

// Not thread-safe. One object per phase.
class Backoff {
 public:
  struct Write {
    Bytes bytes;
    std::uint32_t target;  // 0 .. options.targets - 1
    bool priming;          // its time is not measured
  };
  struct Sleep {
    Duration time;
    bool backing_off;  // false: the pause between two writes of a round
  };
  struct Proceed {
    bool quiet;  // false: max_count was reached
  };
  using Step = std::variant<Write, Sleep, Proceed>;

  // `threshold` in bytes per second; 0: unknown, the first round passes.
  Backoff(const BackoffOptions& options, double threshold, std::uint64_t seed);

  // The next step. After a Write, call wrote() before the next call of next(). Proceed is the last step.
  Step next();
  void wrote(Duration took);

  double rate() const { return rate_; }            // slowest write of the last round, bytes per second
  std::uint32_t rounds() const { return round_; }  // started so far
  Bytes written() const { return written_; }       // probe data, priming included

 private:
  enum class Stage : std::uint8_t { kBegin, kPrimed, kWriting, kPaused, kDecide, kDone };

  Step begin_round();
  Step prime_or_write();
  Step write_next();
  Step decide();
  Duration backoff_time();

  BackoffOptions options_;
  double threshold_;
  Prng prng_;
  Stage stage_ = Stage::kBegin;
  std::uint32_t round_ = 0;
  std::uint32_t exponent_;
  std::uint32_t primed_ = 0;  // targets of this round
  std::uint32_t done_ = 0;    // counted writes of this round
  std::optional<Write> pending_;
  double rate_ = 0;
  bool measured_ = false;  // rate_ is of this round
  Bytes written_{};
};

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// A trace in memory: the requests that arrived at one scheduler, in order of arrival. Written to disk and read back by
// src/trace; used by the predictor beside this file and by replays in src/sim.
#pragma once

#include <tutti/sched.h>

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr Duration kCompletionNotKnown = Duration::min();

// One request that arrived.
struct TraceRequest {
  Duration time{};         // since the first request of the trace; never decreases from one request to the next
  std::uint32_t file = 0;  // index into Trace::files
  ApplicationId application = 0;
  std::uint64_t offset = 0;
  Bytes length{};  // at least 1; offset + length at most 2^63
  TargetId target = 0;
  Direction direction = Direction::kRead;
  std::uint32_t process = 0;                 // identifies the process of the application, where it is known; else 0
  Duration completed = kCompletionNotKnown;  // when it ended, since the first request of the trace

  bool has_completed() const { return completed != kCompletionNotKnown; }
};

struct Trace {
  // Patterns of file names: name_pattern() of the path, so that `out.0001` and `out.0002` are the same file in two
  // runs. Every pattern occurs once. Readers that were asked to keep paths (src/trace) fill in paths instead.
  std::vector<std::string> files;
  std::vector<TraceRequest> requests;
};

// The path with every run of decimal digits replaced by `#`: "/scratch/run17/ckpt.0003.h5" ->
// "/scratch/run#/ckpt.#.h#".
std::string name_pattern(std::string_view path);

}  // namespace tutti

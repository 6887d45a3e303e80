// SPDX-License-Identifier: Apache-2.0
// Replays a recorded trace in virtual time under another policy.
//
// Each target of the trace is a server with a policy and a modelled device. A request is issued when the requests that
// the same process had waited for have completed, after the same pause as in the recording (closed loop). Requests that
// did not wait for one are issued at their recorded distance from the begin of the phase (open loop). A phase of an
// application begins after all requests of its previous phase have ended, after the recorded compute time.
//
// There is no network, and no limit of memory. Stamps are those that Tutti's clients would send; the size of a phase is
// learned from the previous one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/device.h"
#include "sim/scenario.h"
#include "trace/phases.h"

namespace tutti::sim {

struct ReplayOptions {
  PolicyChoice policy{};
  DeviceFigures device = FixedFigures{};
  unsigned depth = 16;
  Duration gap = trace::kDefaultGap;  // as in trace::find_phases()
};

struct ReplayedPhase {
  ApplicationId application = 0;
  std::uint32_t number = 0;  // of the application, from 0
  Duration begin{}, end{};
  std::optional<Duration> recorded{};  // its duration in the trace, if all completions are known

  Duration duration() const { return end - begin; }
};

// The time in which an application waited at a server while the server worked for another one, over all servers.
struct Delayed {
  ApplicationId application = 0, by = 0;
  Duration time{};
};

struct ReplayOutcome {
  std::vector<ReplayedPhase> phases;  // by application and number
  std::vector<Delayed> delays;        // largest first
  Duration makespan{};
  double mean_batch = 0;  // requests per batch
};

// kInvalid, kNotFound: the policy or its options. kTimeout: the policy did not serve all requests. The trace must keep
// the promises of sched/prediction/trace.h.
Result<ReplayOutcome> replay(const Trace& trace, const ReplayOptions& options);

// A device with a latency per request and a bandwidth that explain how long the servers of the trace were busy while
// only one application used them. `used_phases`: only busy times in phases with an even number count, so that the
// others can be used to test the device.
struct CalibratedDevice {
  FixedFigures device{};
  std::size_t samples = 0;  // busy times
};
enum class CalibrateOn : std::uint8_t { kAllPhases, kEvenPhases };
// Nothing if the trace has fewer than 10 busy times with known completions of one application alone.
std::optional<CalibratedDevice> calibrate(const Trace& trace, Duration gap, CalibrateOn on);

}  // namespace tutti::sim

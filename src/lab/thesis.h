// SPDX-License-Identifier: Apache-2.0
// The thesis's set-up (chapter 4), for the simulated experiments and the live ones.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device.h"

namespace tutti::lab {

// The cluster's head node (section 4.1.1): one NFSv3 server of CentOS 5.7 with large disks behind Gigabit Ethernet.
// What the thesis does not give is that system's default: eight server threads; 16 calls under way per client node
// (RPC slots); writes of at most 32 KiB (the server's limit in release 5.0 to 5.7: access.redhat.com/solutions/753853).
// The disk's bandwidth is the thesis's highest throughput, 91.48 MB/s (section 4.2); IOR counts megabytes of 2^20.
inline constexpr Bytes kLargestWrite{32 << 10};
inline constexpr unsigned kCallsUnderWay = 16;
inline constexpr unsigned kServerThreads = 8;
inline constexpr std::uint64_t kMegabyte = 1 << 20;
HddFigures thesis_disk();

// Computes, then writes so much, `iterations` times.
struct ThesisJob {
  unsigned iterations = 1;
  std::uint64_t megabytes = 0;
  Duration compute{};
  Duration start{};
};

std::vector<ThesisJob> identical_jobs();  // figures 4.1 to 4.3
std::vector<ThesisJob> mixed_jobs();      // table 4.1
// Random jobs as the thesis draws them: 7 to 9 minutes of computation in 4 to 10 iterations, 2.4 GB a job on average.
// ("Each application writes an average of 2.4GB between the iterations": were it 2.4 GB at each of them, two jobs would
// hurt each other more than six do, and backoff would pay for two; the thesis saw neither.)
std::vector<ThesisJob> random_jobs(unsigned count, std::uint64_t seed);

// "base", "backoff" or a discipline of the lock, as tables show it.
std::string coordination_name(const std::string& how);

}  // namespace tutti::lab

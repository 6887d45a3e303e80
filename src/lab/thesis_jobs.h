// SPDX-License-Identifier: Apache-2.0
// The set-ups of the thesis (chapter 4): its NFS server, IOR jobs, and ways to coordinate them.
#pragma once

#include <string>
#include <vector>

#include "lab/tools.h"

namespace tutti::lab {

// The cluster's head node (section 4.1.1): one NFSv3 server with CentOS 5.7, large disks and Gigabit Ethernet. Values
// that the thesis does not give: eight server threads and 16 RPC slots per client node, the defaults of that system;
// writes of 64 KiB, fitted to the 325.95 s of two identical jobs without coordination. The bandwidth of the disk is the
// highest throughput in the thesis, 91.48 MB/s (section 4.2); IOR's megabyte is 2^20 bytes.
inline constexpr Bytes kLargestWrite{64 << 10};
inline constexpr unsigned kCallsUnderWay = 16;
inline constexpr unsigned kServerThreads = 8;
inline constexpr unsigned kCoresPerJob = 16;
inline constexpr std::uint64_t kMegabyte = 1 << 20;
// The disk acknowledges writes that it keeps in its cache (16 MB is usual for drives of that time). So a probe of 3 MB
// is as fast as the network until a job has filled the cache. The thesis names "multi-layered caches" as the cause of
// wrong results of probes. A client's cache cannot hide a load from a probe, because the prober flushes
// (section 3.1.1).
inline constexpr Bytes kDiskCache{16 << 20};

// A job that computes, then writes, `iterations` times.
struct ThesisJob {
  unsigned iterations = 1;
  std::uint64_t megabytes = 0;
  Duration compute{};
  Duration start{};
};

Scenario nfs_server();

// Table 4.1.
std::vector<ThesisJob> mixed_jobs();

// IOR with 16 tasks on one node that write a shared file. Its NFS client always uses all RPC slots, in the order of the
// file.
Application ior(const std::string& name, const ThesisJob& job);

// How the jobs coordinate: "base" (not at all), "backoff", "backoff-own" (probes with data of the checkpoint),
// "lock-probe" (who has the turn also probes), or a discipline of the gate. "set10-bandwidth" is IO-Sets as published,
// where classes write at the same time.
void coordinate(const std::string& how, Scenario& scenario);
// Its name in tables.
std::string coordination_name(const std::string& how);

// The jobs on one NFS server. Their starts are spread over one second more than `start` says, by the seed: a script
// started them.
Scenario with_jobs(const std::vector<ThesisJob>& jobs, const std::string& how, std::uint64_t seed);

}  // namespace tutti::lab

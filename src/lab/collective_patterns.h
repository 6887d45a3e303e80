// SPDX-License-Identifier: Apache-2.0
// The access patterns of the resonant I/O paper, and its two clusters.
#pragma once

#include "lab/collective_program.h"
#include "lab/tools.h"

namespace tutti::lab {

struct PatternSize {
  std::size_t ranks = 4;
  std::uint64_t segment = 64 << 10;  // bytes of a contiguous piece
  Direction direction = Direction::kRead;
  std::uint64_t most_bytes = std::uint64_t{64} << 20;  // of the whole program; the paper's files are larger
};

// Section 1.2: in a call, rank i of N has segments k * N + i, k = 0..3, of the range of the call.
CollectiveProgram demonstration_program(const PatternSize& size);
// Section 4.2.2: in a call, each rank has one segment, one after the other.
CollectiveProgram mpi_io_test(const PatternSize& size);
// Section 4.2.3: each rank has its own quarter of a file of 1 GB; in a call, one segment of it.
CollectiveProgram ior_mpi_io(const PatternSize& size);
// Section 4.2.4: each rank has a column of an array; a column is `segment` wide; 16 MB in a call.
CollectiveProgram noncontig(const PatternSize& size);
// Section 4.2.5: 4096 regions of `segment` bytes per rank, in one call.
CollectiveProgram hpio(const PatternSize& size);
// Section 4.2.1: an array of n * n * n integers in row-major order, 2 x 2 x 1 blocks, in one call.
CollectiveProgram coll_perf(std::uint64_t n, Direction direction);

// The dedicated cluster of section 4: 80 GB SATA disks, Gigabit Ethernet, PVFS2, Linux 2.6.21.
ClusterFigures paper_cluster(unsigned targets = 4);
// The same, but all requests go to the disk's own queue, which sorts them.
ClusterFigures queue_cluster(unsigned targets = 4);
// The paper's cluster with flash.
ClusterFigures flash_cluster(unsigned targets = 4);
// For auto: the figures of the cluster as a site would write them down.
collective::DeviceProfile profile_of(const ClusterFigures& figures);

// Stripes of 64 KB, the default of PVFS2.
Layout paper_layout(unsigned targets = 4);

// Columns of the tables: how calls are executed.
struct NamedMethod {
  std::string name;
  CollectiveMethod method;
};
CollectiveMethod non_collective();
// ROMIO's defaults: two-phase, blocking I/O, buffer of 16 MB.
CollectiveMethod romio();
// As the paper implemented it (section 4): blocking I/O, second phase after the first, groups serialised.
CollectiveMethod paper_method();
// Plans as this tree executes them, without the call cost of the paper's cluster.
CollectiveMethod full_design(collective::PlanKind kind, const ClusterFigures& figures);

// One cell of a table: a program and its method on a cluster.
struct CollectiveCell {
  ClusterFigures figures;
  std::vector<ProgramOnCluster> programs;
  bool until_first = false;
};
// The throughput of the first program in MB/s, by cell and seed. Runs on all cores. All cells have the same seeds.
using Throughputs = std::vector<std::vector<double>>;
// `chosen`: the plan of the second call with the last seed, by cell, if not null.
Result<Throughputs> measure_cells(const std::vector<CollectiveCell>& cells, unsigned seeds,
                                  std::vector<std::string>* chosen = nullptr);
// Figures of values by seed: their mean, how much larger `ours` is than `baseline` in percent, and `ours` over the
// better of two.
ValueWithInterval mean_over_seeds(const std::vector<double>& values);
ValueWithInterval gain_over_seeds(const std::vector<double>& ours, const std::vector<double>& baseline);
ValueWithInterval ratio_to_better(const std::vector<double>& ours, const std::vector<double>& one,
                                  const std::vector<double>& other);
// Adds the mean of each cell to the row of a table.
void append_means(std::vector<Cell>& row, const Throughputs& values);

// A value of the paper, reproduced if ours is within 20% of it.
Claim reproduced(std::string id, std::string what, std::string unit, double paper, const ValueWithInterval& ours);
// The same, for a figure that the model of the servers was fitted to (docs/collective.md).
Claim fitted(std::string id, std::string what, std::string unit, double paper, const ValueWithInterval& ours);
// Our goal: at least `goal`.
Claim advance(std::string id, std::string what, std::string unit, double goal, const ValueWithInterval& ours);

}  // namespace tutti::lab

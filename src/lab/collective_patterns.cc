// SPDX-License-Identifier: Apache-2.0
#include "lab/collective_patterns.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "lab/tools.h"

namespace tutti::lab {

using namespace std::chrono_literals;
using collective::Collective;
using collective::PlanKind;

namespace {

// Of a collective call of MPICH2 1.0.6 on a Pentium with 1.6 GHz, besides I/O and exchange: synchronisation,
// flattening, sorting. Chosen so that the demonstration program with resonant I/O has about the paper's 105 MB/s at 4
// ranks and 64 KB. Non-collective calls do not have it.
constexpr Duration kCallCost = 4ms;

// The first seed of measure_cells(). The figures of the models and the rules of `auto` were chosen with smaller seeds.
constexpr std::uint64_t kCollectiveSeed = 9001;

unsigned calls_for(const PatternSize& size, std::uint64_t bytes_per_call) {
  return static_cast<unsigned>(std::max<std::uint64_t>(1, size.most_bytes / bytes_per_call));
}

// A program whose call number c gives rank r one run.
template <typename RunOf>
CollectiveProgram one_run_per_rank(const char* name, const PatternSize& size, unsigned calls, RunOf run_of) {
  CollectiveProgram program{.name = name, .ranks = size.ranks, .calls = calls, .call = {}, .compute = {}};
  program.call = [size, run_of](unsigned call) {
    Collective collective{size.direction, {}};
    for (std::uint64_t rank = 0; rank < size.ranks; ++rank) collective.lists.push_back({run_of(call, rank)});
    return collective;
  };
  return program;
}

}  // namespace

CollectiveProgram demonstration_program(const PatternSize& size) {
  const std::uint64_t segment = size.segment, ranks = size.ranks;
  return one_run_per_rank(
      "demonstration", size, calls_for(size, 4 * ranks * segment), [=](std::uint64_t call, std::uint64_t rank) {
        return collective::ExtentRun{(call * 4 * ranks + rank) * segment, segment, ranks * segment, 4};
      });
}

CollectiveProgram mpi_io_test(const PatternSize& size) {
  const std::uint64_t segment = size.segment, ranks = size.ranks;
  return one_run_per_rank("mpi-io-test", size, calls_for(size, ranks * segment),
                          [=](std::uint64_t call, std::uint64_t rank) {
                            return collective::ExtentRun{(call * ranks + rank) * segment, segment, 0, 1};
                          });
}

CollectiveProgram ior_mpi_io(const PatternSize& size) {
  const std::uint64_t segment = size.segment, own = (std::uint64_t{1} << 30) / size.ranks;
  return one_run_per_rank("ior-mpi-io", size, calls_for(size, size.ranks * segment),
                          [=](std::uint64_t call, std::uint64_t rank) {
                            return collective::ExtentRun{rank * own + call * segment, segment, 0, 1};
                          });
}

CollectiveProgram noncontig(const PatternSize& size) {
  const std::uint64_t segment = size.segment, ranks = size.ranks, bytes = 16 << 20;
  const std::uint64_t rows = std::max<std::uint64_t>(1, bytes / ranks / segment);
  return one_run_per_rank("noncontig", size, calls_for(size, bytes), [=](std::uint64_t call, std::uint64_t rank) {
    return collective::ExtentRun{(call * rows * ranks + rank) * segment, segment, ranks * segment, rows};
  });
}

CollectiveProgram hpio(const PatternSize& size) {
  const std::uint64_t segment = size.segment, ranks = size.ranks;
  return one_run_per_rank("hpio", size, 1, [=](std::uint64_t, std::uint64_t rank) {
    return collective::ExtentRun{rank * segment, segment, ranks * segment, 4096};
  });
}

CollectiveProgram coll_perf(std::uint64_t n, Direction direction) {
  const PatternSize size{.ranks = 4, .segment = n * n / 2 * 4, .direction = direction};
  return one_run_per_rank("coll_perf", size, 1, [=](std::uint64_t, std::uint64_t rank) {
    const std::uint64_t plane = n * n * 4;
    return collective::ExtentRun{(rank / 2) * (n / 2) * plane + (rank % 2) * plane / 2, plane / 2, plane, n / 2};
  });
}

ClusterFigures paper_cluster(unsigned targets) {
  ClusterFigures figures;
  figures.targets = targets;
  HddFigures disk;
  disk.capacity = Bytes(80'000'000'000);
  disk.bandwidth = 58e6;  // chosen by the paper's 175 MB/s at 4 ranks and 64 KB without collective I/O
  figures.device = disk;
  figures.request_cost = 100us;
  figures.extent_cost = 2us;
  figures.network = {.latency = 60us, .jitter = 300us, .client_bandwidth = 0, .server_bandwidth = 117e6};
  figures.spread = Bytes(5'000'000'000);  // two files of 10 GB have 2.5 GB each on every disk
  figures.serial_files = true;
  figures.chunks = 1;
  return figures;
}

ClusterFigures queue_cluster(unsigned targets) {
  ClusterFigures figures = paper_cluster(targets);
  figures.serial_files = false;
  return figures;
}

ClusterFigures flash_cluster(unsigned targets) {
  ClusterFigures figures = paper_cluster(targets);
  figures.device = *device_preset("ssd-2010");
  return figures;
}

collective::DeviceProfile profile_of(const ClusterFigures& figures) {
  collective::DeviceProfile profile = std::holds_alternative<HddFigures>(figures.device)
                                          ? collective::DeviceProfile::disk()
                                          : collective::DeviceProfile::flash();
  if (const auto* disk = std::get_if<HddFigures>(&figures.device)) profile.bandwidth = disk->bandwidth;
  if (const auto* flash = std::get_if<SsdFigures>(&figures.device)) profile.bandwidth = flash->read_bandwidth;
  profile.network_bandwidth = figures.network.server_bandwidth;
  profile.message = figures.network.latency + figures.network.jitter / 2;
  profile.read_ahead = figures.read_ahead;
  return profile;
}

Layout paper_layout(unsigned targets) {
  return Layout::round_robin(Bytes(64 << 10), targets);
}

CollectiveMethod non_collective() {
  return {.collective = false, .options = {.kind = PlanKind::kIndependent, .nonblocking = false}};
}

CollectiveMethod romio() {
  return {.options = {.kind = PlanKind::kTwoPhase, .nonblocking = false}, .call_cost = kCallCost};
}

CollectiveMethod paper_method() {
  return {.options = {.kind = PlanKind::kPaper, .nonblocking = false}, .call_cost = kCallCost};
}

Result<Throughputs> measure_cells(const std::vector<CollectiveCell>& cells, unsigned seeds,
                                  std::vector<std::string>* chosen) {
  Throughputs values(cells.size());
  std::vector<std::string> plans(cells.size());
  std::vector<std::optional<Error>> errors(cells.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < cells.size(); ++i)
    tasks.push_back([&, i] {
      for (unsigned seed = 0; seed < seeds; ++seed) {
        const auto times =
            run_programs(cells[i].figures, cells[i].programs, kCollectiveSeed + seed, cells[i].until_first);
        if (!times) {
          errors[i] = times.error();
          return;
        }
        values[i].push_back(times->front().megabytes_per_second());
        plans[i] = name_of(times->front().kinds[std::min<std::size_t>(1, times->front().kinds.size() - 1)]);
      }
    });
  run_all(tasks);
  for (const auto& error : errors)
    if (error) return Failure(*error);
  if (chosen != nullptr) *chosen = plans;
  return values;
}

ValueWithInterval mean_over_seeds(const std::vector<double>& values) {
  return jackknife(values.size(), [&](WithoutSeed without) { return mean_of(values, without); });
}

ValueWithInterval gain_over_seeds(const std::vector<double>& ours, const std::vector<double>& baseline) {
  ValueWithInterval gain = reduction_over_seeds(baseline, ours);
  gain.value = -gain.value;
  return gain;
}

ValueWithInterval ratio_to_better(const std::vector<double>& ours, const std::vector<double>& one,
                                  const std::vector<double>& other) {
  return ratio_over_seeds(ours, sum_of(one) > sum_of(other) ? one : other);
}

void append_means(std::vector<Cell>& row, const Throughputs& values) {
  for (const auto& each : values) row.emplace_back(mean_of(each));
}

Claim reproduced(std::string id, std::string what, std::string unit, double paper, const ValueWithInterval& ours) {
  Claim claim{.id = std::move(id), .what = std::move(what), .unit = std::move(unit), .paper = paper};
  claim.reproduced = true;
  return with(std::move(claim), ours);
}

Claim advance(std::string id, std::string what, std::string unit, double goal, const ValueWithInterval& ours) {
  Claim claim{.id = std::move(id), .what = std::move(what), .unit = std::move(unit), .goal = goal};
  claim.goal_is = Claim::Goal::kAtLeast;
  return with(std::move(claim), ours);
}

Claim fitted(std::string id, std::string what, std::string unit, double paper, const ValueWithInterval& ours) {
  Claim claim = reproduced(std::move(id), std::move(what), std::move(unit), paper, ours);
  claim.fitted = true;
  return claim;
}

CollectiveMethod full_design(PlanKind kind, const ClusterFigures& figures) {
  CollectiveMethod method{.collective = true, .options = {.kind = kind}};
  method.options.device = profile_of(figures);
  method.options.free_running = true;
  return method;
}

}  // namespace tutti::lab

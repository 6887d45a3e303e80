// SPDX-License-Identifier: Apache-2.0
// The full simulation of a scenario, with production clients, nodes and gate (RunOptions::full). Internal.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/prng.h"
#include "gate/backoff.h"
#include "sim/active_faults.h"
#include "sim/applications.h"
#include "sim/live_reserved_memory.h"
#include "sim/pattern.h"
#include "sim/placement.h"
#include "sim/simulated_cluster.h"
#include "sim/simulation.h"

namespace tutti::sim {

// One object per run. Not thread-safe.
class FullRun final : private Applications::Backend {
 public:
  FullRun(const Scenario& scenario, const RunOptions& options);
  ~FullRun() override {
    applications_.stop();  // operations in flight end when their clients stop
    for (auto& ranks : ranks_)
      for (RankProcess& rank : ranks) rank.client->async().core().stop();
    for (ProberProcess& prober : probers_)
      if (prober.client) prober.client->async().core().stop();
  }

  // An error: the clients could not start or open their files.
  Result<Outcome> run();

 private:
  struct RankProcess {
    SimulatedClient* client = nullptr;
    std::vector<std::shared_ptr<OpenFile>> files;  // by iteration; with `flow`, by iteration and server
  };
  // The process that probes the servers before the phases of an application.
  struct ProberProcess {
    SimulatedClient* client = nullptr;
    std::vector<std::shared_ptr<OpenFile>> files;  // by column of the layout
    std::optional<gate::Backoff> backoff;
  };

  struct PlacedFile {
    FileId id;
    std::shared_ptr<const Layout> layout;
  };

  SimulatedCluster::Options cluster_options(const Scenario& scenario);
  std::uint64_t position(std::size_t node, const Operation& operation) const;
  Result<void> set_up();
  SimulatedClient& add_process(std::uint32_t application, std::uint32_t rank, const std::string& name);
  void open_files(std::uint32_t application, std::uint32_t rank);
  void open_probe_files(std::uint32_t application);
  void open(SimulatedClient& client, const std::string& path, PlacedFile placed, std::shared_ptr<OpenFile>& into);
  void start(SimulatedClient& client, Task then);
  void next_probe(std::uint32_t application);
  void probe(std::uint32_t application, const gate::Backoff::Write& write);
  void transfer(OpenFile& file, Direction direction, std::span<const CutRequest> cuts, Done<std::size_t> done,
                const Stamp* stamp = nullptr);
  void issue_flow(std::uint32_t application, std::uint32_t rank, Done<std::size_t> done);
  void schedule_faults();
  void fault(std::size_t index, bool ends);
  Nanoseconds delay_between(const Process& from, const Process& to);
  void collect_stuck();

  Nanoseconds now() const override { return cluster_.simulator().now() - start_; }
  void step_at(Nanoseconds when, std::uint32_t application, std::uint32_t operand) override {
    cluster_.simulator().at(start_ + when, [=, this] { applications_.step(application, operand); });
  }
  void ask_for_turn(std::uint32_t application) override;
  void phase_begins(std::uint32_t application) override;
  void phase_ends(std::uint32_t application) override;
  void issue(std::uint32_t application, std::uint32_t rank, const OperationIndex& index) override;
  void sync(std::uint32_t application, std::uint32_t rank) override;

  const Scenario scenario_;
  const RunOptions options_;
  mutable SimulatedCluster cluster_;
  Outcome outcome_;
  Applications applications_;
  std::vector<std::vector<RankProcess>> ranks_;  // by application
  std::vector<std::size_t> without_turn_;        // by application: ranks that wait for their turn
  std::vector<ProberProcess> probers_;           // by application
  std::unique_ptr<SimulatedGate> gate_;
  std::vector<Placed> placed_;  // by application
  Nanoseconds start_ = 0;       // when all files are open
  std::size_t opening_ = 0;
  Result<void> opened_;  // the first error
  Prng chance_;
  std::vector<Extent> extents_;
  RequestCutter cutter_;
  std::vector<CutRequest> cuts_;
  std::optional<ReservedMemory> memory_;                 // never accessed: only sizes are sent
  std::unordered_map<std::uint64_t, PlacedFile> files_;  // by inode
  ActiveFaults active_faults_;
};

}  // namespace tutti::sim

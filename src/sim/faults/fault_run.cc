// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/faults/fault_machines.h"
#include "sim/faults/limit_run.h"
#include "sim/faults/neighbours.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeedsPerRun = 4;  // of neighbours and of limits: long runs with many messages

class FaultRun {
 public:
  FaultRun(const FaultPlan& plan, std::function<void(const std::string&)> trace)
      : plan_(plan), state_(plan, std::move(trace)), machines_(state_) {}

  FaultOutcome run() {
    for (const PlannedFault& fault : plan_.faults) {
      // Operations are in progress when a fault begins.
      const auto before = static_cast<Nanoseconds>(state_.chance.below(400'000));
      state_.cluster.simulator().at(fault.at - before, [this] { hurry(); });
      state_.cluster.simulator().at(fault.at, [this, &fault] { machines_.begin(fault); });
      state_.cluster.simulator().at(fault.end, [this, &fault] { machines_.end(fault); });
    }
    run_until([&] { return state_.now() >= plan_.length.count() && operations() >= plan_.operations; },
              plan_.length * 4);
    state_.say("no more faults and load");
    for (auto& client : machines_.clients()) client->stop_load();
    const FaultTimeouts& t = plan_.timeouts;
    run_until(
        [&] {
          return std::ranges::all_of(machines_.clients(),
                                     [](auto& client) { return client->idle() && !client->in_phase(); });
        },
        t.give_up + t.request + t.fence + t.gate_wait + 60s);
    run_for(t.request + t.fence + 5s);              // nothing takes effect after this time
    run_until([&] { return nodes_idle(); }, 120s);  // disks finish what they began while they were stalled
    check_progress();
    check_leaks();
    machines_.cut_all_power();
    return outcome();
  }

  std::vector<std::weak_ptr<const Inode>> inodes() { return state_.cluster.volume().inodes(); }

 private:
  std::uint64_t operations() const {
    return std::accumulate(state_.operations.begin(), state_.operations.end(), std::uint64_t{0});
  }

  bool nodes_idle() {
    for (std::size_t i = 0; i < plan_.nodes; ++i)
      if (!state_.cluster.node(i).service().idle()) return false;
    return true;
  }

  void hurry() {
    for (auto& client : machines_.clients()) client->hurry();
  }

  // Runs until then, but not longer than `limit`. Returns whether it is so.
  bool run_until(const std::function<bool()>& done, Duration limit) {
    Simulator& simulator = state_.cluster.simulator();
    const Nanoseconds end = simulator.now() + limit.count();
    simulator.at(end, [] {});  // so that time passes
    while (!done() && simulator.now() < end && simulator.run_next()) check_event();
    return done();
  }
  void run_for(Duration time) {
    const Nanoseconds end = state_.now() + time.count();
    run_until([&] { return state_.now() >= end; }, time);
  }

  // After each event.
  void check_event() {
    std::size_t holders = 0;
    for (const auto& client : machines_.clients()) holders += client->lease_left() > Duration{};
    if (holders > 1 && !two_holders_) state_.violation(fmt::format("two holders of a turn at {:.6f}", seconds()));
    two_holders_ = holders > 1;
    if (state_.now() < next_check_) return;
    next_check_ = state_.now() + 100'000'000;
    for (const auto& client : machines_.clients()) client->check_bounds();
  }

  double seconds() { return static_cast<double>(state_.now()) / 1e9; }

  // One operation after the last fault. It must succeed soon.
  void expect(const char* what, LoadClient& client, const std::function<void()>& start) {
    start();
    const Duration limit = plan_.timeouts.request + plan_.timeouts.fence + 3s;  // the connection may be half open
    if (!run_until([&] { return client.idle(); }, limit))
      state_.violation(fmt::format("after the last fault, {} does not end within {} s", what, limit / 1s));
    else if (!client.succeeded())
      state_.violation(fmt::format("after the last fault, {} fails: {}", what, client.last_error()));
  }

  // A client whose connection to the gate is half open learns that by the first turn, which begins without the gate.
  void check_turn(LoadClient& client) {
    bool granted = false;
    for (int attempt = 0; attempt < 2 && !granted; ++attempt) {
      expect("a turn", client, [&] { client.check_turn(); });
      granted = client.lease_left() > Duration{};
      client.end_turn();
      run_for(5s);
    }
    if (!granted) state_.violation("after the last fault, the gate grants no turn");
  }

  void check_progress() {
    for (auto& each : machines_.clients()) {
      LoadClient& client = *each;
      client.close_files();
      for (std::size_t file = 0; file < plan_.files && state_.violations.empty(); ++file) {
        expect("an open", client, [&] { client.check_open(file); });
        if (!client.succeeded()) continue;
        expect("a write", client, [&] { client.check_write(file); });
        expect("a sync", client, [&] { client.check_sync(file); });
        expect("a read", client, [&] { client.check_read(file); });
      }
      if (!state_.violations.empty()) return;
      check_turn(client);
    }
    LoadClient& first = *machines_.clients().front();
    for (std::size_t name = 0; name < plan_.clients * plan_.threads * 2; ++name)
      expect("a look-up", first, [&] { first.check_name(name); });
  }

  void check_leaks() {
    for (auto& client : machines_.clients()) client->close_files();
    run_for(1s);
    const SimulatedNetwork::Census census = state_.cluster.network().census();
    if (census.queued > 0 || census.in_transit > 0 || census.request_memory > 0)
      state_.violation(
          fmt::format("at the end, connections have {} queued frames, {} bytes in transit and {} bytes of "
                      "requests",
                      census.queued, census.in_transit, census.request_memory));
    if (census.established > plan_.clients * (plan_.nodes + 1))
      state_.violation(fmt::format("at the end, there are {} connections", census.established));
    std::uint64_t buffers = 0;
    for (std::size_t i = 0; i < plan_.nodes; ++i) {
      NodeService& service = state_.cluster.node(i).service();
      const wire::StatisticsReply statistics = service.statistics();
      buffers += statistics.buffer_bytes;
      if (!service.idle() || statistics.waiting > 0 || statistics.in_flight > 0)
        state_.violation(fmt::format("at the end, node {} has {} waiting requests, {} in flight", i, statistics.waiting,
                                     statistics.in_flight));
    }
    if (buffers > census.half_open_buffers)
      state_.violation(fmt::format("at the end, nodes have {} bytes of buffers", buffers - census.half_open_buffers));
    if (!state_.gate.service().stop()) state_.violation("at the end, the gate has holders or waiters");
  }

  FaultOutcome outcome() {
    FaultOutcome outcome{.seed = plan_.seed,
                         .violations = state_.violations,
                         .operations = state_.operations,
                         .failed_operations = state_.failed,
                         .simulated = Duration(state_.now()),
                         .events = state_.cluster.simulator().events(),
                         .hash = state_.cluster.simulator().hash()};
    for (const PlannedFault& fault : plan_.faults) ++outcome.faults[static_cast<std::size_t>(fault.kind)];
    for (std::string& wrong : state_.names.check()) outcome.violations.push_back(std::move(wrong));
    for (std::string& wrong : state_.history.check()) outcome.violations.push_back(std::move(wrong));
    return outcome;
  }

  const FaultPlan& plan_;
  FaultRunState state_;
  FaultMachines machines_;
  Nanoseconds next_check_ = 0;
  bool two_holders_ = false;
};

}  // namespace

std::uint64_t FaultOutcome::all_operations() const {
  return std::accumulate(operations.begin(), operations.end(), std::uint64_t{0});
}

FaultOutcome run_faults(const FaultPlan& plan, const std::function<void(const std::string&)>& trace) {
  FaultOutcome outcome;
  std::vector<std::weak_ptr<const Inode>> inodes;
  {
    FaultRun run(plan, trace);
    outcome = run.run();
    inodes = run.inodes();
  }
  // A request or a session that was not destroyed keeps its file.
  const auto kept = std::ranges::count_if(inodes, [](const auto& inode) { return !inode.expired(); });
  if (kept > 0) outcome.violations.push_back(fmt::format("{} files are in use after the end of all processes", kept));
  std::vector<std::string> more;
  if (plan.seed % kSeedsPerRun == 0) more = run_neighbours(plan.seed).violations;
  if (plan.seed % kSeedsPerRun == 2) more = run_limits(plan.seed, trace).violations;
  for (std::string& what : more) outcome.violations.push_back(std::move(what));
  return outcome;
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/fault_machines.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

// From `least` to `most`, as often below as above their geometric mean.
double between(double least, double most, double amount) {
  return least * std::pow(most / least, amount);
}

Duration part_of(Duration most, double amount) {
  return Duration(static_cast<std::int64_t>(static_cast<double>(most.count()) * amount));
}

}  // namespace

FaultMachines::FaultMachines(FaultRunState& state) : state_(state), machines_(state.plan.gate() + 1) {
  for (std::size_t i = 0; i < state.plan.clients; ++i) clients_.push_back(std::make_unique<LoadClient>(state, i));
}

Process& FaultMachines::process(std::size_t machine) {
  if (is_node(machine)) return state_.cluster.node(machine).process();
  if (is_gate(machine)) return state_.gate.process();
  return client(machine).process();
}

// ---- ends and pauses ----

void FaultMachines::stop(std::size_t machine, bool silent) {
  if (machines_[machine].down++ == 0 && !machines_[machine].fenced) kill(machine, silent);
}

void FaultMachines::restart(std::size_t machine) {
  if (--machines_[machine].down == 0 && !machines_[machine].fenced) start(machine);
}

void FaultMachines::pause(std::size_t machine) {
  if (machines_[machine].paused++ == 0 && machines_[machine].running()) begin_pause(machine);
}

void FaultMachines::resume(std::size_t machine) {
  Machine& state = machines_[machine];
  if (--state.paused > 0) return;
  ++state.pauses;
  if (std::exchange(state.fenced, false)) {
    if (state.down == 0) start(machine);
  } else if (state.running()) {
    if (is_node(machine) || is_gate(machine))
      process(machine).resume();
    else
      client(machine).resume();
  }
}

void FaultMachines::kill(std::size_t machine, bool silent) {
  machines_[machine].memory.clear();
  if (!is_node(machine) && !is_gate(machine)) return client(machine).kill(silent);
  if (silent) state_.cluster.network().forget_connections(process(machine));
  if (is_gate(machine))
    state_.gate.kill();
  else
    state_.cluster.node(machine).kill();
}

void FaultMachines::start(std::size_t machine) {
  state_.say(fmt::format("machine {} starts", machine));
  if (is_gate(machine))
    state_.gate.start(state_.plan.timeouts.gate_lease);
  else if (is_node(machine))
    state_.cluster.node(machine).start();
  else
    client(machine).start();
  if (machines_[machine].paused > 0) begin_pause(machine);
}

// The watchdog kills a node that is stopped for the fence time.
void FaultMachines::begin_pause(std::size_t machine) {
  if (!is_node(machine) && !is_gate(machine)) return client(machine).pause();
  process(machine).pause();
  if (is_gate(machine)) return;
  const std::uint64_t pause = ++machines_[machine].pauses;
  state_.cluster.simulator().at(state_.now() + state_.plan.timeouts.fence.count(), [this, machine, pause] {
    Machine& state = machines_[machine];
    if (state.pauses != pause || !state.running()) return;
    state_.say(fmt::format("the watchdog kills node {}", machine));
    state.fenced = true;
    kill(machine, false);
  });
}

void FaultMachines::restart_all(const PlannedFault& fault, bool ends) {
  const bool power = fault.amount < 0.5;
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    if (ends) {
      restart(machine);
    } else {
      stop(machine, power);
      if (power && is_node(machine)) state_.cluster.volume().cut_power(process(machine));
    }
  }
}

void FaultMachines::cut_all_power() {
  for (std::size_t i = 0; i < state_.plan.nodes; ++i) state_.cluster.volume().cut_power(process(i));
}

// ---- faults ----

void FaultMachines::connections(const PlannedFault& fault, bool ends) {
  SimulatedNetwork& network = state_.cluster.network();
  if (fault.kind == FaultKind::kLostConnections) {
    lossy_ += ends ? -1 : 1;
    return network.lose_connections(lossy_ > 0 ? between(0.001, 0.1, fault.amount) : 0);
  }
  if (fault.kind == FaultKind::kHalfOpen) {
    if (!ends && machines_[fault.machine].running()) network.forget_connections(process(fault.machine));
    return;
  }
  const std::pair<std::size_t, std::size_t> there{fault.machine, fault.other}, back{fault.other, fault.machine};
  for (const auto& [from, to] : {there, back}) {
    if (from != there.first && fault.kind == FaultKind::kOneWayLoss) continue;
    int& count = cuts_[{from, to}];
    count += ends ? -1 : 1;
    set_cut(from, to, fault.kind != FaultKind::kPartition);
  }
}

void FaultMachines::set_cut(std::size_t from, std::size_t to, bool lost) {
  SimulatedNetwork& network = state_.cluster.network();
  if (cuts_[{from, to}] == 0)
    network.heal(process(from), process(to));
  else if (lost)
    network.cut(process(from), process(to));
  else
    network.hold(process(from), process(to));
}

void FaultMachines::slow_down(const PlannedFault& fault, bool ends) {
  SimulatedNode* const node = is_node(fault.machine) ? &state_.cluster.node(fault.machine) : nullptr;
  const FaultTimeouts& timeouts = state_.plan.timeouts;
  switch (fault.kind) {
    case FaultKind::kSlowPeer:
      return state_.cluster.network().set_receiver(
          process(fault.machine),
          ends ? SimulatedNetwork::Receiver{}
               : SimulatedNetwork::Receiver{.bytes_per_second = between(3e3, 1e6, fault.amount), .window = 4096});
    case FaultKind::kStalledDisk:
      if (machines_[fault.machine].running()) node->set_slowdown(ends ? 1 : between(1e3, 2e5, fault.amount));
      return;
    case FaultKind::kStalledWorkers:  // a longer stall is not covered by deadlines: the system call has begun
      return process(fault.machine).stall_workers(ends ? 0s : part_of(timeouts.fence * 9 / 10, fault.amount));
    default:
      return process(fault.machine).delay_workers(ends ? 0s : part_of(timeouts.request * 3, fault.amount));
  }
}

void FaultMachines::disk(const PlannedFault& fault, bool ends) {
  FaultRunState::DiskState& disk = state_.disks[fault.machine];
  int& count = fault.kind == FaultKind::kIoErrors     ? disk.errors
               : fault.kind == FaultKind::kNoSpace    ? disk.no_space
               : fault.kind == FaultKind::kFailedSync ? disk.failed_syncs
                                                      : disk.slow_syncs;
  count += ends ? -1 : 1;
  if (fault.kind == FaultKind::kSlowSync) disk.sync_time = part_of(15s, fault.amount);
}

// Two clocks differ by at most 200 ppm, as net::PeerClock assumes.
void FaultMachines::clock(const PlannedFault& fault, bool ends) {
  if (fault.kind == FaultKind::kClockDrift)
    return process(fault.machine).set_drift(ends ? 0 : fault.amount < 0.5 ? 100e-6 : -100e-6);
  const bool back = fault.amount < 0.5;
  if (!ends) process(fault.machine).set_clock_error(part_of(3600s, fault.amount) * (back ? -1 : 1));
  if (ends) process(fault.machine).set_clock_error({});
}

void FaultMachines::memory(const PlannedFault& fault, bool ends) {
  Machine& machine = machines_[fault.machine];
  if (ends || !machine.running()) return machine.memory.clear();
  const auto pool = state_.cluster.node(fault.machine).service().listen_options({}).pool;
  for (std::size_t size = wire::kMaxPayload; size >= Inode::kBlock; size /= 2)
    for (net::Buffer taken = pool->try_allocate(size); !taken.empty(); taken = pool->try_allocate(size))
      machine.memory.push_back(std::move(taken));
}

void FaultMachines::begin(const PlannedFault& fault) {
  state_.say(fmt::format("{} of machine {} (other {}, amount {:.3f}) begins", name_of(fault.kind), fault.machine,
                         fault.other, fault.amount));
  apply(fault, false);
}

void FaultMachines::end(const PlannedFault& fault) {
  state_.say(fmt::format("{} of machine {} ends", name_of(fault.kind), fault.machine));
  apply(fault, true);
}

void FaultMachines::apply(const PlannedFault& fault, bool ends) {
  switch (fault.kind) {
    case FaultKind::kKillClient:
    case FaultKind::kKillNode:
    case FaultKind::kKillGate:
      return ends ? restart(fault.machine) : stop(fault.machine, false);
    case FaultKind::kPauseClient:
    case FaultKind::kPauseNode:
    case FaultKind::kPauseGate:
      return ends ? resume(fault.machine) : pause(fault.machine);
    case FaultKind::kPowerCut:
      if (ends) return restart(fault.machine);
      stop(fault.machine, true);
      return state_.cluster.volume().cut_power(process(fault.machine));
    case FaultKind::kRestartAll:
      return restart_all(fault, ends);
    case FaultKind::kPartition:
    case FaultKind::kLoss:
    case FaultKind::kOneWayLoss:
    case FaultKind::kHalfOpen:
    case FaultKind::kLostConnections:
      return connections(fault, ends);
    case FaultKind::kIoErrors:
    case FaultKind::kNoSpace:
    case FaultKind::kFailedSync:
    case FaultKind::kSlowSync:
      return disk(fault, ends);
    case FaultKind::kClockDrift:
    case FaultKind::kClockJump:
      return clock(fault, ends);
    case FaultKind::kMemoryShortage:
      return memory(fault, ends);
    default:
      return slow_down(fault, ends);
  }
}

}  // namespace tutti::sim

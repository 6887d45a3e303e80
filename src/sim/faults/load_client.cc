// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/load_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr double kDriftAllowance = 1.001;
// A write that took longer may have been applied twice. A client repeats it as soon as the node runs again: the new
// process proves that the old one is gone. Nodes are never away for a shorter time.
constexpr Duration kRepeatsAfter = 40ms;
constexpr std::size_t kOwnNames = 2;  // per thread

std::string file_name(std::size_t file) {
  return fmt::format("shared{}", file);
}

}  // namespace

// ---- what clients share ----

FaultRunState::FaultRunState(const FaultPlan& made, std::function<void(const std::string&)> line)
    : plan(made),
      trace(std::move(line)),
      cluster(cluster_options()),
      gate(cluster.network(),
           {.table = {.targets = static_cast<std::uint32_t>(made.nodes), .lease = made.timeouts.gate_lease}}, 100us),
      history(cluster.simulator(), kRepeatsAfter),
      chance(made.seed * 3 + 1),
      disks(made.nodes) {
  cluster.volume().observe(&history);
  for (std::size_t i = 0; i < plan.files; ++i) cluster.volume().make_file(file_name(i), 0);
}

SimulatedCluster::Options FaultRunState::cluster_options() {
  SimulatedCluster::Options options;
  options.seed = plan.seed;
  options.nodes = plan.nodes;
  options.clients = plan.clients;
  options.content = true;
  options.network.latency = 50us;
  options.network.jitter = 30us;
  options.cluster.stripe_size = Bytes(plan.stripe * Inode::kBlock);
  options.cluster.request_timeout = plan.timeouts.request;
  options.cluster.fence_time = plan.timeouts.fence;
  options.give_up = plan.timeouts.give_up;
  options.sync_timeout = plan.timeouts.give_up;
  options.node.device.figures = SsdFigures{};
  options.node.node.policy = plan.policy;
  options.node.node.depth = plan.depth;
  options.node.node.write_buffers = Bytes(16 << 20);
  options.node.node.read_buffers = Bytes(16 << 20);
  if (plan.seed % 2 == 1) options.node.node.limits.small = 0;    // all payloads are pulled
  if (plan.seed % 8 == 5) options.node.node.max_open_files = 8;  // nodes close idle files all the time
  options.faults = [this](std::size_t node, const Operation& operation) { return disk_fault(node, operation); };
  return options;
}

std::optional<DiskFault> FaultRunState::disk_fault(std::size_t node, const Operation& operation) {
  if (disks.empty()) return std::nullopt;  // set-up
  const DiskState& disk = disks[node];
  if (operation.kind == Operation::Kind::kSync) {
    DiskFault fault;
    if (disk.failed_syncs > 0 && chance.chance(0.5)) fault.error = EIO;
    if (disk.slow_syncs > 0) fault.delay = disk.sync_time;
    return fault;
  }
  const bool space = operation.kind == Operation::Kind::kWrite && disk.no_space > 0;
  if ((disk.errors == 0 && !space) || !chance.chance(0.3)) return std::nullopt;
  DiskFault fault{.error = space ? ENOSPC : EIO};
  if (chance.chance(0.5)) fault.at_most = chance.below(operation.length() / Inode::kBlock + 1) * Inode::kBlock;
  return fault;
}

void FaultRunState::say(const std::string& line) {
  if (trace) trace(fmt::format("{:11.6f} {}", static_cast<double>(now()) / 1e9, line));
}

void FaultRunState::violation(std::string what) {
  say("VIOLATION " + what);
  if (violations.size() < 20) violations.push_back(std::move(what));
}

Nanoseconds FaultRunState::latest_effect() {
  const auto window = static_cast<double>((plan.timeouts.request + plan.timeouts.fence).count());
  return now() + static_cast<Nanoseconds>(window * kDriftAllowance);
}

// ---- start and end ----

LoadClient::LoadClient(FaultRunState& state, std::size_t index) : state_(state), index_(index) {
  threads_.resize(state.plan.threads);
  for (std::size_t i = 0; i < threads_.size(); ++i)
    for (std::size_t j = 0; j < kOwnNames; ++j)
      threads_[i].names.push_back(state.names.add(fmt::format("client{}-{}-{}", index, i, j)));
  const std::uint64_t number = index_ + 1;
  const auto make_turns = [this, number](Process& process) {
    const SimulatedGate::Bounds bounds{.answer_bound = state_.plan.timeouts.gate_answer,
                                       .max_wait = state_.plan.timeouts.gate_wait};
    auto turns = state_.gate.turns(index_, number, bounds)(process);
    turns_ = static_cast<gate::GateTurns*>(turns.get());
    return turns;
  };
  client_ = &state_.cluster.add_client(
      {.number = number, .application = static_cast<ApplicationId>(number), .name = fmt::format("client{}", index_)},
      index_, make_turns);
  start();
}

LoadClient::~LoadClient() {
  if (running()) kill(true);
}

void LoadClient::start() {
  if (!client_->running()) client_->create();
  shared_.assign(state_.plan.files, std::nullopt);
  client_->start([](const Result<void>&) {});  // it continues to connect if no node answers
  for (std::size_t i = 0; i < threads_.size(); ++i) think(i);
  think_about_turn();
}

void LoadClient::kill(bool silent) {
  ++life_;
  const auto pending = std::exchange(pending_, {});
  for (const auto& [number, operation] : pending)
    if (operation->unknown) operation->unknown();
  if (silent) state_.cluster.network().forget_connections(client_->process());
  shared_.clear();
  for (LoadThread& thread : threads_) thread.extra.reset();
  in_phase_ = false;
  turns_ = nullptr;
  client_->kill();
}

void LoadClient::pause() {
  paused_since_ = now();
  process().pause();
}

void LoadClient::resume() {
  process().resume();
  for (const auto& [number, operation] : pending_) operation->bound += now() - paused_since_;
}

void LoadClient::check_bounds() {
  if (!running() || process().paused()) return;
  for (const auto& [number, operation] : pending_) {
    if (now() <= operation->bound) continue;
    state_.violation(fmt::format("{} of client {} that began at {:.6f} has not ended at {:.6f}",
                                 name_of(operation->kind), index_, static_cast<double>(operation->begin) / 1e9,
                                 static_cast<double>(now()) / 1e9));
    operation->bound = kNever;
  }
}

// ---- operations ----

LoadClient::OperationPointer LoadClient::begin(LoadKind kind, std::size_t thread) {
  const FaultTimeouts& timeouts = state_.plan.timeouts;
  auto operation = std::make_shared<LoadOperation>();
  operation->number = ++last_operation_;
  operation->kind = kind;
  operation->thread = thread;
  operation->begin = now();
  const Duration limit =
      kind == LoadKind::kTurn ? timeouts.gate_wait : timeouts.give_up + timeouts.request + timeouts.fence;
  operation->bound = now() + (limit + 3s).count();
  pending_[operation->number] = operation;
  ++state_.operations[static_cast<std::size_t>(kind)];
  return operation;
}

void LoadClient::end(const OperationPointer& operation, const Error* error) {
  pending_.erase(operation->number);
  if (error) {
    ++state_.failed;
    if (operation->unknown) operation->unknown();
  }
  if (state_.trace)
    state_.say(fmt::format("client {} thread {}: {}{} since {:.6f}: {}", index_, operation->thread,
                           name_of(operation->kind), operation->note, static_cast<double>(operation->begin) / 1e9,
                           error ? error->message : "done"));
  succeeded_ = error == nullptr;
  last_error_ = error ? error->message : "";
  if (operation->kind != LoadKind::kTurn) think(operation->thread);
}

void LoadClient::note(LoadOperation& operation, const FileHandle& handle, const std::vector<std::uint64_t>& blocks,
                      std::uint64_t value) const {
  if (!state_.trace) return;
  operation.note = fmt::format(" {} of file {} blocks {} through handle {}", value, handle.file->opened().generation,
                               fmt::join(blocks, ","), handle.number);
}

void LoadClient::think(std::size_t thread) {
  if (stopped_ || thread >= threads_.size()) return;
  const double pause = state_.chance.exponential(static_cast<double>(state_.plan.think.count()));
  threads_[thread].thinking = true;
  process().at(now() + static_cast<Nanoseconds>(pause), [this, thread, number = ++threads_[thread].pauses] {
    if (threads_[thread].thinking && threads_[thread].pauses == number) step(thread);
  });
}

void LoadClient::hurry() {
  if (!running() || process().paused()) return;
  for (std::size_t thread = 0; thread < threads_.size(); ++thread)
    if (threads_[thread].thinking) process().soon([this, thread] { step(thread); });
}

LoadKind LoadClient::choose() {
  double sum = 0;
  for (const double weight : state_.plan.weights) sum += weight;
  double left = state_.chance.uniform() * sum;
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    if ((left -= state_.plan.weights[i]) < 0) return static_cast<LoadKind>(i);
  return LoadKind::kRead;
}

// Nothing: opens a file instead.
std::optional<LoadClient::FileHandle> LoadClient::choose_handle(std::size_t thread) {
  if (threads_[thread].extra && state_.chance.chance(0.3)) return threads_[thread].extra;
  const std::size_t file = state_.chance.below(state_.chance.chance(state_.plan.sequential) ? 1 : shared_.size());
  if (!shared_[file]) open_shared(thread, file);
  return shared_[file];
}

// Ascending; a list has gaps.
std::vector<std::uint64_t> LoadClient::choose_blocks(bool list) {
  const std::uint64_t most = state_.plan.blocks;
  std::vector<std::uint64_t> blocks;
  std::uint64_t block = state_.chance.below(state_.chance.chance(0.5) ? std::min<std::uint64_t>(most, 4) : most);
  if (state_.chance.chance(state_.plan.sequential)) block = state_.next_block % most;
  for (std::uint64_t count = 1 + state_.chance.below(list ? 8 : 6); count > 0 && block < most; --count) {
    blocks.push_back(block);
    block += list ? 1 + state_.chance.below(4) : 1;
  }
  state_.next_block = block;
  return blocks;
}

void LoadClient::step(std::size_t thread) {
  if (stopped_ || !std::exchange(threads_[thread].thinking, false)) return;
  const LoadKind kind = choose();
  switch (kind) {
    case LoadKind::kOpen:
      if (state_.chance.chance(0.7)) return open_extra(thread);
      return open_shared(thread, state_.chance.below(shared_.size()));
    case LoadKind::kSwitchPolicy:
      return switch_policy(thread);
    case LoadKind::kCreate:
    case LoadKind::kRecreate:
    case LoadKind::kRename:
    case LoadKind::kUnlink:
    case LoadKind::kLookUp:
      return step_names(thread, kind);
    default:
      return step_data(thread, kind);
  }
}

void LoadClient::step_data(std::size_t thread, LoadKind kind) {
  const std::optional<FileHandle> handle = choose_handle(thread);
  if (!handle) return;
  const bool list = kind == LoadKind::kListRead || kind == LoadKind::kListWrite;
  switch (kind) {
    case LoadKind::kSync:
      return sync(thread, *handle);
    case LoadKind::kTruncate:
      return truncate(thread, *handle);
    case LoadKind::kWrite:
    case LoadKind::kListWrite:
      return write(thread, *handle, choose_blocks(list), kind);
    default:
      return read(thread, *handle, choose_blocks(list), kind);
  }
}

// ---- turns ----

void LoadClient::think_about_turn() {
  if (stopped_) return;
  process().at(now() + static_cast<Nanoseconds>(state_.chance.exponential(10e9)), [this] {
    if (!stopped_) take_turn();
  });
}

void LoadClient::take_turn() {
  const auto operation = begin(LoadKind::kTurn, threads_.size());
  in_phase_ = true;
  async().core().begin_phase({.total = Bytes(1 << 20)}, when_done<void>(operation, [this](Result<void>&) {
                               if (checking_) return;
                               const auto time = static_cast<Nanoseconds>(state_.chance.exponential(4e9));
                               process().at(now() + time, [this] {
                                 end_turn();
                                 think_about_turn();
                               });
                             }));
}

void LoadClient::end_turn() {
  in_phase_ = false;
  async().core().end_phase();
}

}  // namespace tutti::sim

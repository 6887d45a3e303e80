// SPDX-License-Identifier: Apache-2.0
#include "sim/full_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "layout/discovery.h"
#include "sim/coordination.h"
#include "sim/live_stopwatch.h"

namespace tutti::sim {
namespace {

// Parts of a scenario that production code does not have can only be simulated fast.
Result<void> check_full(const Scenario& scenario) {
  if (auto valid = check(scenario); !valid) return valid;
  const auto wrong = [](std::string_view what) {
    return fail(ErrorCode::kInvalid, fmt::format("{} cannot be run with production nodes; leave out --full", what));
  };
  if (scenario.forwarding.count > 0) return wrong("forwarding nodes");
  for (const Application& application : scenario.applications)
    if (application.separate_requests || application.trick != Trick::kNone || application.user != 0 ||
        !application.job_proven || !application.coordinated)
      return wrong("separate_requests, trick, user, job_proven = false and coordinated = false");
  if (scenario.gate.probe || scenario.gate.own_data) return wrong("probe and own_data of [gate]");
  const Servers& servers = scenario.servers;
  if (servers.request_cost > Duration{} || servers.write_cost > Duration{} || servers.thread_bandwidth > 0 ||
      servers.read_ahead > Bytes{} || servers.write_back || servers.write_cache > Bytes{})
    return wrong("request_cost, write_cost, thread_bandwidth, read_ahead, write_back and write_cache");
  if (scenario.gate.kind != Gate::Kind::kLock) return {};
  return gate::LockTable::create(lock_table_options(scenario)).map([](const gate::LockTable&) {});
}

// The layout of a file on one server.
std::shared_ptr<const Layout> on_server(TargetId server) {
  return std::make_shared<const Layout>(
      Layout{.stripe_size = Bytes(1 << 30), .stripe_count = 1, .object_size = {}, .targets = {server}});
}

}  // namespace

SimulatedCluster::Options FullRun::cluster_options(const Scenario& scenario) {
  SimulatedCluster::Options options;
  options.seed = scenario.seed;
  options.nodes = scenario.servers.count;
  options.clients = 0;
  for (const Application& application : scenario.applications) options.clients += client_nodes(application);
  options.network = {.latency = {}};  // until all files are open, so that the timeout is only for operations
  options.cluster.discover_layouts = true;
  // Policies may delay requests without limit.
  options.give_up = scenario.timeout > Duration{} ? scenario.timeout : std::chrono::hours(24);
  options.cluster.request_timeout = options.give_up;
  NodeOptions& node = options.node.node;
  node.policy = scenario.servers.policy.name;
  node.policy_options = scenario.servers.policy.options;
  node.depth = scenario.servers.depth;
  node.write_buffers = scenario.servers.write_buffers;
  node.read_buffers = scenario.servers.read_buffers;
  node.max_waiting = scenario.servers.max_waiting;
  node.limits = scenario.servers.limits;
  node.device_class = std::holds_alternative<HddFigures>(scenario.servers.device) ? "hdd" : "ssd";
  options.node.device.figures = scenario.servers.device;
  options.position = [this](std::size_t server, const Operation& operation) { return position(server, operation); };
  return options;
}

FullRun::FullRun(const Scenario& scenario, const RunOptions& options)
    : scenario_(scenario),
      options_(options),
      cluster_(cluster_options(scenario)),
      applications_(scenario_, *this, outcome_),
      chance_(scenario.seed),
      active_faults_(scenario_) {
  cluster_.network().extra_delay = [this](const Process& from, const Process& to) { return delay_between(from, to); };
}

std::uint64_t FullRun::position(std::size_t node, const Operation& operation) const {
  const std::uint64_t spread = spread_of(scenario_.servers);
  const auto file = files_.find(operation.file->key().inode);
  if (spread == 0 || file == files_.end()) return 0;
  return device_position(scenario_.seed, file->second.id, static_cast<std::uint32_t>(node), spread) +
         locate(*file->second.layout, operation.offset).object_offset;
}

SimulatedClient& FullRun::add_process(std::uint32_t application, std::uint32_t rank, const std::string& name) {
  const Application& spec = scenario_.applications[application];
  const Placed& placed = placed_[application];
  const std::size_t link = placed.first_client + rank / spec.ranks_per_node;
  return cluster_.add_client(
      {.number = placed.id, .application = placed.id, .order = placed.id, .processes = spec.ranks, .name = name}, link,
      gate_ ? gate_->turns(link, placed.id + std::uint64_t{1},
                           {.answer_bound = scenario_.gate.answer_bound, .max_wait = scenario_.gate.patience})
            : SimulatedClient::MakeTurns{});
}

void FullRun::start(SimulatedClient& client, Task then) {
  ++opening_;
  client.start([this, then = std::move(then)](const Result<void>& started) {
    --opening_;
    if (started) return then();
    if (opened_) opened_ = started;
  });
}

// Clients connect and open their files before the time of the scenario begins.
Result<void> FullRun::set_up() {
  std::uint64_t largest = 0;
  for (const Application& application : scenario_.applications) largest = std::max(largest, application.size.count());
  if (scenario_.gate.kind == Gate::Kind::kBackoff)
    largest = std::max(largest, std::max(scenario_.gate.backoff.data_size, scenario_.gate.backoff.priming).count());
  auto memory = ReservedMemory::create(Bytes(largest));
  if (!memory) return Failure(memory.error());
  memory_ = std::move(*memory);
  placed_ = place_applications(scenario_, chance_);
  const bool probes = scenario_.gate.kind == Gate::Kind::kBackoff;
  if (scenario_.gate.kind == Gate::Kind::kLock)
    gate_ = std::make_unique<SimulatedGate>(
        cluster_.network(), gate::GateService::Options{.table = lock_table_options(scenario_)}, scenario_.gate.latency);
  without_turn_.resize(placed_.size());
  probers_.resize(placed_.size());
  for (std::uint32_t i = 0; i < scenario_.applications.size(); ++i) {
    const Application& spec = scenario_.applications[i];
    auto& ranks = ranks_.emplace_back(spec.ranks);
    for (std::uint32_t rank = 0; rank < spec.ranks; ++rank) {
      ranks[rank].client = &add_process(i, rank, fmt::format("{}.{}", spec.name, rank));
      ranks[rank].client->async().core().with_phases([&](job::Phases& phases) { remember_earlier_run(spec, phases); });
      start(*ranks[rank].client, [this, i, rank] { open_files(i, rank); });
    }
    if (!probes) continue;
    probers_[i].client = &add_process(i, 0, spec.name + ".prober");
    start(*probers_[i].client, [this, i] { open_probe_files(i); });
  }
  while (opening_ > 0 && cluster_.simulator().run_next()) {
  }
  if (!opened_) return opened_;
  if (opening_ > 0) return fail(ErrorCode::kTimeout, "the clients cannot open their files");
  cluster_.network().set_figures(scenario_.network);
  // Starts at a whole second, so that time windows are the same as in a fast simulation.
  start_ = (cluster_.simulator().now() / 1'000'000'000 + 1) * 1'000'000'000;
  return {};
}

void FullRun::open(SimulatedClient& client, const std::string& path, PlacedFile placed,
                   std::shared_ptr<OpenFile>& into) {
  if (!cluster_.volume().find(path)) {
    // Files are large enough for all reads.
    const auto file = cluster_.volume().make_file(path, std::uint64_t{1} << 50);
    file->attributes["lustre.lov"] = make_lustre(*placed.layout);
    files_[file->number] = std::move(placed);
  }
  ++opening_;
  client.async().open(path, {.read = true, .write = true}, [this, &into](Result<std::shared_ptr<OpenFile>> file) {
    --opening_;
    if (file)
      into = std::move(*file);
    else if (opened_)
      opened_ = Failure(file.error());
  });
}

// With `flow`, there is one file per server, as in PVFS2, because only then stripes that adjoin on a server can be one
// request.
void FullRun::open_files(std::uint32_t application, std::uint32_t rank) {
  const Application& spec = scenario_.applications[application];
  RankProcess& process = ranks_[application][rank];
  const std::shared_ptr<const Layout>& layout = placed_[application].layout(rank);
  const std::uint32_t owner = spec.file_per_process ? rank : 0;
  const std::size_t parts = spec.flow > Bytes{} ? scenario_.servers.count : 1;
  process.files.resize(spec.iterations * parts);
  for (unsigned iteration = 0; iteration < spec.iterations; ++iteration) {
    const FileId id = file_id(application, iteration, owner);
    const std::string path = fmt::format("a{}/i{}/r{}", application, iteration, owner);
    if (parts == 1 && spec.flow == Bytes{}) {
      open(*process.client, path, {id, layout}, process.files[iteration]);
      continue;
    }
    for (const TargetId server : layout->targets)
      open(*process.client, fmt::format("{}.{}", path, server), {id, on_server(server)},
           process.files[iteration * parts + server]);
  }
}

void FullRun::open_probe_files(std::uint32_t application) {
  ProberProcess& prober = probers_[application];
  const std::vector<TargetId>& targets = placed_[application].layout(0)->targets;
  prober.files.resize(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i)
    open(*prober.client, fmt::format("a{}/probe.{}", application, targets[i]),
         {probe_file_id(application), on_server(targets[i])}, prober.files[i]);
}

// ---- turns ----

void FullRun::ask_for_turn(std::uint32_t application) {
  if (scenario_.gate.kind == Gate::Kind::kNone) return applications_.begin_phase(application);
  const Applications::Progress& state = applications_.progress(application);
  if (scenario_.gate.kind == Gate::Kind::kBackoff) {
    probers_[application].backoff =
        make_backoff(scenario_, application, state.iteration, *placed_[application].layout(0));
    return next_probe(application);
  }
  // All processes of a job ask; they share one turn.
  without_turn_[application] = ranks_[application].size();
  for (RankProcess& rank : ranks_[application]) {
    Core& core = rank.client->async().core();
    PhaseAnnouncement announcement;
    core.with_phases(
        [&](job::Phases& phases) { announcement = announcement_of(*state.spec, state.operations, phases); });
    core.begin_phase(announcement, [this, application](const Result<void>&) {
      if (--without_turn_[application] == 0 && !applications_.progress(application).dead)
        applications_.begin_phase(application);
    });
  }
}

void FullRun::next_probe(std::uint32_t application) {
  if (applications_.progress(application).dead) return;
  const gate::Backoff::Step step = probers_[application].backoff->next();
  if (const auto* write = std::get_if<gate::Backoff::Write>(&step)) return probe(application, *write);
  if (const auto* sleep = std::get_if<gate::Backoff::Sleep>(&step))
    return cluster_.simulator().at(cluster_.simulator().now() + sleep->time.count(),
                                   [this, application] { next_probe(application); });
  applications_.begin_phase(application);
}

// Writes with requests as large as the application's operations.
void FullRun::probe(std::uint32_t application, const gate::Backoff::Write& write) {
  ProberProcess& prober = probers_[application];
  const std::uint64_t part = probe_request(scenario_.applications[application], write.bytes).count();
  cuts_.clear();
  for (std::uint64_t done = 0; done < write.bytes.count(); done += part)
    cuts_.push_back({.offset = done, .length = std::min(part, write.bytes.count() - done)});
  const Stamp stamp = probe_stamp(placed_[application].id, write.bytes, prober.client->process().clock().now());
  const Nanoseconds begin = now();
  transfer(
      *prober.files[write.target], Direction::kWrite, cuts_,
      [this, application, begin](const Result<std::size_t>&) {
        probers_[application].backoff->wrote(Duration(now() - begin));
        next_probe(application);
      },
      &stamp);
}

// ---- operations ----

void FullRun::phase_begins(std::uint32_t application) {
  const Application& spec = scenario_.applications[application];
  Applications::Progress& state = applications_.progress(application);
  if (options_.demands) state.demand.assign(scenario_.servers.count, Bytes{});
  if (gate_) return;  // announced with the turn
  for (RankProcess& rank : ranks_[application])
    rank.client->async().core().with_phases([&](job::Phases& phases) {
      (void)phases.begin(announcement_of(spec, state.operations, phases));  // within the limit of begin()
    });
}

void FullRun::phase_ends(std::uint32_t application) {
  for (RankProcess& rank : ranks_[application]) rank.client->async().core().end_phase();
}

void FullRun::issue(std::uint32_t application, std::uint32_t rank, const OperationIndex& index) {
  const Application& spec = scenario_.applications[application];
  const OperationIndex own = spec.file_per_process ? OperationIndex{0, 1, index.operation, index.operations} : index;
  extents_of(spec, own, chance_, extents_);
  Bytes total;
  for (const Extent& extent : extents_) total += Bytes(extent.length);
  if (options_.demands || spec.flow > Bytes{} || spec.largest_request > Bytes{})
    cutter_.cut(spec, *placed_[application].layout(rank), extents_, cuts_);
  if (options_.demands)
    for (const CutRequest& cut : cuts_) applications_.progress(application).demand[cut.server] += Bytes(cut.length);
  const Nanoseconds issued = now();
  auto done = [this, application, rank, issued, total](const Result<std::size_t>& result) {
    if (applications_.progress(application).dead) return;
    if (result && options_.operation_records)
      outcome_.operations.push_back({application, Duration(issued), {}, {}, Duration(now())});
    applications_.completed(application, rank, result ? std::optional(total) : std::nullopt);
  };
  if (spec.flow > Bytes{}) return issue_flow(application, rank, std::move(done));
  if (spec.largest_request == Bytes{}) {
    cuts_.clear();
    for (const Extent& extent : extents_) cuts_.push_back({.offset = extent.offset, .length = extent.length});
  }
  transfer(*ranks_[application][rank].files[applications_.progress(application).iteration], spec.direction, cuts_,
           std::move(done));
}

// Syncs all files of the phase; with `flow` there are several.
void FullRun::sync(std::uint32_t application, std::uint32_t rank) {
  RankProcess& process = ranks_[application][rank];
  const std::size_t parts = process.files.size() / scenario_.applications[application].iterations;
  const auto first =
      process.files.begin() + static_cast<std::ptrdiff_t>(parts * applications_.progress(application).iteration);
  const auto left = std::make_shared<std::size_t>(0);
  for (auto file = first; file != first + static_cast<std::ptrdiff_t>(parts); ++file) *left += *file != nullptr;
  for (auto file = first; file != first + static_cast<std::ptrdiff_t>(parts); ++file)
    if (*file)
      (*file)->fsync(true, [this, application, rank, left](const Result<std::size_t>& result) {
        if (applications_.progress(application).dead) return;
        if (!result) ++outcome_.failed_operations;
        if (--*left == 0) applications_.synced(application, rank);
      });
}

void FullRun::transfer(OpenFile& file, Direction direction, std::span<const CutRequest> cuts, Done<std::size_t> done,
                       const Stamp* stamp) {
  std::byte* memory = memory_->data();
  if (direction == Direction::kWrite) {
    std::vector<WritePart> parts;
    for (const CutRequest& cut : cuts) {
      parts.push_back({cut.offset, {memory, cut.length}});
      memory += cut.length;
    }
    file.write(parts, std::move(done), stamp);
  } else {
    std::vector<ReadPart> parts;
    for (const CutRequest& cut : cuts) {
      parts.push_back({cut.offset, {memory, cut.length}});
      memory += cut.length;
    }
    file.read(parts, std::move(done), stamp);
  }
}

// One operation on the files of several servers. Its parts have the same stamp.
void FullRun::issue_flow(std::uint32_t application, std::uint32_t rank, Done<std::size_t> done) {
  RankProcess& process = ranks_[application][rank];
  Core& core = process.client->async().core();
  std::map<std::uint32_t, std::vector<CutRequest>> by_server;
  for (const CutRequest& cut : cuts_)
    by_server[cut.server].push_back({.offset = cut.object_offset, .length = cut.length});
  std::vector<TargetShare> shares;
  for (const auto& [server, cuts] : by_server) {
    shares.push_back({server, Bytes{}});
    for (const CutRequest& cut : cuts) shares.back().bytes += Bytes(cut.length);
  }
  const Stamp stamp = core.issue(shares);
  const std::size_t first = applications_.progress(application).iteration * std::size_t{scenario_.servers.count};
  struct Parts {
    std::size_t left;
    Done<std::size_t> done;
    Result<std::size_t> result = std::size_t{0};  // the last error, if any
  };
  const auto parts = std::make_shared<Parts>(Parts{by_server.size(), std::move(done)});
  for (const auto& [server, cuts] : by_server)
    transfer(
        *process.files[first + server], scenario_.applications[application].direction, cuts,
        [&core, parts](Result<std::size_t> result) {
          if (!result) parts->result = std::move(result);
          if (--parts->left > 0) return;
          core.completed();
          parts->done(std::move(parts->result));
        },
        &stamp);
}

// ---- faults ----

void FullRun::schedule_faults() {
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const ScenarioFault& each = scenario_.faults[i];
    cluster_.simulator().at(start_ + each.at.count(), [this, i] { fault(i, false); });
    if (each.until) cluster_.simulator().at(start_ + each.until->count(), [this, i] { fault(i, true); });
  }
}

void FullRun::fault(std::size_t index, bool ends) {
  const ScenarioFault& fault = scenario_.faults[index];
  active_faults_.set(index, !ends);
  const auto pause = [](Process& process, bool stopped) {
    if (stopped != process.paused()) stopped ? process.pause() : process.resume();
  };
  const std::uint32_t first = fault.server.value_or(0);
  const std::uint32_t last = fault.server.value_or(scenario_.servers.count - 1);
  switch (fault.kind) {
    case ScenarioFault::Kind::kDelay:
      return;
    case ScenarioFault::Kind::kCoordinator:
      if (gate_) pause(gate_->process(), active_faults_.gate_stopped());
      return;
    case ScenarioFault::Kind::kSlow:
      for (std::uint32_t i = first; i <= last; ++i) cluster_.node(i).set_slowdown(active_faults_.slowdown(i));
      return;
    case ScenarioFault::Kind::kStop:
      for (std::uint32_t i = first; i <= last; ++i) pause(cluster_.node(i).process(), active_faults_.stopped(i));
      return;
    case ScenarioFault::Kind::kSkew: {
      if (fault.application)
        for (RankProcess& rank : ranks_[*fault.application])
          rank.client->process().set_clock_error(active_faults_.application_skew(*fault.application));
      else
        for (std::uint32_t i = first; i <= last; ++i)
          cluster_.node(i).process().set_clock_error(active_faults_.server_skew(i));
      return;
    }
    case ScenarioFault::Kind::kKill:
      applications_.kill(*fault.application);
      for (RankProcess& rank : ranks_[*fault.application]) rank.client->async().core().stop();
      if (SimulatedClient* prober = probers_[*fault.application].client) prober->async().core().stop();
      return;
  }
}

Nanoseconds FullRun::delay_between(const Process& from, const Process& to) {
  Nanoseconds extra = 0;
  active_faults_.each(ScenarioFault::Kind::kDelay, [&](const ScenarioFault& fault) {
    // Process names are set in set_up(). Only requests to nodes are delayed.
    if (!to.name().starts_with("node")) return;
    if (fault.server && to.name() != fmt::format("node{}", *fault.server)) return;
    if (fault.application) {
      const auto& ranks = ranks_[*fault.application];
      const auto is_from = [&](const RankProcess& rank) { return &rank.client->process() == &from; };
      if (std::ranges::none_of(ranks, is_from)) return;
    }
    if (fault.probability >= 1 || cluster_.simulator().chance().chance(fault.probability)) extra += fault.delay.count();
  });
  return extra;
}

// ---- the run ----

Result<Outcome> FullRun::run() {
  const Stopwatch stopwatch;
  if (auto done = set_up(); !done) return Failure(done.error());
  schedule_faults();
  applications_.start();
  constexpr std::uint64_t kProgressEvery = 1 << 18;
  Simulator& simulator = cluster_.simulator();
  const std::uint64_t before = simulator.events();
  while (applications_.running() > 0 && simulator.run_next()) {
    if (now() > scenario_.limit.count()) break;
    if (simulator.events() % kProgressEvery == 0 && options_.progress)
      options_.progress(Duration(now()), simulator.events() - before);
  }
  outcome_.events = simulator.events() - before;
  outcome_.hash = simulator.hash();
  if (applications_.running() > 0) collect_stuck();
  AnnouncedTo announced;
  for (std::size_t i = 0; i < scenario_.servers.count; ++i) {
    const wire::StatisticsReply statistics = cluster_.node(i).service().statistics();
    outcome_.batches += statistics.batches;
    outcome_.batched_requests += statistics.batched_requests;
    outcome_.refused += statistics.refused;
    outcome_.server_busy.push_back(cluster_.node(i).busy());
    wire::UsageKey next;
    for (wire::StatisticsReply page = statistics;; page = cluster_.node(i).service().statistics(next)) {
      for (const wire::Usage& usage : page.usage) {
        announced[{usage.application, usage.target}] = Bytes(usage.announced);
        next = wire::usage_key(usage).next();
      }
      if (!page.more) break;
    }
  }
  outcome_.announced = announced_sizes(placed_, announced);
  for (const Duration end : outcome_.application_end) outcome_.makespan = std::max(outcome_.makespan, end);
  outcome_.wall_seconds = stopwatch.seconds();
  return std::move(outcome_);
}

void FullRun::collect_stuck() {
  for (std::uint32_t i = 0; i < applications_.size(); ++i) {
    const Applications::Progress& state = applications_.progress(i);
    if (!state.done)
      outcome_.stuck.push_back(fmt::format("application '{}', phase {}: {} of {} ranks have not finished",
                                           state.spec->name, state.iteration + 1, state.ranks_left, state.spec->ranks));
  }
}

Result<Outcome> run_full(const Scenario& scenario, const RunOptions& options) {
  if (auto valid = check_full(scenario); !valid) return Failure(valid.error());
  return std::make_unique<FullRun>(scenario, options)->run();
}

}  // namespace tutti::sim

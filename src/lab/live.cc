// SPDX-License-Identifier: Apache-2.0
#include "lab/live.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/print_error.h"
#include "base/temporary_directory.h"
#include "base/units.h"
#include "gate/live_client.h"
#include "gate/live_server.h"
#include "lab/children.h"
#include "lab/live_client.h"
#include "node/node.h"
#include "sched/policy.h"
#include "sim/applications.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using sim::Application;
using sim::Scenario;

constexpr unsigned kMostServers = 16;
constexpr std::size_t kMostProcesses = 256;

Failure system_failure(const std::string& what) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)), errno);
}

// Checks that a live run supports all parts of the scenario.
Result<void> check_live(const Scenario& scenario) {
  const auto wrong = [](const std::string& what) {
    return fail(ErrorCode::kInvalid, what + " cannot be run live; leave out --live");
  };
  const sim::Servers& servers = scenario.servers;
  if (servers.count > kMostServers)
    return wrong(fmt::format("{} servers (at most {} are processes on one machine)", servers.count, kMostServers));
  if (scenario.forwarding.count > 0) return wrong("forwarding nodes");
  if (servers.request_cost > Duration{} || servers.write_cost > Duration{} || servers.read_ahead > Bytes{} ||
      servers.write_back || servers.write_cache > Bytes{})
    return wrong("request_cost, write_cost, read_ahead, write_back and write_cache");
  if (scenario.gate.probe || scenario.gate.own_data) return wrong("probe and own_data of [gate]");
  if (!scenario.faults.empty()) return wrong("faults");
  if (scenario.timeout > Duration{}) return wrong("a timeout");
  std::size_t processes = 0;
  for (const Application& application : scenario.applications) {
    processes += sim::client_nodes(application);
    if (application.flow > Bytes{} || !application.coordinated) return wrong("flow and coordinated = false");
    if (application.largest_request > Bytes{} && !application.separate_requests)
      return wrong("largest_request without separate_requests");
    if (application.sync) return wrong("sync");
    if (application.pattern == sim::Pattern::kRandom) return wrong("the pattern 'random'");
    if (application.stripe_size != scenario.applications.front().stripe_size) return wrong("different stripe sizes");
    if (!application.server_bytes.empty()) return wrong("server_bytes");
    if (application.stripe_count != scenario.applications.front().stripe_count) return wrong("different stripe counts");
    if (application.sizes == sim::PhaseSizes::kUnknown || application.sizes == sim::PhaseSizes::kRemembered)
      return wrong("sizes other than announced and learned");
    if (application.sizes == sim::PhaseSizes::kLearned && application.size_error != 1)
      return wrong("size_error of learned sizes");
  }
  if (processes > kMostProcesses)
    return wrong(fmt::format("{} client nodes (at most {} are processes on one machine)", processes, kMostProcesses));
  return {};
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    for (const int end : ends_)
      if (end >= 0) close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }

 private:
  int ends_[2];
};
static_assert(sizeof(LiveAnswer) <= PIPE_BUF && sizeof(LiveCommand) <= PIPE_BUF, "written atomically");

// The options of the policy with all durations, set or default, in slow motion.
PolicyOptions slow_options(const LiveSetting& setting) {
  const sim::Servers& servers = setting.scenario.servers;
  PolicyOptions options = servers.policy.options;
  const PolicyInfo* policy = find_policy(servers.policy.name);
  if (setting.slow_motion == 1 || !policy) return options;
  const bool disk = std::holds_alternative<HddFigures>(servers.device);
  for (const OptionInfo& option : policy->options) {
    if (option.kind != OptionInfo::Kind::kDuration) continue;
    const std::string& by_class = disk ? option.disk_fallback : option.flash_fallback;
    const std::string& fallback = by_class.empty() ? option.fallback : by_class;
    const auto time = parse_duration(options.try_emplace(option.name, fallback).first->second);
    if (time) options[option.name] = fmt::format("{}ns", setting.slow(*time).count());
  }
  return options;
}

// The bytes that one file of the application has, for patterns that use every byte of it.
Bytes content_of(const Application& application) {
  return application.size * application.operations * (application.file_per_process ? 1 : application.ranks);
}

bool write_content(int file, Bytes size) {
  std::vector<std::byte> memory(1 << 20);
  for (std::uint64_t at = 0; at < size.count(); at += memory.size()) {
    fill_content(at, memory);
    const std::size_t length = std::min<std::uint64_t>(memory.size(), size.count() - at);
    if (pwrite(file, memory.data(), length, static_cast<off_t>(at)) != static_cast<ssize_t>(length)) return false;
  }
  return true;
}

class LiveRun final : private sim::Applications::Backend {
 public:
  LiveRun(const Scenario& scenario, const LiveOptions& options)
      : setting_{.scenario = scenario,
                 .slow_motion = options.slow_motion,
                 .limit = options.limit,
                 .verify = options.verify,
                 .directory = directory_.path()},
        options_(options),
        deadline_(SteadyClock::now() + options.limit),
        chance_(scenario.seed),
        applications_(scenario, *this, outcome_) {}

  Result<sim::Outcome> run();

 private:
  struct FileOnDevice {
    FileId id = 0;
    const Layout* layout = nullptr;
  };

  Result<void> make_files();
  Result<std::uint64_t> make_file(const std::string& path, const Layout& layout, bool reads, Bytes content);
  void collect_node_files();
  Result<void> start_daemons();
  Result<void> start_clients();
  int run_node(unsigned number) const;
  int run_gate() const;
  // What a node knows at its end: batches and their requests, then the announced sizes.
  std::string node_file(unsigned node) const { return fmt::format("{}/end{}", directory_.path(), node); }
  Result<void> verify_files();
  Result<LiveAnswer> receive();
  Result<void> drive();

  // Converts to scenario time.
  sim::Nanoseconds time_of(SteadyTime when) const {
    return static_cast<sim::Nanoseconds>(static_cast<double>(Duration(when - started_).count()) / setting_.slow_motion);
  }
  const Application& spec(std::uint32_t application) const { return setting_.scenario.applications[application]; }
  // Sends the command to the process of this rank.
  void command(std::uint32_t application, std::uint32_t rank, LiveCommand command);
  void command_all(std::uint32_t application, const LiveCommand& command);

  sim::Nanoseconds now() const override { return now_; }
  void step_at(sim::Nanoseconds when, std::uint32_t application, std::uint32_t operand) override {
    calls_.at(started_ + setting_.slow(Duration(when)), [=, this] {
      now_ = time_of(SteadyClock::now());
      applications_.step(application, operand);
    });
  }
  void ask_for_turn(std::uint32_t application) override {
    if (setting_.scenario.gate.kind == sim::Gate::Kind::kNone) return applications_.begin_phase(application);
    command(application, 0, {.kind = LiveCommand::Kind::kTurn});
  }
  void phase_begins(std::uint32_t application) override {
    sim::Applications::Progress& state = applications_.progress(application);
    if (options_.demands) state.demand.assign(setting_.scenario.servers.count, Bytes{});
    command_all(application, {.kind = LiveCommand::Kind::kBegin, .index = {.operations = state.operations}});
  }
  void phase_ends(std::uint32_t application) override { command_all(application, {.kind = LiveCommand::Kind::kEnd}); }
  void issue(std::uint32_t application, std::uint32_t rank, const sim::OperationIndex& index) override;
  void sync(std::uint32_t application, std::uint32_t rank) override { applications_.synced(application, rank); }

  TemporaryDirectory directory_;
  LiveSetting setting_;
  const LiveOptions options_;
  const SteadyTime deadline_;
  SteadyTime started_{};
  sim::Nanoseconds now_ = 0;  // constant while a call or an answer is handled
  Prng chance_;
  TimedCalls calls_;
  sim::Outcome outcome_;
  sim::Applications applications_;
  std::unordered_map<std::uint64_t, FileOnDevice> files_;  // by inode
  std::vector<LiveProcess> processes_;
  std::vector<std::uint32_t> first_process_;     // by application
  std::vector<std::unique_ptr<Pipe>> commands_;  // by process
  Pipe answers_;
  Children daemons_, clients_;  // destroyed first, which kills the processes
};

// Creates the files before the run. Files to read are large enough for all reads.
Result<void> LiveRun::make_files() {
  fs::create_directory(directory_ / "files");
  for (std::uint32_t i = 0; i < setting_.placed.size(); ++i)
    for (unsigned iteration = 0; iteration < spec(i).iterations; ++iteration)
      for (std::uint32_t rank = 0; rank < (spec(i).file_per_process ? spec(i).ranks : 1); ++rank) {
        const std::string path = directory_ / "files/" + LiveSetting::path(i, iteration, rank);
        const Layout& layout = *setting_.placed[i].layout(rank);
        const Bytes content = setting_.verify ? content_of(spec(i)) : Bytes{};
        const auto inode = make_file(path, layout, spec(i).direction == Direction::kRead, content);
        if (!inode) return Failure(inode.error());
        files_[*inode] = {sim::file_id(i, iteration, rank), &layout};
      }
  fs::remove_all(directory_ / "unused");
  return {};
}

// The first server of a file depends on its inode (Core::find_layout). Creates files until one has the right server.
Result<std::uint64_t> LiveRun::make_file(const std::string& path, const Layout& layout, bool reads, Bytes content) {
  const unsigned servers = setting_.scenario.servers.count;
  constexpr int kMostTries = 4096;
  fs::create_directory(directory_ / "unused");
  for (int i = 0; i < kMostTries; ++i) {
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    struct stat status {};
    const bool made = file >= 0 && fstat(file, &status) == 0 && (!reads || ftruncate(file, off_t{1} << 40) == 0) &&
                      (!reads || write_content(file, content));
    const int code = errno;
    if (file >= 0) close(file);
    errno = code;
    if (!made) return system_failure(path);
    if (layout.stripe_count == servers || status.st_ino % servers == layout.targets.front()) return status.st_ino;
    fs::rename(path, fmt::format("{}/{}", directory_ / "unused", status.st_ino));
  }
  return fail(ErrorCode::kIo,
              fmt::format("{}: cannot create a file that begins on server {}", path, layout.targets.front()));
}

// Clients compare what they read.
Result<void> LiveRun::verify_files() {
  for (std::uint32_t i = 0; setting_.verify && i < setting_.placed.size(); ++i)
    for (unsigned iteration = 0; iteration < spec(i).iterations; ++iteration)
      for (std::uint32_t rank = 0; rank < (spec(i).file_per_process ? spec(i).ranks : 1); ++rank) {
        if (spec(i).direction == Direction::kRead) continue;
        std::ifstream file(directory_ / "files/" + LiveSetting::path(i, iteration, rank), std::ios::binary);
        std::vector<std::byte> memory(content_of(spec(i)).count());
        file.read(reinterpret_cast<char*>(memory.data()), static_cast<std::streamsize>(memory.size()));
        if (!file || !has_content(0, memory)) return fail(ErrorCode::kIo, "wrong data was written");
      }
  return {};
}

int LiveRun::run_node(unsigned number) const {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const sim::Servers& servers = setting_.scenario.servers;
  NodeOptions options;
  options.name = setting_.cluster.nodes[number].name;
  options.directory = directory_ / "files";
  options.listen = {setting_.cluster.nodes[number].endpoint};
  options.model = ModelledOptions{.figures = servers.device, .slowdown = setting_.slow_motion};
  // Positions on the devices are the same as in the simulator.
  const std::uint64_t spread = sim::spread_of(servers);
  options.model->position = [this, number, spread](const Operation& operation) {
    const auto file = files_.find(operation.file->key().inode);
    if (file == files_.end()) return operation.offset;
    const FileId id = file->second.id;
    return (spread > 0 ? sim::device_position(setting_.scenario.seed, id, number, spread) : id << 40) +
           locate(*file->second.layout, operation.offset).object_offset;
  };
  if (!options_.traces.empty()) options.trace_directory = options_.traces;
  options.predict = options_.predict;
  options.policy = servers.policy.name;
  options.policy_options = slow_options(setting_);
  options.depth = servers.depth;
  options.write_buffers = servers.write_buffers;
  options.read_buffers = servers.read_buffers;
  options.max_waiting = servers.max_waiting;
  options.limits = servers.limits;
  options.device_class = std::holds_alternative<HddFigures>(servers.device) ? "hdd" : "ssd";
  auto node = Node::start(std::move(options));
  if (!node) {
    print_error("tutti: {}\n", node.error().message);
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  (*node)->stop(Scheduler::Stop::kDrop, 2s);
  std::ofstream end(node_file(number));
  const auto statistics = (*node)->statistics();
  end << statistics.batches << ' ' << statistics.batched_requests << '\n';
  for (const wire::Usage& usage : statistics.usage)
    end << usage.application << ' ' << usage.target << ' ' << usage.announced << '\n';
  return end.flush() ? 0 : 1;
}

void LiveRun::collect_node_files() {
  sim::AnnouncedTo known;
  for (unsigned i = 0; i < setting_.scenario.servers.count; ++i) {
    std::ifstream end(node_file(i));
    std::uint64_t batches = 0, requests = 0;
    if (end >> batches >> requests) outcome_.batches += batches, outcome_.batched_requests += requests;
    ApplicationId application = 0;
    TargetId target = 0;
    std::uint64_t bytes = 0;
    while (end >> application >> target >> bytes) known[{application, target}] = Bytes(bytes);
  }
  outcome_.announced = sim::announced_sizes(setting_.placed, known);
}

int LiveRun::run_gate() const {
  gate::GateServer::Options options;
  options.table.targets = setting_.scenario.servers.count;
  options.table.discipline = setting_.scenario.gate.discipline;
  options.table.discipline_options = setting_.scenario.gate.discipline_options;
  options.addresses = {setting_.gate_address()};
  auto server = gate::GateServer::create(std::move(options));
  return server && (*server)->run() ? 0 : 1;
}

// Starts the nodes and the gate. Returns when all of them accept connections.
Result<void> LiveRun::start_daemons() {
  Cluster& cluster = setting_.cluster;
  cluster.stripe_size = spec(0).stripe_size;
  cluster.stripe_count = spec(0).stripe_count;
  cluster.request_timeout = setting_.limit;
  const unsigned count = setting_.scenario.servers.count;
  for (unsigned i = 0; i < count; ++i)
    cluster.nodes.push_back({fmt::format("node{}", i), fmt::format("unix:{}/{}", directory_.path(), i), {i}});
  for (unsigned i = 0; i < count; ++i)
    if (auto started = daemons_.start([&] { return run_node(i); }); !started) return started;
  const bool gate = setting_.scenario.gate.kind == sim::Gate::Kind::kLock;
  if (gate)
    if (auto started = daemons_.start([&] { return run_gate(); }); !started) return started;
  unsigned up = 0;
  while (up < count || (gate && !gate::query_status({.address = setting_.gate_address(), .job = "lab"}, 1s))) {
    if (SteadyClock::now() > deadline_) return fail(ErrorCode::kTimeout, "nodes or gate did not start");
    if (up < count && fs::exists(directory_ / std::to_string(up)))
      ++up;
    else
      std::this_thread::sleep_for(2ms);
  }
  return {};
}

// Returns when every client is connected and has opened its files.
Result<void> LiveRun::start_clients() {
  for (std::uint32_t i = 0; i < setting_.placed.size(); ++i) {
    first_process_.push_back(static_cast<std::uint32_t>(processes_.size()));
    for (std::uint32_t rank = 0; rank < spec(i).ranks; rank += spec(i).ranks_per_node)
      processes_.push_back({.number = static_cast<std::uint32_t>(processes_.size()),
                            .application = i,
                            .first_rank = rank,
                            .ranks = std::min(spec(i).ranks_per_node, spec(i).ranks - rank)});
  }
  for (const LiveProcess& process : processes_) {
    const int commands = commands_.emplace_back(std::make_unique<Pipe>())->reading();
    const auto started =
        clients_.start([&] { return run_live_client(setting_, process, commands, answers_.writing()); });
    if (!started) return started;
  }
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (auto ready = receive(); !ready) return Failure(ready.error());
  return {};
}

Result<LiveAnswer> LiveRun::receive() {
  LiveAnswer answer;
  while (!calls_.wait_for(answers_.reading(), std::min(deadline_, SteadyClock::now() + 1s))) {
    if (SteadyClock::now() >= deadline_)
      return fail(ErrorCode::kTimeout,
                  fmt::format("the live run took longer than {}; it was ended", format(setting_.limit)));
    if (clients_.any_exited() || daemons_.any_exited())
      return fail(ErrorCode::kIo, "a process of the live run exited early");
  }
  if (read(answers_.reading(), &answer, sizeof answer) != sizeof answer) return system_failure("a client process");
  if (answer.kind == LiveAnswer::Kind::kFailed)
    return fail(ErrorCode::kIo,
                fmt::format("application '{}': {}", spec(processes_[answer.process].application).name, answer.error));
  return answer;
}

void LiveRun::command(std::uint32_t application, std::uint32_t rank, LiveCommand command) {
  command.iteration = applications_.progress(application).iteration;
  command.issued = SteadyClock::now();
  const std::uint32_t process = first_process_[application] + rank / spec(application).ranks_per_node;
  if (write(commands_[process]->writing(), &command, sizeof command) != sizeof command)
    print_error("tutti: a client process: {}\n", std::strerror(errno));
}

void LiveRun::command_all(std::uint32_t application, const LiveCommand& order) {
  for (std::uint32_t rank = 0; rank < spec(application).ranks; rank += spec(application).ranks_per_node)
    command(application, rank, order);
}

void LiveRun::issue(std::uint32_t application, std::uint32_t rank, const sim::OperationIndex& index) {
  command(application, rank, {.kind = LiveCommand::Kind::kIssue, .index = index});
  if (!options_.demands) return;
  std::vector<sim::Extent> extents;
  const bool own_file = spec(application).file_per_process;
  sim::extents_of(spec(application), own_file ? sim::OperationIndex{0, 1, index.operation, index.operations} : index,
                  chance_, extents);
  for (const sim::Extent& extent : extents)
    for (const Piece& piece : split(*setting_.placed[application].layout(rank), extent.offset, Bytes(extent.length)))
      applications_.progress(application).demand[piece.target] += piece.length;
}

Result<void> LiveRun::drive() {
  started_ = SteadyClock::now();
  applications_.start();
  while (applications_.running() > 0) {
    const auto answer = receive();
    if (!answer) return Failure(answer.error());
    now_ = time_of(SteadyClock::now());
    ++outcome_.events;
    const std::uint32_t application = processes_[answer->process].application;
    if (answer->kind == LiveAnswer::Kind::kTurn) {
      applications_.begin_phase(application);
      continue;
    }
    outcome_.operations.push_back({.application = application,
                                   .issued = Duration(time_of(answer->issued)),
                                   .completed = Duration(time_of(answer->completed))});
    applications_.completed(application, answer->rank, spec(application).size);  // a failed one is an answer kFailed
  }
  return {};
}

Result<sim::Outcome> LiveRun::run() {
  if (directory_.path().empty()) return system_failure("a temporary directory");
  setting_.placed = sim::place_applications(setting_.scenario, chance_);
  for (Result<void> (LiveRun::*step)() :
       {&LiveRun::make_files, &LiveRun::start_daemons, &LiveRun::start_clients, &LiveRun::drive})
    if (auto done = (this->*step)(); !done) return Failure(done.error());
  clients_.end(SIGTERM, 2s);
  daemons_.end(SIGTERM, 5s);
  collect_node_files();
  if (auto verified = verify_files(); !verified) return Failure(verified.error());
  for (const Duration end : outcome_.application_end) outcome_.makespan = std::max(outcome_.makespan, end);
  outcome_.wall_seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
  return std::move(outcome_);
}

}  // namespace

Result<sim::Outcome> run_live(const Scenario& scenario, const LiveOptions& options) {
  if (auto valid = sim::check(scenario); !valid) return Failure(valid.error());
  if (auto valid = check_live(scenario); !valid) return Failure(valid.error());
  return std::make_unique<LiveRun>(scenario, options)->run();
}

}  // namespace tutti::lab

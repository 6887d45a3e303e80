// SPDX-License-Identifier: Apache-2.0
#include "lab/live_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "base/mutex.h"
#include "base/prng.h"
#include "gate/live_client.h"
#include "gate/live_prober.h"
#include "sched/probing_table.h"

namespace tutti::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Memory for operations, allocated before the run, because new memory causes page faults. Thread-safe.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) idle_.push_back(std::make_unique<std::byte[]>(size));
  }

  // At most `count` buffers may be taken at a time.
  std::unique_ptr<std::byte[]> take() {
    Lock lock(mutex_);
    assert(!idle_.empty());
    auto memory = std::move(idle_.back());
    idle_.pop_back();
    return memory;
  }
  void give_back(std::unique_ptr<std::byte[]> memory) {
    Lock lock(mutex_);
    idle_.push_back(std::move(memory));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> idle_ TUTTI_GUARDED_BY(mutex_);
};

class LabClient {
 public:
  LabClient(const LiveSetting& setting, const LiveProcess& process, int answers)
      : setting_(setting),
        process_(process),
        answers_(answers),
        spec_(setting.scenario.applications[process.application]),
        placed_(setting.placed[process.application]),
        chance_(setting.scenario.seed * 1'000'003 + process.number),
        buffers_(std::size_t{process.ranks} * spec_.outstanding, spec_.size.count()) {}

  Result<void> connect();
  Result<void> execute(const LiveCommand& command);
  TimedCalls& timed_calls() { return timed_calls_; }

  bool send_answer(LiveAnswer answer) const {
    answer.process = process_.number;
    return write(answers_, &answer, sizeof answer) == sizeof answer;
  }
  int fail(const Error& error) const {
    LiveAnswer answer{.kind = LiveAnswer::Kind::kFailed};
    std::strncpy(answer.error, error.message.c_str(), sizeof answer.error - 1);
    send_answer(answer);
    return 1;
  }

 private:
  // An operation. Its parts for different servers are sent separately.
  struct RunningOperation {
    std::uint32_t rank = 0;
    SteadyTime issued{};
    Stamp stamp{};
    std::unique_ptr<std::byte[]> memory;
    std::atomic<std::size_t> parts_left = 0;
    std::atomic<bool> failed = false;
  };
  struct OperationPart {
    std::uint64_t offset = 0;
    std::span<std::byte> memory{};
  };

  Result<void> prepare_turns();
  Result<void> take_turn();
  Result<void> probe();
  Result<void> begin_phase(unsigned operations);
  void issue(const LiveCommand& command);
  void send(File& file, std::vector<OperationPart> parts, const std::shared_ptr<RunningOperation>& operation);
  void part_done(RunningOperation& operation, const Result<std::size_t>& moved, std::size_t wanted);
  // Random, up to the network's jitter.
  Duration delay() {
    const auto jitter = static_cast<double>(setting_.scenario.network.jitter.count());
    return setting_.slow(Duration(static_cast<std::int64_t>(chance_.uniform(0, jitter))));
  }

  const LiveSetting& setting_;
  const LiveProcess process_;
  const int answers_;
  const sim::Application& spec_;
  const sim::Placed& placed_;
  Prng chance_;
  Buffers buffers_;
  TimedCalls timed_calls_;
  std::unique_ptr<Client> client_;
  std::map<std::pair<unsigned, std::uint32_t>, std::shared_ptr<File>> files_;  // by iteration and rank; 0 if shared
  std::unique_ptr<gate::LiveGateClient> gate_;
  std::shared_ptr<File> probe_file_;
  std::uint64_t probed_ = 0;  // bytes
  gate::ProberOptions prober_;
};

Result<void> LabClient::connect() {
  auto client = Client::connect({.cluster = setting_.cluster,
                                 .application = placed_.id,
                                 .processes = static_cast<std::uint32_t>(sim::client_nodes(spec_)),
                                 .order = placed_.id,
                                 .job = spec_.name,
                                 .gate = "off",  // the experiment starts its own gate
                                 .give_up = setting_.limit});
  if (!client) return Failure(client.error());
  client_ = std::move(*client);
  for (unsigned iteration = 0; iteration < spec_.iterations; ++iteration)
    for (std::uint32_t i = 0; i < (spec_.file_per_process ? process_.ranks : 1); ++i) {
      const std::uint32_t rank = spec_.file_per_process ? process_.first_rank + i : 0;
      auto file = client_->open(LiveSetting::path(process_.application, iteration, rank),
                                {.write = spec_.direction == Direction::kWrite});
      if (!file) return Failure(file.error());
      files_[{iteration, rank}] = std::move(*file);
    }
  return prepare_turns();
}

Result<void> LabClient::execute(const LiveCommand& command) {
  switch (command.kind) {
    case LiveCommand::Kind::kTurn:
      if (auto turn = take_turn(); !turn) return turn;
      send_answer({.kind = LiveAnswer::Kind::kTurn});
      return {};
    case LiveCommand::Kind::kBegin:
      return begin_phase(command.index.operations);
    case LiveCommand::Kind::kIssue:
      issue(command);
      return {};
    case LiveCommand::Kind::kEnd:
      client_->end_phase();
      if (gate_) gate_->end();
      return {};
  }
  return {};
}

// ---- turns: only the first process of an application asks for them ----

Result<void> LabClient::prepare_turns() {
  const sim::Gate& gate = setting_.scenario.gate;
  if (process_.first_rank != 0) return {};
  if (gate.kind == sim::Gate::Kind::kLock) {
    auto at_gate = gate::LiveGateClient::create(
        {.address = setting_.gate_address(), .job = spec_.name, .max_wait = setting_.slow(gate.patience)});
    if (!at_gate) return Failure(at_gate.error());
    gate_ = std::move(*at_gate);
  }
  if (gate.kind != sim::Gate::Kind::kBackoff) return {};
  prober_.directory = setting_.directory;
  prober_.state_directory = setting_.directory + "/state";
  prober_.seed = setting_.scenario.seed + process_.application;
  prober_.backoff = gate.backoff;
  for (Duration* time : {&prober_.backoff.time_constant, &prober_.backoff.fixed_sleep, &prober_.backoff.probe_pause})
    *time = setting_.slow(*time);
  auto file = client_->open(fmt::format("probe{}", process_.application), {.write = true, .create = true});
  if (!file) return Failure(file.error());
  probe_file_ = std::move(*file);
  // Calibrates the prober. The other processes are idle until the run starts.
  for (int i = 0; i < 4 && process_.application == 0; ++i)
    if (auto quiet = probe(); !quiet) return quiet;
  return {};
}

Result<void> LabClient::take_turn() {
  if (probe_file_) return probe();
  const gate::GateOutcome outcome =
      gate_->begin(gate::TargetList::everything(), spec_.size * spec_.operations * spec_.ranks);
  if (outcome == gate::GateOutcome::kGranted) return {};
  gate_->end();
  return tutti::fail(ErrorCode::kUnreachable, fmt::format("the gate of the experiment: {}", gate::explain(outcome)));
}

// Writes probe data after the data of the last probe, because a file system places a new file after the last one.
Result<void> LabClient::probe() {
  const auto report = gate::probe_through(
      [this](const gate::Backoff::Write& wanted) -> Result<void> {
        const std::vector<std::byte> data(wanted.bytes.count());
        const auto written = probe_file_->write(probed_, data);
        probed_ += data.size();
        return written ? Result<void>{} : Failure(written.error());
      },
      prober_);
  return report ? Result<void>{} : Failure(report.error());
}

// ---- phases and operations ----

Result<void> LabClient::begin_phase(unsigned operations) {
  PhaseAnnouncement announcement;
  if (spec_.sizes == sim::PhaseSizes::kAnnounced)
    announcement.total = Bytes(static_cast<std::uint64_t>(static_cast<double>(spec_.size.count()) * operations *
                                                          spec_.ranks * spec_.size_error));
  announcement.files = spec_.file_per_process ? PhaseFiles::kOnePerProcess : PhaseFiles::kShared;
  return client_->begin_phase(announcement);
}

// The parts of an operation for different servers are sent separately, each after a delay, with the stamp of the whole
// operation. Sent together on few cores, all requests of one client would arrive before the next client runs, and all
// servers would see the same order.
void LabClient::issue(const LiveCommand& command) {
  const sim::OperationIndex& index = command.index;
  const bool own_file = spec_.file_per_process;
  std::vector<sim::Extent> extents;
  sim::extents_of(spec_, own_file ? sim::OperationIndex{0, 1, index.operation, index.operations} : index, chance_,
                  extents);
  auto operation = std::make_shared<RunningOperation>();
  operation->rank = index.rank;
  operation->issued = command.issued;
  operation->memory = buffers_.take();
  std::byte* memory = operation->memory.get();
  const std::uint64_t largest = spec_.largest_request > Bytes{} ? spec_.largest_request.count() : ~std::uint64_t{0};
  std::map<std::pair<TargetId, std::size_t>, std::vector<OperationPart>> parts;  // by target and message
  for (const sim::Extent& extent : extents)
    for (const Piece& piece : split(*placed_.layout(index.rank), extent.offset, Bytes(extent.length)))
      for (std::uint64_t done = 0; done < piece.length.count();) {
        const std::uint64_t length = std::min(largest, piece.length.count() - done);
        parts[{piece.target, spec_.separate_requests ? parts.size() : 0}].push_back(
            {piece.offset + done, {memory, length}});
        if (setting_.verify && spec_.direction == Direction::kWrite)
          fill_content(piece.offset + done, {memory, length});
        memory += length;
        done += length;
      }
  operation->parts_left = parts.size();
  // Every process counts the bytes of its own operations times the number of processes (job/phases.h).
  std::vector<TargetShare> shares;
  for (const auto& [message, its] : parts) {
    if (shares.empty() || shares.back().target != message.first) shares.push_back({message.first, Bytes{}});
    for (const OperationPart& part : its) shares.back().bytes += Bytes(part.memory.size()) * sim::client_nodes(spec_);
  }
  operation->stamp = client_->stamp_together(shares);
  File& file = *files_.at({command.iteration, own_file ? index.rank : 0});
  for (auto& [message, its] : parts)
    timed_calls_.at(
        operation->issued + (parts.size() > 1 ? delay() : Duration{}),
        [this, &file, operation, list = std::move(its)]() mutable { send(file, std::move(list), operation); });
}

void LabClient::send(File& file, std::vector<OperationPart> parts, const std::shared_ptr<RunningOperation>& operation) {
  std::size_t wanted = 0;
  for (const OperationPart& part : parts) wanted += part.memory.size();
  const auto wrong = [](const OperationPart& part) { return !has_content(part.offset, part.memory); };
  auto done = [this, operation, wanted, wrong,
               read = setting_.verify ? parts : std::vector<OperationPart>{}](const Result<std::size_t>& moved) {
    const bool bad = moved && *moved == wanted && std::ranges::any_of(read, wrong);
    part_done(*operation, bad ? tutti::fail(ErrorCode::kIo, "wrong data was read") : moved, wanted);
  };
  if (spec_.direction == Direction::kRead) {
    std::vector<ReadPart> reads;
    for (const OperationPart& part : parts) reads.push_back({part.offset, part.memory});
    file.read_async(std::move(reads), operation->stamp, std::move(done));
  } else {
    std::vector<WritePart> writes;
    for (const OperationPart& part : parts) writes.push_back({part.offset, part.memory});
    file.write_async(std::move(writes), operation->stamp, std::move(done));
  }
}

// Called on a thread of the client.
void LabClient::part_done(RunningOperation& operation, const Result<std::size_t>& moved, std::size_t wanted) {
  if ((!moved || *moved != wanted) && !operation.failed.exchange(true))
    fail(moved ? Error{ErrorCode::kIo, "short transfer"} : moved.error());
  if (--operation.parts_left > 0) return;
  buffers_.give_back(std::move(operation.memory));
  send_answer({.kind = LiveAnswer::Kind::kDone,
               .rank = operation.rank,
               .issued = operation.issued,
               .completed = SteadyClock::now()});
}

}  // namespace

void fill_content(std::uint64_t offset, std::span<std::byte> memory) {
  for (std::byte& each : memory) each = static_cast<std::byte>(mix(offset / 8) >> offset % 8 * 8), ++offset;
}

bool has_content(std::uint64_t offset, std::span<const std::byte> memory) {
  std::vector<std::byte> wanted(memory.size());
  fill_content(offset, wanted);
  return std::ranges::equal(memory, wanted);
}

std::string LiveSetting::path(std::uint32_t application, unsigned iteration, std::uint32_t rank) {
  return fmt::format("a{}.i{}.r{}", application, iteration, rank);
}

bool TimedCalls::wait_for(int file, SteadyTime deadline) {
  while (true) {
    const SteadyTime now = SteadyClock::now();
    while (!calls_.empty() && calls_.begin()->first <= now) {
      const auto call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      call();
    }
    const SteadyTime next = calls_.empty() ? deadline : std::min(deadline, calls_.begin()->first);
    const auto left = std::max<std::int64_t>(0, std::chrono::nanoseconds(next - SteadyClock::now()).count());
    const timespec timeout{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    pollfd ready{file, POLLIN, 0};
    if (ppoll(&ready, 1, &timeout, nullptr) > 0) return true;
    if (SteadyClock::now() >= deadline) return false;
  }
}

int run_live_client(const LiveSetting& setting, const LiveProcess& process, int commands, int answers) {
  LabClient client(setting, process, answers);
  if (auto connected = client.connect(); !connected) return client.fail(connected.error());
  if (!client.send_answer({.kind = LiveAnswer::Kind::kReady})) return 1;
  const SteadyTime deadline = SteadyClock::now() + setting.limit;
  LiveCommand command;
  while (client.timed_calls().wait_for(commands, deadline) &&
         read(commands, &command, sizeof command) == sizeof command)
    if (auto done = client.execute(command); !done) return client.fail(done.error());
  return 0;
}

}  // namespace tutti::lab

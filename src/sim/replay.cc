// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <queue>

#include "base/prng.h"
#include "sched/policy.h"
#include "sim/simulator.h"

namespace tutti::sim {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options) : trace_(trace), options_(options) {}

  Result<void> prepare();
  // kTimeout: some requests were never served.
  Result<ReplayOutcome> run();

 private:
  // The requests of one process in one phase. They are issued in the order of the recording.
  struct ProcessRequests {
    std::uint32_t phase = 0;
    std::vector<std::uint32_t> requests{};  // indexes in the trace
    std::vector<std::uint32_t> by_end{};    // those with known completions, in the order of their recorded end
    std::size_t next = 0;                   // to be issued
    std::vector<Duration> last_ends{};      // latest end in the replay of the first 1, 2, ... requests of by_end
    bool scheduled = false;                 // the next request has an event
  };
  struct PhaseReplay {
    const trace::TracePhase* recorded = nullptr;
    std::uint32_t next = kNone;  // of the same application
    std::uint32_t number = 0;
    std::vector<std::uint32_t> streams{};
    std::size_t unfinished = 0;  // requests
    Duration begin{}, end{};
    Duration offset{};  // of this phase in the replay, relative to the recording
    std::map<TargetId, Bytes> issued{};
    Bytes known_total{};  // of the previous phase
  };
  struct Server {
    std::unique_ptr<Policy> policy;
    Device device;
    unsigned in_flight = 0;
    std::vector<std::vector<Request>> batches{};  // by tag; empty: free
    std::vector<TimePoint> dispatched{};
    std::vector<std::uint32_t> free{};
    std::map<std::uint32_t, std::uint64_t> waiting{};  // requests, by application
    Duration last_finish{};
    Duration wake{-1};       // for the policy; negative: not needed
    Duration finish_at{-1};  // of the device; negative: no event is scheduled
  };
  struct RequestState {
    std::uint32_t stream = 0;
    Duration end{-1};  // in the replay; negative: not ended
  };
  struct Event {
    Duration at;
    std::uint64_t order;
    enum class Kind : std::uint8_t { kIssue, kServer } kind;
    std::uint32_t index;
    bool operator>(const Event& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  void build_streams();
  void begin_phase(std::uint32_t phase, Duration offset);
  void schedule(Duration at, Event::Kind kind, std::uint32_t index) { events_.push({at, order_++, kind, index}); }
  void advance(std::uint32_t stream);
  void issue(std::uint32_t stream);
  Request request_of(std::uint32_t index, PhaseReplay& phase);
  void pump(std::uint32_t server);
  void serve(std::uint32_t server);
  void finish(Server& server, std::uint32_t tag);
  void ended(std::uint32_t index);
  void blame(Server& server, ApplicationId served);
  ReplayOutcome outcome();

  const Trace& trace_;
  const ReplayOptions options_;
  std::vector<trace::TracePhase> recorded_;
  std::vector<PhaseReplay> phases_;
  std::vector<ProcessRequests> streams_;
  std::vector<RequestState> requests_;
  std::map<TargetId, std::uint32_t> server_indexes_;
  std::vector<Server> servers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  Duration now_{};
  std::map<std::pair<ApplicationId, ApplicationId>, Duration> delays_;
  std::uint64_t batches_ = 0;
};

Result<void> Replay::prepare() {
  for (const TraceRequest& request : trace_.requests) {
    const auto next = static_cast<std::uint32_t>(servers_.size());
    if (!server_indexes_.try_emplace(request.target, next).second) continue;
    auto policy = make_policy(options_.policy.name, options_.policy.options, {});
    if (!policy) return Failure(policy.error());
    servers_.push_back({.policy = std::move(*policy), .device = Device(options_.device)});
  }
  build_streams();
  return {};
}

void Replay::build_streams() {
  recorded_ = trace::find_phases(trace_, options_.gap);
  requests_.resize(trace_.requests.size());
  for (const trace::TracePhase& recorded : recorded_) {
    const auto number = static_cast<std::uint32_t>(phases_.size());
    const bool continues = number > 0 && phases_.back().recorded->application == recorded.application;
    PhaseReplay phase{.recorded = &recorded, .unfinished = recorded.requests.size()};
    if (continues) {
      phases_.back().next = number;
      phase.number = phases_.back().number + 1;
    }
    std::map<std::uint32_t, std::uint32_t> by_process;
    for (const std::size_t request : recorded.requests) {
      const auto next = static_cast<std::uint32_t>(streams_.size());
      const auto [known, is_new] = by_process.try_emplace(trace_.requests[request].process, next);
      if (is_new) {
        streams_.push_back({.phase = number});
        phase.streams.push_back(next);
      }
      ProcessRequests& stream = streams_[known->second];
      stream.requests.push_back(static_cast<std::uint32_t>(request));
      if (trace_.requests[request].has_completed()) stream.by_end.push_back(static_cast<std::uint32_t>(request));
      requests_[request].stream = known->second;
    }
    phases_.push_back(std::move(phase));
  }
  for (ProcessRequests& stream : streams_)
    std::ranges::stable_sort(stream.by_end, {}, [&](std::uint32_t i) { return trace_.requests[i].completed; });
}

void Replay::begin_phase(std::uint32_t number, Duration offset) {
  PhaseReplay& phase = phases_[number];
  phase.offset = offset;
  phase.begin = phase.end = phase.recorded->begin + offset;
  for (const std::uint32_t stream : phase.streams) advance(stream);
}

// Schedules the next request of the stream if the requests that it had waited for have ended.
void Replay::advance(std::uint32_t number) {
  ProcessRequests& stream = streams_[number];
  if (stream.scheduled || stream.next == stream.requests.size()) return;
  std::vector<Duration>& last_ends = stream.last_ends;
  while (last_ends.size() < stream.by_end.size()) {
    const Duration end = requests_[stream.by_end[last_ends.size()]].end;
    if (end < Duration::zero()) break;
    last_ends.push_back(last_ends.empty() ? end : std::max(last_ends.back(), end));
  }
  const std::uint32_t index = stream.requests[stream.next];
  const Duration recorded = trace_.requests[index].time;
  const auto completed = [&](std::uint32_t i) { return trace_.requests[i].completed; };
  auto after = std::ranges::lower_bound(stream.by_end, recorded, {}, completed);
  while (after != stream.by_end.end() && completed(*after) == recorded && *after < index) ++after;
  const auto waited_for = static_cast<std::size_t>(after - stream.by_end.begin());
  Duration at = recorded + phases_[stream.phase].offset;
  if (waited_for > 0) {
    if (last_ends.size() < waited_for) return;
    at = last_ends[waited_for - 1] + (recorded - completed(*std::prev(after)));
  }
  stream.scheduled = true;
  schedule(std::max(at, now_), Event::Kind::kIssue, number);
}

Request Replay::request_of(std::uint32_t index, PhaseReplay& phase) {
  const TraceRequest& recorded = trace_.requests[index];
  Bytes& issued = phase.issued[recorded.target];
  const Request request{.id = index,
                        .file = recorded.file,
                        .offset = recorded.offset,
                        .length = recorded.length,
                        .target = recorded.target,
                        .direction = recorded.direction,
                        .stamp = {.application = recorded.application,
                                  .phase = phase.number,
                                  .order = recorded.application,
                                  .issued = TimePoint(now_),
                                  .phase_start = TimePoint(phase.begin),
                                  .attained = issued,
                                  .phase_total = phase.known_total,
                                  .operation = index + std::uint64_t{1},
                                  .bottleneck = recorded.length}};
  issued += recorded.length;
  return request;
}

void Replay::issue(std::uint32_t number) {
  ProcessRequests& stream = streams_[number];
  stream.scheduled = false;
  const std::uint32_t index = stream.requests[stream.next++];
  const Request request = request_of(index, phases_[stream.phase]);
  const std::uint32_t at = server_indexes_.at(request.target);
  const bool added = servers_[at].policy->add(request, TimePoint(now_));
  assert(added);
  ++servers_[at].waiting[request.stamp.application];
  advance(number);
  pump(at);
}

void Replay::pump(std::uint32_t number) {
  Server& server = servers_[number];
  while (server.in_flight < options_.depth) {
    const Decision decision = server.policy->next(TimePoint(now_));
    if (std::holds_alternative<Idle>(decision)) break;
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
      const Duration at = std::max(now_ + Duration(1), wait->at.time_since_epoch());
      if (server.wake <= now_ || server.wake > at) schedule(server.wake = at, Event::Kind::kServer, number);
      break;
    }
    const auto& requests = std::get<Dispatch>(decision).batch.requests;
    if (server.free.empty()) {
      server.free.push_back(static_cast<std::uint32_t>(server.batches.size()));
      server.batches.emplace_back();
      server.dispatched.emplace_back();
    }
    const std::uint32_t tag = server.free.back();
    server.free.pop_back();
    server.batches[tag].assign(requests.begin(), requests.end());
    server.dispatched[tag] = TimePoint(now_);
    Bytes length{};
    for (const Request& request : requests) length += request.length, --server.waiting[request.stamp.application];
    ++server.in_flight;
    ++batches_;
    const Request& first = server.batches[tag].front();
    // Files lie at random positions; a server holds every n-th stripe of a file one after another.
    const std::uint64_t base = (first.file * 0x9e3779b97f4a7c15 ^ first.target * 0xbf58476d1ce4e5b9) >> 24;
    server.device.add(
        {.position = base + first.offset / servers_.size(), .length = length, .direction = first.direction, .tag = tag},
        TimePoint(now_));
  }
  const auto next = server.device.next_finish();
  if (!next || server.finish_at == next->time_since_epoch()) return;
  server.finish_at = next->time_since_epoch();
  schedule(server.finish_at, Event::Kind::kServer, number);
}

void Replay::serve(std::uint32_t number) {
  Server& server = servers_[number];
  while (const auto tag = server.device.pop_finished(TimePoint(now_))) finish(server, static_cast<std::uint32_t>(*tag));
  if (server.finish_at <= now_) server.finish_at = Duration(-1);
  pump(number);
}

// The device has worked for `served` since it finished the batch before, or since it was idle.
void Replay::blame(Server& server, ApplicationId served) {
  for (const auto& [application, waiting] : server.waiting)
    if (waiting > 0 && application != served) delays_[{application, served}] += now_ - server.last_finish;
}

void Replay::finish(Server& server, std::uint32_t tag) {
  const std::vector<Request> requests = std::exchange(server.batches[tag], {});
  const Duration dispatched = server.dispatched[tag].time_since_epoch();
  server.last_finish = std::max(server.last_finish, dispatched);
  blame(server, requests.front().stamp.application);
  server.last_finish = now_;
  server.policy->completed(Batch{requests}, server.dispatched[tag], TimePoint(now_));
  server.free.push_back(tag);
  --server.in_flight;
  for (const Request& request : requests) ended(static_cast<std::uint32_t>(request.id));
}

void Replay::ended(std::uint32_t index) {
  requests_[index].end = now_;
  const std::uint32_t number = requests_[index].stream;
  PhaseReplay& phase = phases_[streams_[number].phase];
  phase.end = now_;
  if (--phase.unfinished > 0) return advance(number);
  if (phase.next == kNone) return;
  for (const auto& [target, bytes] : phase.issued)
    phases_[phase.next].known_total = std::max(phases_[phase.next].known_total, bytes);
  begin_phase(phase.next, now_ - phase.recorded->end);
}

Result<ReplayOutcome> Replay::run() {
  for (std::uint32_t i = 0; i < phases_.size(); ++i)
    if (phases_[i].number == 0) begin_phase(i, Duration::zero());
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (event.kind == Event::Kind::kIssue)
      issue(event.index);
    else
      serve(event.index);
  }
  if (std::ranges::any_of(phases_, [](const PhaseReplay& phase) { return phase.unfinished > 0; }))
    return fail(ErrorCode::kTimeout, fmt::format("policy {} left requests of the trace waiting", options_.policy.name));
  return outcome();
}

ReplayOutcome Replay::outcome() {
  ReplayOutcome result;
  for (const PhaseReplay& phase : phases_) {
    ReplayedPhase& row = result.phases.emplace_back();
    row.application = phase.recorded->application;
    row.number = phase.number;
    row.begin = phase.begin;
    row.end = phase.end;
    if (phase.recorded->completions_known) row.recorded = phase.recorded->end - phase.recorded->begin;
    result.makespan = std::max(result.makespan, phase.end);
  }
  for (const auto& [pair, time] : delays_) result.delays.push_back({pair.first, pair.second, time});
  std::ranges::stable_sort(result.delays, std::greater(), &Delayed::time);
  if (batches_ > 0) result.mean_batch = static_cast<double>(requests_.size()) / static_cast<double>(batches_);
  return result;
}

// ---- calibration ----

// A time in which a server had unfinished requests all along.
struct BusyTime {
  Duration begin{}, end{};
  double requests = 0, bytes = 0;
  ApplicationId application = 0;
  bool usable = true;
};

std::vector<BusyTime> busy_times(const Trace& trace, Duration gap, CalibrateOn on) {
  std::vector<bool> usable(trace.requests.size(), true);
  if (on == CalibrateOn::kEvenPhases) {
    std::map<ApplicationId, std::uint32_t> numbers;
    for (const trace::TracePhase& phase : trace::find_phases(trace, gap))
      if (numbers[phase.application]++ % 2 == 1)
        for (const std::size_t request : phase.requests) usable[request] = false;
  }
  std::map<TargetId, BusyTime> current;
  std::vector<BusyTime> all;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    BusyTime& busy = current[request.target];
    if (busy.requests == 0 || request.time > busy.end) {
      if (busy.requests > 0) all.push_back(busy);
      busy = {.begin = request.time, .end = request.time, .application = request.application};
    }
    busy.usable = busy.usable && usable[i] && request.has_completed() && request.application == busy.application;
    busy.end = std::max(busy.end, request.has_completed() ? request.completed : request.time);
    busy.requests += 1;
    busy.bytes += static_cast<double>(request.length.count());
  }
  for (const auto& [target, busy] : current) all.push_back(busy);
  std::erase_if(all, [](const BusyTime& busy) { return !busy.usable || busy.end <= busy.begin; });
  return all;
}

}  // namespace

Result<ReplayOutcome> replay(const Trace& trace, const ReplayOptions& options) {
  Replay run(trace, options);
  if (auto ready = run.prepare(); !ready) return Failure(ready.error());
  return run.run();
}

// Least squares of time = requests * latency + bytes / bandwidth. Long busy times count more, as they do in a replay.
std::optional<CalibratedDevice> calibrate(const Trace& trace, Duration gap, CalibrateOn on) {
  constexpr std::size_t kFewest = 10;
  const std::vector<BusyTime> all = busy_times(trace, gap, on);
  if (all.size() < kFewest) return std::nullopt;
  double nn = 0, nb = 0, bb = 0, nt = 0, bt = 0;
  for (const BusyTime& busy : all) {
    const double time = seconds(busy.end - busy.begin);
    nn += busy.requests * busy.requests;
    nb += busy.requests * busy.bytes;
    bb += busy.bytes * busy.bytes;
    nt += busy.requests * time;
    bt += busy.bytes * time;
  }
  const double determinant = nn * bb - nb * nb;
  double latency = 0, per_byte = bt / bb;
  if (determinant > 0.01 * nn * bb) {  // else sizes are too equal to tell the two apart
    latency = (nt * bb - bt * nb) / determinant;
    per_byte = (nn * bt - nb * nt) / determinant;
  }
  if (latency < 0) latency = 0, per_byte = bt / bb;
  if (per_byte <= 0) latency = nt / nn, per_byte = 0;
  return CalibratedDevice{.device = {.latency = Duration(static_cast<std::int64_t>(latency * 1e9)),
                                     .bandwidth = per_byte > 0 ? 1 / per_byte : 0},
                          .samples = all.size()};
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "lab/collective_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "collective/measured_choice.h"

namespace tutti::lab {
namespace {

using collective::Collective;
using collective::Exchange;
using collective::IoRequest;
using collective::PlanKind;
using collective::RankPlan;
using collective::ReadForm;

constexpr unsigned kLag = 8;         // calls, at least
constexpr std::size_t kFewRuns = 4;  // lists of this length are gathered in one step, longer ones in two

// Calls `done` when it was called `count` times.
Task join(std::size_t count, Task done) {
  auto left = std::make_shared<std::size_t>(count);
  return [left, done = std::move(done)] {
    if (--*left == 0) done();
  };
}

std::uint64_t bytes_of(const RankPlan& plan, const collective::Slice& slice) {
  std::uint64_t bytes = 0;
  for (const collective::Extent& extent : plan.of(slice)) bytes += extent.length;
  return bytes;
}

// A dissemination barrier, which also carries data: in stage s a rank sends to the rank 2^s after it.
class Barrier {
 public:
  Barrier(CollectiveCluster& cluster, std::size_t ranks, std::size_t first_rank)
      : cluster_(cluster), first_rank_(first_rank), ranks_(ranks) {}

  void enter(std::size_t rank, std::uint64_t bytes, Task next) {
    ranks_[rank].next = std::move(next);
    ranks_[rank].bytes = bytes;
    send(rank);
  }

 private:
  struct State {
    Task next{};
    unsigned stage = 0;
    std::uint64_t arrived = 0;  // bit mask by stage
    std::uint64_t bytes = 0;
  };

  void send(std::size_t rank) {
    State& state = ranks_[rank];
    const std::size_t distance = std::size_t{1} << state.stage;
    if (distance >= ranks_.size()) return state.next();
    const std::size_t peer = (rank + distance) % ranks_.size();
    cluster_.message(first_rank_ + rank, first_rank_ + peer, state.bytes * distance, [this, peer, stage = state.stage] {
      ranks_[peer].arrived |= std::uint64_t{1} << stage;
      advance(peer);
    });
    advance(rank);
  }

  void advance(std::size_t rank) {
    State& state = ranks_[rank];
    if (!state.next || (state.arrived >> state.stage & 1) == 0) return;
    state.arrived &= ~(std::uint64_t{1} << state.stage);
    ++state.stage;
    send(rank);
  }

  CollectiveCluster& cluster_;
  std::size_t first_rank_;
  std::vector<State> ranks_;
};

// One collective call.
class CallRun {
 public:
  CallRun(CollectiveCluster& cluster, const CollectiveCluster::File& file, std::size_t first_rank,
          Collective collective, std::vector<RankPlan> plans)
      : cluster_(cluster),
        file_(file),
        first_rank_(first_rank),
        collective_(std::move(collective)),
        plans_(std::move(plans)),
        ranks_(plans_.size()) {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      ranks_[rank].received.resize(plans_[rank].rounds, 0);
      ranks_[rank].may_start.resize(plans_[rank].rounds, 0);
      for (const Exchange& each : plans_[rank].receives) --ranks_[rank].received[each.round];
    }
  }

  const RankPlan& plan(std::size_t rank) const { return plans_[rank]; }
  const collective::AccessList& list(std::size_t rank) const { return collective_.lists[rank]; }
  PlanKind kind() const { return plans_.front().kind; }

  // Measures the call: from the first rank's begin to the last rank's end.
  void rank_began(sim::Nanoseconds now) { begin_ = std::min(begin_, now); }
  void rank_ended(sim::Nanoseconds now) {
    end_ = now;
    ++ended_;
  }
  bool ended() const { return ended_ == plans_.size(); }
  double seconds() const { return static_cast<double>(end_ - begin_) / 1e9; }
  double bytes() const {
    double sum = 0;
    for (const auto& list : collective_.lists) sum += static_cast<double>(collective::bytes_of(list));
    return sum;
  }

  // Exchanges the access lists. Must be called once by every rank.
  void gather(std::size_t rank, unsigned steps, Task next) {
    gather_step(rank, 0, steps, [this, rank, next = std::move(next)] {
      ranks_[rank].gathered = true;
      if (ranks_[rank].on_gathered) std::exchange(ranks_[rank].on_gathered, {})();
      next();
    });
  }

  // Calls `next` when the rank has the lists of this call.
  void after_gather(std::size_t rank, Task next) {
    if (ranks_[rank].gathered) return next();
    ranks_[rank].on_gathered = std::move(next);
  }

  void execute(std::size_t rank, Task done) {
    ranks_[rank].done = std::move(done);
    begin_round(rank);
  }

 private:
  struct RankState {
    std::uint32_t round = 0;
    std::vector<std::int64_t> received;   // by round: minus the messages that are missing
    std::vector<std::uint8_t> may_start;  // by round: the message of start_rule.after has arrived
    bool gathered = false;
    Task on_received{}, on_turn{}, on_gathered{}, done{};
  };

  Barrier& barrier(std::size_t number) {
    while (barriers_.size() <= number)
      barriers_.push_back(std::make_unique<Barrier>(cluster_, plans_.size(), first_rank_));
    return *barriers_[number];
  }

  void gather_step(std::size_t rank, unsigned step, unsigned steps, Task next) {
    if (step == steps) return next();
    const bool last = step + 1 == steps;
    const std::uint64_t bytes = last ? list(rank).size() * sizeof(collective::ExtentRun) : 16;
    barrier(step).enter(rank, bytes, [this, rank, step, steps, next] { gather_step(rank, step + 1, steps, next); });
  }

  void begin_round(std::size_t rank) {
    RankState& state = ranks_[rank];
    if (state.round == plans_[rank].rounds) return state.done();
    const bool write = collective_.direction == Direction::kWrite;
    const auto next = [this, rank] {
      ++ranks_[rank].round;
      begin_round(rank);
    };
    if (write)
      exchange(rank, [this, rank, next] { request(rank, {}, next); });
    else if (plans_[rank].read_form == ReadForm::kDirect)
      read_directly(rank, next);
    else
      request(rank, {}, [this, rank, next] { exchange(rank, next); });
  }

  // Sends this rank's data of the round, and waits for its own.
  void exchange(std::size_t rank, Task done) {
    const RankPlan& plan = plans_[rank];
    RankState& state = ranks_[rank];
    for (const Exchange& send : plan.sends) {
      if (send.round != state.round) continue;
      cluster_.message(first_rank_ + rank, first_rank_ + send.peer, bytes_of(plan, send.extents),
                       [this, peer = send.peer, round = send.round] { receive(peer, round); });
    }
    if (state.received[state.round] == 0) return done();
    state.on_received = std::move(done);
  }

  void receive(std::size_t rank, std::uint32_t round) {
    RankState& state = ranks_[rank];
    if (++state.received[round] < 0 || round != state.round || !state.on_received) return;
    std::exchange(state.on_received, {})();
  }

  void read_directly(std::size_t rank, Task done) {
    const std::uint32_t round = ranks_[rank].round;
    const auto both = join(2, std::move(done));
    const auto second = [this, rank, round, both] {
      barrier(2 + round).enter(
          rank, 0, [this, rank, round, both] { issue(rank, requests_of(plans_[rank].direct, round), both); });
    };
    if (plans_[rank].nonblocking)
      request(rank, second, both);
    else
      request(rank, {}, [second, both] {
        second();
        both();
      });
  }

  // Waits until it may start (StartRule) and issues the requests of the round. `issued` is called when nonblocking
  // requests are issued.
  void request(std::size_t rank, Task issued, Task done) {
    RankState& state = ranks_[rank];
    const auto start = [this, rank, issued = std::move(issued), done = std::move(done)] {
      const RankPlan& plan = plans_[rank];
      const auto requests = requests_of(plan.requests, ranks_[rank].round);
      const std::uint32_t round = ranks_[rank].round;
      if (plan.nonblocking) {
        issue(rank, requests, done);
        let_next_start(rank, round, plan.start_rule.delay);
        if (issued) issued();
      } else {
        issue(rank, requests, [this, rank, round, done] {
          let_next_start(rank, round, {});
          done();
        });
      }
    };
    if (!plans_[rank].start_rule.after || state.may_start[state.round] != 0) return start();
    state.on_turn = start;
  }

  void let_next_start(std::size_t rank, std::uint32_t round, Duration delay) {
    if (!plans_[rank].start_rule.next) return;
    const std::size_t next = *plans_[rank].start_rule.next;
    sim::Simulator& simulator = cluster_.simulator();
    simulator.at(simulator.now() + delay.count(), [this, rank, next, round] {
      cluster_.message(first_rank_ + rank, first_rank_ + next, 0, [this, next, round] {
        ranks_[next].may_start[round] = 1;
        if (ranks_[next].round == round && ranks_[next].on_turn) std::exchange(ranks_[next].on_turn, {})();
      });
    });
  }

  static std::vector<IoRequest> requests_of(const std::vector<IoRequest>& all, std::uint32_t round) {
    std::vector<IoRequest> requests;
    for (const IoRequest& request : all)
      if (request.round == round) requests.push_back(request);
    return requests;
  }

  void issue(std::size_t rank, std::vector<IoRequest> requests, Task done) {
    if (requests.empty()) return done();
    const std::size_t first = std::min<std::size_t>(plans_[rank].in_flight, requests.size());
    auto left = std::make_shared<std::vector<IoRequest>>(requests.rbegin(), requests.rend());
    const auto each = join(first, std::move(done));
    for (std::size_t i = 0; i < first; ++i) issue_next(rank, left, each);
  }

  void issue_next(std::size_t rank, const std::shared_ptr<std::vector<IoRequest>>& left, Task done) {
    if (left->empty()) return done();
    const IoRequest request = left->back();
    left->pop_back();
    cluster_.io(call_of(rank, request), [this, rank, left, done = std::move(done)] { issue_next(rank, left, done); });
  }

  CollectiveCluster::Call call_of(std::size_t rank, const IoRequest& request) const {
    const auto extents = plans_[rank].of(request.extents);
    return {first_rank_ + rank, &file_, collective_.direction, {extents.begin(), extents.end()}};
  }

  CollectiveCluster& cluster_;
  const CollectiveCluster::File& file_;
  std::size_t first_rank_;
  Collective collective_;
  std::vector<RankPlan> plans_;
  std::vector<RankState> ranks_;
  std::vector<std::unique_ptr<Barrier>> barriers_;
  sim::Nanoseconds begin_ = std::numeric_limits<sim::Nanoseconds>::max();
  sim::Nanoseconds end_ = 0;
  std::size_t ended_ = 0;
};

class ProgramRun {
 public:
  ProgramRun(CollectiveCluster& cluster, const ProgramOnCluster& spec, std::size_t first_rank, FileId file)
      : cluster_(cluster),
        spec_(spec),
        first_rank_(first_rank),
        file_{file, spec.layout},
        open_(cluster, spec.program.ranks, first_rank) {}

  // All programs open their file collectively: no rank continues before all others have begun.
  void start() {
    for (std::size_t rank = 0; rank < spec_.program.ranks; ++rank)
      open_.enter(rank, 0, [this, rank] { begin_call(rank, 0); });
  }

  bool ended() const { return ended_ == spec_.program.ranks || error_; }
  const std::optional<Error>& error() const { return error_; }

  ProgramTime time() const {
    ProgramTime time = time_;
    time.seconds = static_cast<double>(ended() ? end_ : cluster_.simulator().now()) / 1e9;
    return time;
  }

 private:
  // The plans of a call, made by the rank that comes first. Calls stay until the end of the run, because late messages
  // refer to them.
  CallRun* call(unsigned number) {
    if (number < calls_.size()) return calls_[number].get();
    Collective collective = spec_.program.call(number);
    collective::Options options = spec_.method.options;
    if (!spec_.method.collective) {
      options.kind = PlanKind::kIndependent;
      options.nonblocking = false;
      options.list_io = 1;
    }
    if (options.kind == PlanKind::kAuto) choose(collective, options, number);
    auto plans = collective::plan_all(collective, spec_.layout, options);
    if (!plans) {
      error_ = plans.error();
      return nullptr;
    }
    calls_.push_back(std::make_unique<CallRun>(cluster_, file_, first_rank_, std::move(collective), std::move(*plans)));
    time_.kinds.push_back(calls_.back()->kind());
    return calls_.back().get();
  }

  // The times of calls travel with the lists, so those of the last but one are known to all ranks.
  void choose(const Collective& collective, collective::Options& options, unsigned number) {
    if (number > 1 && calls_[number - 2]->ended())
      measured_.measured(choices_[number - 2], calls_[number - 2]->seconds(), calls_[number - 2]->bytes());
    auto estimates = collective::estimate(collective, spec_.layout, options);
    const auto alone = [](const collective::Estimate& each) { return each.kind == PlanKind::kIndependent; };
    const bool together = estimates && !estimates->empty() && !alone(estimates->front());
    if (together) std::erase_if(*estimates, alone);  // the time of a single call of free-running ranks says little
    choices_.push_back(together ? measured_.choose(*estimates) : PlanKind::kIndependent);
    const bool first = number == 0 && choices_[0] == PlanKind::kIndependent;  // has RankPlan::start
    if (!first) options.kind = independent(number) ? PlanKind::kIndependent : choices_[number];
  }

  unsigned gather_steps(const CallRun& call, std::size_t rank) const {
    if (!spec_.method.collective) return 0;
    if (spec_.method.options.kind == PlanKind::kTwoPhase) return call.kind() == PlanKind::kTwoPhase ? 2 : 1;
    if (spec_.method.options.kind == PlanKind::kIndependent) return 0;
    return spec_.method.options.nonblocking && call.list(rank).size() <= kFewRuns ? 1 : 2;
  }

  void begin_call(std::size_t rank, unsigned number) {
    if (number == spec_.program.calls) {
      ++ended_;
      end_ = cluster_.simulator().now();
      return;
    }
    CallRun* const run = call(number);
    if (run == nullptr) return;
    sim::Simulator& simulator = cluster_.simulator();
    run->rank_began(simulator.now());
    const Duration cost = spec_.method.collective ? spec_.method.call_cost : Duration::zero();
    simulator.at(simulator.now() + cost.count(), [this, run, rank, number] { execute(*run, rank, number); });
  }

  void execute(CallRun& run, std::size_t rank, unsigned number) {
    const Task done = [this, rank, number] { end_call(rank, number); };
    if (!independent(number))
      return run.gather(rank, gather_steps(run, rank), [this, &run, rank, done] {
        sim::Simulator& simulator = cluster_.simulator();
        simulator.at(simulator.now() + run.plan(rank).start.count(), [&run, rank, done] { run.execute(rank, done); });
      });
    calls_[reference(number)]->after_gather(rank, [this, &run, rank, done] {
      run.gather(rank, gather_steps(run, rank), [] {});
      run.execute(rank, done);
    });
  }

  // If auto chose independent for an earlier call, ranks need not wait for the lists of this call; they are gathered in
  // the background. The earlier call is half of all calls before this one: the longer a pattern has lasted, the
  // further ranks may drift apart, as they do without collective calls.
  static unsigned reference(unsigned number) {
    return number > 2 * kLag ? number / 2 : number > kLag ? number - kLag : 0;
  }
  bool independent(unsigned number) const {
    return spec_.method.collective && spec_.method.options.kind == PlanKind::kAuto && number > 0 &&
           choices_[reference(number)] == PlanKind::kIndependent;
  }

  void end_call(std::size_t rank, unsigned number) {
    time_.bytes += static_cast<double>(collective::bytes_of(calls_[number]->list(rank)));
    sim::Simulator& simulator = cluster_.simulator();
    calls_[number]->rank_ended(simulator.now());
    simulator.at(simulator.now() + spec_.program.compute.count(),
                 [this, rank, number] { begin_call(rank, number + 1); });
  }

  CollectiveCluster& cluster_;
  const ProgramOnCluster& spec_;
  std::size_t first_rank_;
  CollectiveCluster::File file_;
  std::vector<std::unique_ptr<CallRun>> calls_;
  Barrier open_;
  collective::MeasuredChoice measured_;
  std::vector<PlanKind> choices_;  // of auto, by call
  std::size_t ended_ = 0;
  sim::Nanoseconds end_ = 0;
  ProgramTime time_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<ProgramTime>> run_programs(const ClusterFigures& figures,
                                              const std::vector<ProgramOnCluster>& programs, std::uint64_t seed,
                                              bool until_first) {
  std::size_t ranks = 0;
  for (const ProgramOnCluster& each : programs) ranks += each.program.ranks;
  sim::Simulator simulator(seed);
  CollectiveCluster cluster(simulator, figures, ranks, seed);
  std::vector<std::unique_ptr<ProgramRun>> runs;
  std::size_t first = 0;
  for (const ProgramOnCluster& each : programs) {
    runs.push_back(std::make_unique<ProgramRun>(cluster, each, first, runs.size() + 1));
    first += each.program.ranks;
  }
  for (const auto& run : runs) run->start();
  const auto ended = [](const auto& run) { return run->ended(); };
  while (until_first ? std::none_of(runs.begin(), runs.end(), ended) : !std::all_of(runs.begin(), runs.end(), ended))
    if (!simulator.run_next()) return fail(ErrorCode::kStopped, "a simulated program waits for ever");
  std::vector<ProgramTime> times;
  for (const auto& run : runs) {
    if (run->error()) return Failure(*run->error());
    times.push_back(run->time());
  }
  return times;
}

}  // namespace tutti::lab

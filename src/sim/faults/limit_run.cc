// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/limit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/prng.h"
#include "node/limit_exchange.h"
#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBegin = 3s;       // of the load: the nodes' own shares count after two seconds
constexpr Duration kFaultsEnd = 30s;  // all faults are over
constexpr Duration kLength = 50s;
constexpr Duration kProgress = 4s;  // at the end: the limits are reached
constexpr Duration kFence = 2s;
constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::uint64_t kStripe = 64 << 10;
constexpr Duration kLook = 5ms;  // between two looks at the shares
constexpr double kLeast = 0.85;  // of the limits, that is served at the end

enum class LimitFault : std::uint8_t { kKill, kPause, kLoss, kOneWayLoss, kPartition, kHalfOpen, kLost, kDrift };
constexpr std::array<const char*, 8> kFaultNames = {
    "kill", "pause", "loss", "one-way-loss", "partition", "half-open", "lost-connections", "clock-drift"};

struct PlannedLimitFault {
  LimitFault kind{};
  std::size_t node = 0, other = 0;
  Nanoseconds at = 0, end = 0;
};

struct LimitedJob {
  std::size_t size = 0, depth = 0;  // of its writes
  RateLimit limit{};
  std::string name{};
};

struct LimitPlan {
  std::uint64_t seed = 0;
  std::size_t nodes = 3;
  Duration burst{};
  std::vector<LimitedJob> jobs{};
  RateLimit of_user{};  // of all jobs; none if it is 0
  RateLimit of_name{};  // of all jobs with the name "slow"
  std::vector<PlannedLimitFault> faults{};
};

Duration fault_length(Prng& chance) {
  using node::LimitExchange;
  constexpr Duration kTimes[] = {LimitExchange::kRenewInterval,
                                 LimitExchange::kAnswerTimeout,
                                 LimitExchange::kLease,
                                 LimitExchange::kRetryInterval,
                                 LimitExchange::kAbsentFor,
                                 LimitExchange::kQuietStart,
                                 kFence,
                                 5s};
  const Duration time = kTimes[chance.below(std::size(kTimes))];
  return Duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * chance.uniform(0.5, 1.5)));
}

LimitPlan make_plan(std::uint64_t seed) {
  Prng chance(seed * 7 + 3);
  LimitPlan plan{.seed = seed};
  plan.nodes = 3 + chance.below(3);
  plan.burst = std::array<Duration, 3>{20ms, 50ms, 100ms}[chance.below(3)];
  for (std::size_t i = 0; i < 2 + chance.below(3); ++i) {
    LimitedJob job{.size = std::size_t{4096} << chance.below(4), .depth = 4 + chance.below(24)};
    if (chance.chance(0.7)) job.limit.bytes = 500'000 + chance.below(3'000'000);
    if (chance.chance(0.3)) job.limit.requests = 40 + chance.below(200);
    job.name = chance.chance(0.5) ? "slow" : "job";
    plan.jobs.push_back(job);
  }
  // Every job has a limit, so that it is known how much the cluster serves.
  if (chance.chance(0.4)) plan.of_name.bytes = 1'000'000;
  plan.of_user.bytes = chance.chance(0.5) ? 2'000'000 : 50'000'000;
  // Few kinds of faults, many of each.
  std::vector<LimitFault> kinds;
  for (std::size_t i = 0; i < 3; ++i) kinds.push_back(static_cast<LimitFault>(chance.below(kFaultNames.size())));
  for (std::size_t count = 4 + chance.below(12); count > 0; --count) {
    PlannedLimitFault fault{.kind = kinds[chance.below(kinds.size())]};
    fault.node = chance.chance(0.4) ? 0 : chance.below(plan.nodes);  // often the node that distributes
    fault.other = (fault.node + 1 + chance.below(plan.nodes - 1)) % plan.nodes;
    const auto time = static_cast<double>((kFaultsEnd - kBegin).count());
    fault.at = kBegin.count() + static_cast<Nanoseconds>(chance.uniform() * time);
    fault.end = std::min<Nanoseconds>(fault.at + fault_length(chance).count(), kFaultsEnd.count());
    plan.faults.push_back(fault);
  }
  std::ranges::stable_sort(plan.faults, {}, &PlannedLimitFault::at);
  return plan;
}

std::string text_of(const RateLimit& limit) {
  std::string text = limit.bytes > 0 ? fmt::format("{}B/s", limit.bytes) : "";
  if (limit.requests > 0) text += fmt::format("{}{}/s", text.empty() ? "" : "+", limit.requests);
  return text;
}

// What was served of one limit.
struct LimitUse {
  std::string what;
  RateLimit limit;
  double largest = 0;  // bytes of a request
  std::vector<ServedRequest> bytes{}, requests{};
};

class LimitRun {
 public:
  LimitRun(const LimitPlan& plan, const std::function<void(const std::string&)>& trace)
      : plan_(plan), trace_(trace), chance_(plan.seed), down_(plan.nodes), paused_(plan.nodes), cluster_(options()) {
    uses_.push_back({.what = "user", .limit = plan.of_user});
    uses_.push_back({.what = "name", .limit = plan.of_name});
    for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
      uses_.push_back({.what = fmt::format("job {}", i + 1), .limit = plan.jobs[i].limit});
      add_writer(i);
    }
  }
  ~LimitRun() {
    stopped_ = true;
    for (Writer& writer : writers_) writer.file = nullptr;
  }

  LimitOutcome run() {
    Simulator& simulator = cluster_.simulator();
    simulator.at(kBegin.count(), [this] {
      for (std::size_t i = 0; i < writers_.size(); ++i) fill(i);
    });
    for (const PlannedLimitFault& fault : plan_.faults) simulator.at(fault.at, [this, &fault] { begin(fault); });
    look_at_shares();
    simulator.at(kLength.count(), [] {});
    while (simulator.now() < kLength.count() && simulator.run_next()) {
    }
    return check();
  }

 private:
  struct Writer {
    SimulatedClient* client = nullptr;
    std::shared_ptr<OpenFile> file{};
    std::size_t waiting = 0;
  };

  Nanoseconds now() { return cluster_.simulator().now(); }
  void say(const std::string& line) {
    if (trace_) trace_(fmt::format("{:11.6f} limits: {}", static_cast<double>(now()) / 1e9, line));
  }

  SimulatedCluster::Options options() {
    SimulatedCluster::Options options;
    options.seed = plan_.seed;
    options.nodes = plan_.nodes;
    options.clients = plan_.jobs.size();
    options.network.latency = 50us;
    options.network.jitter = 30us;
    options.cluster.stripe_size = Bytes(kStripe);
    options.cluster.stripe_count = static_cast<std::uint32_t>(plan_.nodes);
    options.cluster.request_timeout = 5s;
    options.cluster.fence_time = kFence;
    options.node.device.figures = FixedFigures{.latency = 100us, .bandwidth = 500e6};
    options.node.node.policy = "fair";
    std::string limits;
    for (std::size_t i = 0; i < plan_.jobs.size(); ++i)
      if (plan_.jobs[i].limit.any()) limits += fmt::format("{}={}, ", i + 1, text_of(plan_.jobs[i].limit));
    if (plan_.of_name.any()) limits += fmt::format("name:slow={}, ", text_of(plan_.of_name));
    limits += fmt::format("user:*={}", text_of(plan_.of_user));
    options.node.node.policy_options = {{"limits", limits}, {"burst", fmt::format("{}ms", plan_.burst / 1ms)}};
    // Called when a node gives an operation to its device.
    options.faults = [this](std::size_t, const Operation& operation) {
      serve(operation);
      return std::optional<DiskFault>();
    };
    return options;
  }

  void add_writer(std::size_t job) {
    const std::string path = fmt::format("file{}", job);
    files_[cluster_.volume().make_file(path, 0)->number] = job;
    SimulatedClient& client = cluster_.add_client({.number = job + 1,
                                                   .application = static_cast<ApplicationId>(job + 1),
                                                   .order = static_cast<OrderId>(job + 1),
                                                   .name = plan_.jobs[job].name},
                                                  job);
    writers_.push_back({.client = &client});
    client.start([this, job, path](const Result<void>&) {
      writers_[job].client->async().open(path, {.write = true}, [this, job](Result<std::shared_ptr<OpenFile>> opened) {
        if (opened && !stopped_) writers_[job].file = *opened;
      });
    });
  }

  // Keeps its writes in flight, each to one of the nodes.
  void fill(std::size_t job) {
    Writer& writer = writers_[job];
    if (!writer.file) return;
    for (; !stopped_ && writer.waiting < plan_.jobs[job].depth; ++writer.waiting) {
      const std::uint64_t offset = chance_.below(1000) * kStripe;
      writer.file->write({{offset, std::span<const std::byte>(memory_).first(plan_.jobs[job].size)}},
                         [this, job](const Result<std::size_t>&) {
                           --writers_[job].waiting;
                           if (!stopped_) writers_[job].client->process().soon([this, job] { fill(job); });
                         });
    }
  }

  void serve(const Operation& operation) {
    if (operation.kind != Operation::Kind::kWrite) return;
    const std::size_t job = files_.at(operation.file->key().inode);
    const auto length = static_cast<double>(operation.length());
    const auto count = [&](LimitUse& use) {
      use.largest = std::max(use.largest, length);
      use.bytes.push_back({now(), length});
      use.requests.push_back({now(), 1});
    };
    ++requests_;
    count(uses_[0]);
    if (plan_.jobs[job].name == "slow") count(uses_[1]);
    count(uses_[2 + job]);
  }

  // ---- faults ----

  void begin(const PlannedLimitFault& fault) {
    const bool of_node = fault.kind == LimitFault::kKill || fault.kind == LimitFault::kPause;
    if (of_node && (down_[fault.node] || paused_[fault.node])) return;
    ++faults_;
    say(fmt::format("{} of node {} (other {}) begins", kFaultNames[static_cast<std::size_t>(fault.kind)], fault.node,
                    fault.other));
    cluster_.simulator().at(fault.end, [this, &fault] {
      say(fmt::format("{} of node {} ends", kFaultNames[static_cast<std::size_t>(fault.kind)], fault.node));
      apply(fault, true);
    });
    if (fault.kind != LimitFault::kDrift) disturbed_ = true;
    apply(fault, false);
  }

  void apply(const PlannedLimitFault& fault, bool ends) {
    SimulatedNetwork& network = cluster_.network();
    Process& node = cluster_.node(fault.node).process();
    Process& other = cluster_.node(fault.other).process();
    switch (fault.kind) {
      case LimitFault::kKill:
        return ends ? start(fault.node) : kill(fault.node);
      case LimitFault::kPause:
        return ends ? resume(fault.node) : pause(fault);
      case LimitFault::kLoss:
      case LimitFault::kOneWayLoss:
      case LimitFault::kPartition:
        set_cut(node, other, fault.kind, ends);
        if (fault.kind != LimitFault::kOneWayLoss) set_cut(other, node, fault.kind, ends);
        return;
      case LimitFault::kHalfOpen:
        if (!ends && !down_[fault.node]) network.forget_connections(node);
        return;
      case LimitFault::kLost:
        return network.lose_connections(ends ? 0 : 0.01);
      case LimitFault::kDrift:
        return node.set_drift(ends ? 0 : fault.node % 2 == 0 ? 100e-6 : -100e-6);
    }
  }

  void set_cut(Process& from, Process& to, LimitFault kind, bool ends) {
    int& count = cuts_[{&from, &to}];
    count += ends ? -1 : 1;
    if (count == 0)
      cluster_.network().heal(from, to);
    else if (kind == LimitFault::kPartition)
      cluster_.network().hold(from, to);
    else
      cluster_.network().cut(from, to);
  }

  void kill(std::size_t node) {
    down_[node] = true;
    cluster_.node(node).kill();
  }
  void start(std::size_t node) {
    down_[node] = false;
    cluster_.node(node).start();
  }
  // The watchdog kills a node that is stopped for the fence time.
  void pause(const PlannedLimitFault& fault) {
    paused_[fault.node] = true;
    cluster_.node(fault.node).process().pause();
    if (fault.end - fault.at < kFence.count()) return;
    cluster_.simulator().at(fault.at + kFence.count(), [this, node = fault.node] { kill(node); });
  }
  void resume(std::size_t node) {
    paused_[node] = false;
    if (down_[node]) return start(node);
    cluster_.node(node).process().resume();
  }

  // ---- checks ----

  // A share counts at one node at a time. Nodes that are paused serve nothing.
  void look_at_shares() {
    std::size_t sum = 0;
    std::string shares;
    for (std::size_t node = 0; node < plan_.nodes; ++node) {
      if (down_[node] || paused_[node]) continue;
      const std::uint32_t counted = cluster_.node(node).service().limits().shares;
      sum += counted;
      if (counted > 0) shares += fmt::format(", {} at node {}", counted, node);
    }
    if (sum > plan_.nodes && too_many_shares_.empty()) {
      too_many_shares_ = fmt::format("limits: at {:.3f} s, {} shares of {} nodes counted{}",
                                     static_cast<double>(now()) / 1e9, sum, plan_.nodes, shares);
      say(too_many_shares_);
    }
    cluster_.simulator().at(now() + kLook.count(), [this] { look_at_shares(); });
  }

  LimitOutcome check() {
    LimitOutcome outcome{.requests = requests_, .faults = faults_};
    const double burst = std::chrono::duration<double>(plan_.burst).count();
    const double nodes = static_cast<double>(plan_.nodes), distributors = disturbed_ ? nodes : 1;
    for (const LimitUse& use : uses_) {
      const auto compare = [&](const char* unit, std::uint64_t limit, const std::vector<ServedRequest>& served,
                               double largest) {
        if (limit == 0) return;
        const double most = most_in_a_second(served), rate = static_cast<double>(limit);
        const double granted = rate * (1 + burst) + largest * distributors;
        const double allowed = granted + std::max(rate * burst, largest * nodes);  // granted before, and not used
        outcome.most = std::max(outcome.most, most / allowed);
        say(fmt::format("{} was served {:.0f} {} in one second, {:.3f} of what is allowed", use.what, most, unit,
                        most / allowed));
        if (most > allowed)
          outcome.violations.push_back(fmt::format("limits: {} was served {:.0f} {} in one second, at most {:.0f}",
                                                   use.what, most, unit, allowed));
      };
      compare("bytes", use.limit.bytes, use.bytes, use.largest);
      compare("requests", use.limit.requests, use.requests, 1);
    }
    if (!too_many_shares_.empty()) outcome.violations.push_back(too_many_shares_);
    check_progress(outcome);
    return outcome;
  }

  // After the faults, the jobs are served as much as their limits.
  void check_progress(LimitOutcome& outcome) {
    const auto at_the_end = [](const LimitUse& use) {
      double sum = 0;
      for (const ServedRequest& request : use.bytes)
        if (request.when >= (kLength - kProgress).count()) sum += request.amount;
      return sum / std::chrono::duration<double>(kProgress).count();
    };
    const double all = at_the_end(uses_[0]);
    double expected = 0, slow = 0;
    for (std::size_t i = 0; i < plan_.jobs.size(); ++i) {
      const LimitedJob& job = plan_.jobs[i];
      say(fmt::format("job {} ({}, {} writes of {} bytes, limit {}) is served {:.0f} bytes/s", i + 1, job.name,
                      job.depth, job.size, job.limit.any() ? text_of(job.limit) : "none", at_the_end(uses_[2 + i])));
      // A request waits for a grant for up to kAskInterval, and another one follows it.
      constexpr double kWait = 2 * std::chrono::duration<double>(node::LimitExchange::kAskInterval).count();
      double most = static_cast<double>(job.depth * job.size) / kWait;
      if (job.limit.bytes > 0) most = std::min(most, static_cast<double>(job.limit.bytes));
      if (job.limit.requests > 0) most = std::min(most, static_cast<double>(job.limit.requests * job.size));
      (job.name == "slow" ? slow : expected) += most;
    }
    if (plan_.of_name.any()) slow = std::min(slow, static_cast<double>(plan_.of_name.bytes));
    expected = std::min(expected + slow, static_cast<double>(plan_.of_user.bytes));
    if (all < kLeast * expected)
      outcome.violations.push_back(
          fmt::format("limits: after the faults, all jobs are served {:.0f} bytes/s instead of {:.0f}", all, expected));
  }

  const LimitPlan& plan_;
  const std::function<void(const std::string&)>& trace_;
  Prng chance_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kStripe);  // of all writes: data is not sent
  std::vector<bool> down_, paused_;                                  // by node
  std::map<std::pair<const Process*, const Process*>, int> cuts_;    // faults between two nodes
  bool disturbed_ = false;                                           // several nodes may have distributed
  std::map<std::uint64_t, std::size_t> files_;                       // job by inode number
  std::vector<LimitUse> uses_;                                       // of the user, of the name, of the jobs
  std::string too_many_shares_;                                      // the first time
  std::uint64_t requests_ = 0, faults_ = 0;
  bool stopped_ = false;
  std::vector<Writer> writers_;  // by job
  SimulatedCluster cluster_;     // writes in flight report to their writers when it ends
};

}  // namespace

double most_in_a_second(const std::vector<ServedRequest>& served) {
  double sum = 0, most = 0;
  for (std::size_t first = 0, next = 0; first < served.size(); ++first) {
    const Nanoseconds end = served[first].when + kSecond;
    for (; next < served.size() && served[next].when < end; ++next) sum += served[next].amount;
    most = std::max(most, sum);
    sum -= served[first].amount;
  }
  return most;
}

LimitOutcome run_limits(std::uint64_t seed, const std::function<void(const std::string&)>& trace) {
  const LimitPlan plan = make_plan(seed);
  return LimitRun(plan, trace).run();
}

}  // namespace tutti::sim

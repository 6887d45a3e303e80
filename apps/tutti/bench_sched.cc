// SPDX-License-Identifier: Apache-2.0
// tutti bench sched: measures the cost of a scheduling decision, for the policy alone and through Scheduler.
//
// Workload: every file is written sequentially in 64 KiB requests. The next file is chosen at random, so a server sees
// interleaved streams. Files are assigned to applications round robin. Phases have 16 to 112 MiB and follow each other;
// half of the applications announce the size. The queue is filled to `queued` requests and kept there: each step adds
// one request and dispatches until that depth is reached again.
#include <fmt/core.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/huge_pages.h"
#include "base/json.h"
#include "base/print_error.h"
#include "base/prng.h"
#include "base/table.h"
#include "bench.h"
#include "sched/policy.h"

namespace tutti::cli {
namespace {

using namespace literals;
using SteadyClock = std::chrono::steady_clock;

struct Case {
  std::string policy;
  bool scheduler = false;
  std::size_t producers = 1;
  std::size_t files = 1024;
  std::size_t applications = 1000;
  std::size_t queued = 1000;
};

struct SchedRow {
  Case what;
  double requests_per_second = 0;  // of the best slice
  double median_per_second = 0;    // of the median slice
  double bytes_per_request = 0;
};

// A measurement in slices. Other load can only slow a slice down, so the best slice shows the cost of the code. The
// median shows how much other load there was.
class Slices {
 public:
  explicit Slices(double seconds) : each_(seconds / kCount) {}

  // `done` is the total so far. False: there are enough slices.
  bool go_on(std::uint64_t done) {
    const auto now = SteadyClock::now();
    if (rates_.empty() && start_ == SteadyClock::time_point{}) return start_at(now, done);
    const double taken = std::chrono::duration<double>(now - start_).count();
    if (taken < each_) return true;
    rates_.push_back(static_cast<double>(done - first_) / taken);
    return rates_.size() < kCount && start_at(now, done);
  }

  void report(SchedRow& row) {
    std::sort(rates_.begin(), rates_.end());
    row.requests_per_second = rates_.back();
    row.median_per_second = rates_[rates_.size() / 2];
  }

 private:
  static constexpr std::size_t kCount = 10;

  bool start_at(SteadyClock::time_point now, std::uint64_t done) {
    start_ = now;
    first_ = done;
    return true;
  }

  double each_;
  SteadyClock::time_point start_{};
  std::uint64_t first_ = 0;
  std::vector<double> rates_;
};

// Makes one stream of requests; ids are `first_id`, first_id + step, ...
class Workload {
 public:
  Workload(const Case& what, std::uint64_t seed, RequestId first_id, RequestId step)
      : prng_(seed), next_offset_(what.files), phases_(what.applications), id_(first_id), step_(step) {}

  const Request& next(TimePoint now) {
    const std::size_t file = prng_.below(next_offset_.size());
    const std::size_t application =
        next_offset_.size() >= phases_.size() ? file % phases_.size() : prng_.below(phases_.size());
    const Bytes total = 16_MiB * (application % 7 + 1);
    GeneratedPhase& phase = phases_[application];
    if (phase.attained == total) phase = {phase.number + 1, now, {}};
    request_.id = id_;
    request_.file = file;
    request_.offset = next_offset_[file];
    request_.length = 64_KiB;
    request_.target = static_cast<TargetId>(file % 64);
    request_.direction = Direction::kWrite;
    request_.stamp.application = static_cast<ApplicationId>(application);
    request_.stamp.issued = now;
    request_.stamp.phase = phase.number;
    request_.stamp.phase_start = phase.start;
    request_.stamp.attained = phase.attained;
    request_.stamp.phase_total = application % 2 ? total : Bytes();
    request_.stamp.operation = id_;
    request_.stamp.bottleneck = 64_KiB;
    next_offset_[file] += request_.length.count();
    phase.attained += request_.length;
    id_ += step_;
    return request_;
  }

 private:
  struct GeneratedPhase {
    PhaseNumber number = 1;
    TimePoint start{};
    Bytes attained{};
  };
  Prng prng_;
  std::vector<std::uint64_t> next_offset_;
  std::vector<GeneratedPhase> phases_;  // by application
  RequestId id_, step_;
  Request request_;
};

double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd + mapped_huge_bytes());
}

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Steps of virtual time: a microsecond per request.
TimePoint at(std::uint64_t step) {
  return TimePoint(Duration(static_cast<std::int64_t>(step) * 1000));
}

SchedRow measure_policy(const Case& what, double at_least_seconds) {
  const double before = heap_bytes();
  auto policy = std::move(*make_policy(what.policy, {}));
  Workload workload(what, 1, 1, 1);
  std::uint64_t step = 0;
  while (policy->waiting() < what.queued) policy->add(workload.next(at(step)), at(step)), ++step;
  SchedRow row{.what = what, .bytes_per_request = (heap_bytes() - before) / static_cast<double>(what.queued)};

  // Warm-up: as many requests as are queued, at most a million.
  const std::uint64_t warm = std::min<std::uint64_t>(std::max<std::uint64_t>(what.queued, 100'000), 1'000'000);
  Slices slices(at_least_seconds);
  for (std::uint64_t i = 0;; ++i, ++step) {
    if (i >= warm && (i - warm) % 1024 == 0 && !slices.go_on(i - warm)) break;
    policy->add(workload.next(at(step)), at(step));
    while (policy->waiting() > what.queued) {
      const Decision decision = policy->next(at(step));
      if (const auto* wait = std::get_if<WaitUntil>(&decision))
        step = static_cast<std::uint64_t>(wait->at.time_since_epoch().count()) / 1000 + 1;
    }
  }
  slices.report(row);
  return row;
}

// Waits until `credit` is positive and returns it. Polls for 50 us before it sleeps.
std::int64_t wait_for(std::atomic<std::int64_t>& credit) {
  const auto end = SteadyClock::now() + std::chrono::microseconds(50);
  std::int64_t left = credit.load(std::memory_order_acquire);
  while (left <= 0 && SteadyClock::now() < end) {
    std::this_thread::yield();
    left = credit.load(std::memory_order_acquire);
  }
  if (left <= 0) credit.wait(left, std::memory_order_acquire);
  return credit.load(std::memory_order_acquire);
}

// Producers add requests while fewer than `queued` are waiting or in flight. When the queue is full, one dispatcher
// starts to take and complete batches. As in a network protocol with windows, a producer gets credit back when half of
// its requests are complete or the dispatcher is idle.
SchedRow measure_scheduler(const Case& what, double at_least_seconds) {
  const double before = heap_bytes();
  auto scheduler = std::move(*Scheduler::create({.policy = what.policy, .max_requests = 4'000'000}));
  const std::size_t each = std::max<std::size_t>(1, what.queued / what.producers);
  std::vector<std::atomic<std::int64_t>> credits(what.producers);
  for (auto& credit : credits) credit = static_cast<std::int64_t>(each);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> finished{0};

  std::vector<std::thread> producers;
  for (std::size_t p = 0; p < what.producers; ++p) {
    producers.emplace_back([&, p] {
      Workload workload(what, p + 1, p, what.producers);
      while (!stop.load(std::memory_order_relaxed)) {
        std::int64_t left = wait_for(credits[p]);
        if (left <= 0) continue;
        credits[p].fetch_sub(left, std::memory_order_relaxed);
        const TimePoint now = std::chrono::system_clock::now();
        for (; left > 0; --left) (void)scheduler->add(workload.next(now));
      }
      if (++finished == what.producers) scheduler->stop(Scheduler::Stop::kDrain);
    });
  }

  while (scheduler->state().waiting < each * what.producers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  SchedRow row{.what = what, .bytes_per_request = (heap_bytes() - before) / static_cast<double>(what.queued)};
  std::vector<Scheduler::Dispatched> batches(64);
  std::vector<std::int64_t> done(what.producers);
  std::uint64_t dispatched = 0;
  Slices slices(at_least_seconds);
  const auto opened = SteadyClock::now();
  const auto give_back = [&](std::int64_t at_least) {
    for (std::size_t p = 0; p < what.producers; ++p) {
      if (done[p] < at_least) continue;
      credits[p].fetch_add(std::exchange(done[p], 0), std::memory_order_release);
      credits[p].notify_one();
    }
  };
  const auto half = static_cast<std::int64_t>((each + 1) / 2);
  for (;;) {
    std::size_t count = scheduler->try_next(batches);
    if (count == 0) give_back(1);  // before this thread waits, no producer may wait
    if (count == 0) count = scheduler->next(batches);
    if (count == 0) break;
    for (const auto& batch : std::span(batches).first(count))
      for (const Request& request : batch.requests) ++done[request.id % what.producers], ++dispatched;
    scheduler->complete(std::span<const Scheduler::Dispatched>(batches).first(count));
    if (!stop && seconds_since(opened) > 0.1 && !slices.go_on(dispatched)) {
      slices.report(row);
      stop = true;
    }
    give_back(stop ? 0 : half);
  }
  for (auto& credit : credits) credit.fetch_add(1), credit.notify_all();
  for (auto& thread : producers) thread.join();
  return row;
}

// Share of one core that a scheduler with a waiting dispatcher uses while no requests arrive.
double idle_cpu_share() {
  auto scheduler = std::move(*Scheduler::create({}));
  std::thread dispatcher([&] {
    Scheduler::Dispatched batch;
    while (scheduler->next(batch)) scheduler->complete(batch);
  });
  const auto cpu = [] {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  };
  const double before = cpu();
  const auto start = SteadyClock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double share = (cpu() - before) / seconds_since(start);
  scheduler->stop(Scheduler::Stop::kDrain);
  dispatcher.join();
  return share;
}

std::vector<Case> cases(bool quick, const std::vector<std::string>& names) {
  std::vector<Case> list;
  for (const PolicyInfo& policy : policies()) {
    if (!names.empty() && std::find(names.begin(), names.end(), policy.name) == names.end()) continue;
    const std::vector<std::size_t> depths =
        quick ? std::vector<std::size_t>{1'000, 1'000'000} : std::vector<std::size_t>{1'000, 100'000, 1'000'000};
    const std::vector<std::size_t> files =
        quick ? std::vector<std::size_t>{1024} : std::vector<std::size_t>{1, 64, 1024};
    const std::vector<std::size_t> applications =
        quick ? std::vector<std::size_t>{1000} : std::vector<std::size_t>{8, 1000};
    for (const std::size_t f : files)
      for (const std::size_t a : applications)
        for (const std::size_t q : depths) list.push_back({policy.name, false, 1, f, a, q});
    for (const std::size_t p : quick ? std::vector<std::size_t>{1} : std::vector<std::size_t>{1, 2, 8}) {
      for (const std::size_t f : files)
        for (const std::size_t a : applications) list.push_back({policy.name, true, p, f, a, 256});
      if (!quick) list.push_back({policy.name, true, p, 1024, 1000, 100'000});
    }
    list.push_back({policy.name, true, 1, 1024, 1000, 1'000'000});
  }
  return list;
}

std::string millions(double value) {
  return fmt::format("{:.2f}", value / 1e6);
}

Json as_json(const std::vector<SchedRow>& rows, double idle) {
  auto list = Json::array();
  for (const SchedRow& row : rows)
    list.push_back({{"policy", row.what.policy},
                    {"path", row.what.scheduler ? "scheduler" : "policy"},
                    {"producers", row.what.producers},
                    {"files", row.what.files},
                    {"applications", row.what.applications},
                    {"queued", row.what.queued},
                    {"requests_per_second", row.requests_per_second},
                    {"median_requests_per_second", row.median_per_second},
                    {"ns_per_request", 1e9 / row.requests_per_second},
                    {"bytes_per_request", row.bytes_per_request}});
  return {{"rows", list}, {"idle_cpu_share", idle}};
}

void print_table(const std::vector<SchedRow>& rows, double idle) {
  Table table({"policy", "path", "producers", "files", "applications", "queued", "M requests/s", "median", "ns/request",
               "bytes/request"});
  for (const SchedRow& row : rows)
    table.add({row.what.policy, row.what.scheduler ? "scheduler" : "policy", fmt::format("{}", row.what.producers),
               fmt::format("{}", row.what.files), fmt::format("{}", row.what.applications),
               fmt::format("{}", row.what.queued), millions(row.requests_per_second), millions(row.median_per_second),
               fmt::format("{:.0f}", 1e9 / row.requests_per_second),
               row.what.queued < 1000 ? "-" : fmt::format("{:.0f}", row.bytes_per_request)});
  fmt::print("{}\nidle scheduler with a waiting dispatcher: {:.2f}% of a core\n", table.text(), idle * 100);
}

struct SchedArguments : BenchArguments {
  double seconds = 0.3;
  std::vector<std::string> policies;
};

int run(const SchedArguments& flags) {
  for (const std::string& name : flags.policies)
    if (!find_policy(name)) return report(make_policy(name, {}).error());
  const bool watched = isatty(STDERR_FILENO) != 0;
  const std::vector<Case> list = cases(flags.quick, flags.policies);
  std::vector<SchedRow> rows;
  for (const Case& what : list) {
    if (watched) print_error("\r{}/{} {:<10}", rows.size() + 1, list.size(), what.policy);
    rows.push_back(what.scheduler ? measure_scheduler(what, flags.seconds) : measure_policy(what, flags.seconds));
  }
  if (watched) print_error("\r{:<30}\r", "");
  const double idle = idle_cpu_share();
  if (flags.json)
    fmt::print("{}\n", as_json(rows, idle).dump(2));
  else
    print_table(rows, idle);
  return kDone;
}

}  // namespace

Command bench_sched_command() {
  return {"sched", "Measure decisions per second of every policy, alone and through Scheduler", [](CommandLine& line) {
            auto flags = std::make_shared<SchedArguments>();
            flags->define(line, "Measure only 1024 files, 1000 applications and one producer");
            line.option("--seconds", flags->seconds, "Seconds per row").between(0.01, 60);
            line.option("--policies", flags->policies,
                        "Measure only these policies, e.g. window,concert (default: all)")
                .separated_by_commas();
            line.action([flags] { return run(*flags); });
          }};
}

}  // namespace tutti::cli

// SPDX-License-Identifier: Apache-2.0
// tutti bench gate: measures the cost of a turn. All times are compared with the round trip on a bare socket of the
// same kind. Both are measured alternately in the same run, so that other load affects both.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/json.h"
#include "base/table.h"
#include "base/temporary_directory.h"
#include "bench.h"
#include "bench_gate_processes.h"

namespace tutti::cli {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::size_t kFrame = 90;  // size of a request for one range of targets

struct GateArguments : BenchArguments {
  std::uint32_t connections = 10'000;
};

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct GateRow {
  std::string socket;
  double round_trip = 0, acquire = 0, handover = 0;  // microseconds, medians
  double acquire_ratio = 0;                          // to the round trip; medians of the ratios of each round
  double busy_ratio = 0;                             // turns back to back to round trips back to back
  double handover_ratio = 0;
};

void round_trip(const net::Socket& socket) {
  std::array<std::byte, kFrame> buffer{};
  (void)send(socket.file(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
  (void)recv(socket.file(), buffer.data(), buffer.size(), MSG_WAITALL);
}

// Median duration of `step`. A pause between steps lets the other side finish its work on the last step, as between
// phases of jobs.
template <typename Step>
double time_each(int count, Step step) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(30));
    const auto start = Steady::now();
    step();
    times.push_back(microseconds(Steady::now() - start));
  }
  return median(std::move(times));
}

template <typename Step>
double time_back_to_back(int count, Step step) {
  const auto start = Steady::now();
  for (int i = 0; i < count; ++i) step();
  return microseconds(Steady::now() - start) / count;
}

// Time from one job's release to another job's grant.
class Handover {
 public:
  Handover(BareJob first, BareJob second) : jobs_{std::move(first), std::move(second)} {
    jobs_[0].ask(1);
    jobs_[0].send_all();
    jobs_[0].hear(wire::GateState::kHolding);
  }
  double time(int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const int next = 1 - holder_;
      jobs_[next].ask(1);
      jobs_[next].renew();
      jobs_[next].send_all();
      jobs_[next].hear(wire::GateState::kQueued);
      std::this_thread::sleep_for(std::chrono::microseconds(30));
      const auto start = Steady::now();
      jobs_[holder_].release();
      jobs_[holder_].send_all();
      jobs_[next].hear(wire::GateState::kHolding);
      times.push_back(microseconds(Steady::now() - start));
      holder_ = next;
    }
    return median(std::move(times));
  }

 private:
  BareJob jobs_[2];
  int holder_ = 0;
};

Result<GateRow> measure(const std::string& directory, bool tcp, bool quick) {
  auto servers = std::make_unique<Pinned>(last_processor());  // children inherit the processor
  const GateProcess gate_process(directory, tcp);
  if (!tcp) (void)gate_process.ready.port();
  const EchoProcess echo_process(directory, tcp);
  servers.reset();
  const Pinned client_side(0);
  auto echo = net::connect_to(echo_process.address, net::steady_now() + kPatience);
  if (!echo) return Failure(echo.error());
  net::tune(echo->file());
  fcntl(echo->file(), F_SETFL, 0);  // waits
  const std::string key_file = directory + "/key";
  std::ofstream(key_file) << std::string(kKey.size(), 'k');
  chmod(key_file.c_str(), 0400);
  auto client = gate::LiveGateClient::create({.address = gate_process.address, .job = "bench", .key_file = key_file});
  if (!client) return Failure(client.error());
  if ((*client)->begin(gate::TargetList::everything(), {}) != gate::GateOutcome::kGranted)
    return fail(ErrorCode::kUnreachable, "the gate of the benchmark does not answer");
  (*client)->end();
  const net::Endpoint endpoint = *gate::parse_address(gate_process.address);
  auto first = BareJob::connect(endpoint, 1001), second = BareJob::connect(endpoint, 1002);
  if (!first) return Failure(first.error());
  if (!second) return Failure(second.error());
  Handover handover(std::move(*first), std::move(*second));
  const gate::TargetList targets = *gate::TargetList::parse("0");
  const auto trip = [&] { round_trip(*echo); };
  const auto turn = [&] {
    (*client)->begin(targets, Bytes(1));
    (*client)->end();
  };
  std::vector<double> trips, turns, handovers, turn_ratios, busy_ratios, handover_ratios;
  const int rounds = quick ? 11 : 51, each = quick ? 30 : 100;
  for (int i = 0; i < rounds; ++i) {
    trips.push_back(time_each(each, trip));
    turns.push_back(time_each(each, turn));
    handovers.push_back(handover.time(each));
    turn_ratios.push_back(turns.back() / trips.back());
    handover_ratios.push_back(handovers.back() / trips.back());
    busy_ratios.push_back(time_back_to_back(each, turn) / time_back_to_back(each, trip));
  }
  return GateRow{.socket = tcp ? "tcp" : "unix",
                 .round_trip = median(trips),
                 .acquire = median(turns),
                 .handover = median(handovers),
                 .acquire_ratio = median(turn_ratios),
                 .busy_ratio = median(busy_ratios),
                 .handover_ratio = median(handover_ratios)};
}

double own_processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Scale {
  std::size_t connections = 0;
  double grants_per_millisecond = 0;  // in the best of ten slices, which other load disturbed least
  double median_slice = 0;            // grants per millisecond in the middle one
  double processor_microseconds = 0;  // of the gate, per grant
  double load_microseconds = 0;       // of the benchmark's clients, per grant; must not be the limit
  double megabytes = 0;
};

// Thousands of jobs that always wait for a turn, each on one of 64 targets.
class Crowd {
 public:
  explicit Crowd(const std::string& address) : address_(*gate::parse_address(address)) {}

  Result<void> join(std::size_t count) {
    jobs_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto job = BareJob::connect(address_, i + 1);
      if (!job) return Failure(job.error());
      jobs_.push_back(std::move(*job));
      epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = i}};
      if (epoll_ctl(epoll_.file(), EPOLL_CTL_ADD, jobs_.back().file(), &event) != 0)
        return fail(ErrorCode::kIo, "epoll", errno);
      jobs_[i].ask(static_cast<TargetId>(i % 64));
      jobs_[i].send_all();
    }
    return {};
  }
  // The number of grants in that time. Each turn is returned and requested again at once.
  std::uint64_t run(Duration time) {
    std::uint64_t grants = 0;
    std::array<epoll_event, 512> events;
    for (const auto until = Steady::now() + time; Steady::now() < until;) {
      const int count = epoll_wait(epoll_.file(), events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < count; ++i) grants += serve(events[static_cast<std::size_t>(i)].data.u64);
    }
    return grants;
  }

 private:
  std::uint64_t serve(std::size_t i) {
    std::uint64_t grants = 0;
    jobs_[i].receive([&](wire::GateState state) { grants += state == wire::GateState::kHolding; });
    for (std::uint64_t grant = 0; grant < grants; ++grant) {
      jobs_[i].release();
      jobs_[i].ask(static_cast<TargetId>(i % 64));
    }
    if (grants > 0) jobs_[i].send_all();
    return grants;
  }

  const net::Endpoint address_;
  net::Socket epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<BareJob> jobs_;
};

Result<Scale> measure_scale(const std::string& directory, const GateArguments& options) {
  auto server_side = std::make_unique<Pinned>(last_processor());
  const GateProcess gate(directory, false);
  (void)gate.ready.port();
  server_side.reset();
  const Pinned client_side(0);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t count = std::min<std::size_t>(options.quick ? 1000 : options.connections, limit.rlim_cur - 100);
  Crowd crowd(gate.address);
  if (auto joined = crowd.join(count); !joined) return Failure(joined.error());
  crowd.run(std::chrono::milliseconds(500));
  const auto slice = std::chrono::milliseconds(options.quick ? 30 : 300);
  const double before = gate.process.processor_seconds(), own_before = own_processor_seconds();
  double grants = 0;
  std::vector<double> rates;
  for (int i = 0; i < 10; ++i) {
    const auto came = static_cast<double>(crowd.run(slice));
    rates.push_back(came / static_cast<double>(slice.count()));
    grants += came;
  }
  const double used = gate.process.processor_seconds() - before, own = own_processor_seconds() - own_before;
  const double microseconds_each = 1e6 / std::max(grants, 1.0);
  return Scale{.connections = count,
               .grants_per_millisecond = *std::max_element(rates.begin(), rates.end()),
               .median_slice = median(rates),
               .processor_microseconds = used * microseconds_each,
               .load_microseconds = own * microseconds_each,
               .megabytes = gate.process.resident_megabytes()};
}

void print(const std::vector<GateRow>& rows, const Scale& scale, bool json) {
  if (!json) {
    Table table(
        {"socket", "round trip us", "acquire+release us", "ratio", "back to back", "handover us", "round trips"});
    for (const GateRow& row : rows)
      table.add({row.socket, fmt::format("{:.1f}", row.round_trip), fmt::format("{:.1f}", row.acquire),
                 fmt::format("{:.2f}", row.acquire_ratio), fmt::format("{:.2f}", row.busy_ratio),
                 fmt::format("{:.1f}", row.handover), fmt::format("{:.2f}", row.handover_ratio)});
    fmt::print(
        "{}\n{} connected jobs: {:.0f} grants/ms in the best slice, {:.0f} in the median one; each takes {:.1f} us of "
        "the gate's processor time and {:.1f} us of "
        "the jobs'; the gate uses {:.1f} MB\n",
        table.text(), scale.connections, scale.grants_per_millisecond, scale.median_slice, scale.processor_microseconds,
        scale.load_microseconds, scale.megabytes);
    return;
  }
  auto list = Json::array();
  for (const GateRow& row : rows)
    list.push_back({{"socket", row.socket},
                    {"round_trip_us", row.round_trip},
                    {"acquire_release_us", row.acquire},
                    {"acquire_release_ratio", row.acquire_ratio},
                    {"back_to_back_ratio", row.busy_ratio},
                    {"handover_us", row.handover},
                    {"handover_round_trips", row.handover_ratio}});
  const Json document = {{"rows", list},
                         {"scale",
                          {{"connections", scale.connections},
                           {"grants_per_millisecond", scale.grants_per_millisecond},
                           {"median_grants_per_millisecond", scale.median_slice},
                           {"processor_us_per_grant", scale.processor_microseconds},
                           {"load_us_per_grant", scale.load_microseconds},
                           {"resident_megabytes", scale.megabytes}}}};
  fmt::print("{}\n", document.dump(2));
}

int run(const GateArguments& options) {
  const TemporaryDirectory directory;
  if (directory.path().empty()) return report({ErrorCode::kIo, "cannot make a temporary directory", errno});
  std::vector<GateRow> rows;
  std::optional<Error> error;
  for (const bool tcp : {false, true}) {
    auto row = measure(directory.path(), tcp, options.quick);
    if (row)
      rows.push_back(*row);
    else
      error = row.error();
  }
  const auto scale = measure_scale(directory.path(), options);
  if (!scale) error = scale.error();
  if (error) return report(*error);
  print(rows, *scale, options.json);
  return kDone;
}

}  // namespace

Command bench_gate_command() {
  return {"gate", "Measure turns at the gate: latency, handover, thousands of jobs", [](CommandLine& line) {
            auto options = std::make_shared<GateArguments>();
            options->define(line, "Measure fewer rounds, with 1000 jobs");
            line.option("--connections", options->connections, "Number of connected jobs");
            line.action([options] { return run(*options); });
          }};
}

}  // namespace tutti::cli

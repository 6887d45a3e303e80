// SPDX-License-Identifier: Apache-2.0
// tutti bench gate: what a turn costs. All times are compared with the bare round trip of the same kind of socket in
// the same run, measured in turn with them, so that a busy machine slows both.
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "base/table.h"
#include "base/temporary_directory.h"
#include "bench.h"
#include "gate/channel.h"
#include "gate/client.h"
#include "gate/server.h"

namespace tutti::cli {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::seconds;
constexpr Duration kPatience = seconds(20);
constexpr std::size_t kPayload = 34;  // of a REQ for one range of targets

struct Options : BenchArguments {
  std::uint32_t connections = 10'000;
};

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Where a process runs makes a difference of several times to a round trip: while one is measured, servers get one
// processor and the client another.
class Pinned {
 public:
  explicit Pinned(int processor) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  ~Pinned() { sched_setaffinity(0, sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

int last_processor() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) - 1;
}

// A process of our own, ended with us.
class ChildProcess {
 public:
  template <typename Body>
  explicit ChildProcess(Body body) {
    process_ = fork();
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~ChildProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;

  // Of processor time used so far.
  double processor_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", process_));
    std::string word;
    for (int i = 0; i < 13; ++i) file >> word;
    double user = 0, system = 0;
    file >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double resident_megabytes() const {
    std::ifstream file(fmt::format("/proc/{}/statm", process_));
    std::uint64_t total = 0, resident = 0;
    file >> total >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
  }

 private:
  pid_t process_ = -1;
};

// A gate in a process of its own.
struct GateProcess {
  GateProcess(const std::string& directory, bool tcp)
      : server(std::move(*gate::Server::create({.table = {.targets = 64, .lease = seconds(60)},
                                                .addresses = {tcp ? "127.0.0.1:0" : directory + "/gate.sock"}}))),
        address(tcp ? fmt::format("127.0.0.1:{}", server->port()) : directory + "/gate.sock"),
        process([this] { (void)server->run(); }) {}

  std::unique_ptr<gate::Server> server;
  std::string address;
  ChildProcess process;
};

// Sends back what it receives on its one connection, in a process of its own.
struct EchoProcess {
  EchoProcess(const std::string& directory, bool tcp)
      : listener(std::move(*gate::listen_on(*gate::Address::parse(tcp ? "127.0.0.1:0" : directory + "/echo.sock")))),
        address(tcp ? fmt::format("127.0.0.1:{}", gate::local_port(listener)) : directory + "/echo.sock"),
        process([this] { serve(); }) {}

  void serve() const {
    gate::Fd fd;
    while (!fd) {
      pollfd waiting{listener.get(), POLLIN, 0};
      poll(&waiting, 1, -1);
      fd = gate::Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    std::array<std::byte, 4096> buffer;
    while (true) {
      const ssize_t count = recv(fd.get(), buffer.data(), buffer.size(), 0);
      if (count <= 0 || send(fd.get(), buffer.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count) return;
    }
  }

  gate::Fd listener;
  std::string address;
  ChildProcess process;
};

struct Row {
  std::string socket;
  double round_trip = 0, acquire = 0, handover = 0;  // microseconds, medians
  double acquire_ratio = 0;                          // to the round trip; medians of the ratios of each round
  double busy_ratio = 0;                             // turns back to back to round trips back to back
  double handover_ratio = 0;
};

void round_trip(const gate::Fd& fd) {
  std::array<std::byte, kPayload> buffer{};
  (void)send(fd.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
  (void)recv(fd.get(), buffer.data(), buffer.size(), MSG_WAITALL);
}

// Median of the times `step` takes. Between two steps everybody comes to rest, as jobs do between phases; without the
// pause, what is counted for one step would be the other side's work on the last one.
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

// Two jobs by hand: from one's REL to the other's ACK.
class Handover {
 public:
  explicit Handover(const std::string& address)
      : jobs_{std::move(*gate::Channel::open(*gate::Address::parse(address), gate::Hello{1001, 1, "a"}, kPatience)),
              std::move(*gate::Channel::open(*gate::Address::parse(address), gate::Hello{1002, 1, "b"}, kPatience))} {
    ask(0);
    hear(0, gate::Answer::Kind::kGranted);
  }
  double time(int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const int next = 1 - holder_;
      ask(next);
      hear(next, gate::Answer::Kind::kQueued);
      std::this_thread::sleep_for(std::chrono::microseconds(30));
      const auto start = Steady::now();
      (void)jobs_[holder_].send(gate::ReleaseMessage{tickets_[holder_]});
      hear(next, gate::Answer::Kind::kGranted);
      times.push_back(microseconds(Steady::now() - start));
      holder_ = next;
    }
    return median(std::move(times));
  }

 private:
  void ask(int job) {
    (void)jobs_[job].send(gate::RequestMessage{++tickets_[job], Bytes(1), *gate::TargetList::parse("1")});
  }
  void hear(int job, gate::Answer::Kind kind) {
    while (true) {
      const auto message = jobs_[job].receive(kPatience);
      if (!message || !*message) return;
      if (const auto* answer = std::get_if<gate::AnswerMessage>(&**message); answer && answer->kind == kind) return;
    }
  }

  gate::Channel jobs_[2];
  gate::Ticket tickets_[2] = {0, 0};
  int holder_ = 0;
};

Result<Row> measure(const std::string& directory, bool tcp, bool quick) {
  auto servers = std::make_unique<Pinned>(last_processor());  // children stay where their parent was
  const GateProcess gate_process(directory, tcp);
  const EchoProcess echo_process(directory, tcp);
  servers.reset();
  const Pinned client_side(0);
  auto echo = gate::connect_to(*gate::Address::parse(echo_process.address), kPatience);
  if (!echo) return Failure(echo.error());
  auto client = gate::Client::create({.address = gate_process.address, .job = "bench"});
  if (!client) return Failure(client.error());
  if ((*client)->begin(gate::TargetList::everything(), {}) != gate::Outcome::kGranted)
    return fail(ErrorCode::kUnreachable, "the gate of the benchmark does not answer");
  (*client)->end();
  Handover handover(gate_process.address);
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
  return Row{.socket = tcp ? "tcp" : "unix",
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
  double grants_per_millisecond = 0;  // in the best of ten slices: other work on the machine can only slow one down
  double median_slice = 0;            // grants per millisecond in the middle one
  double processor_microseconds = 0;  // of the gate, per grant: what it could do if it had a processor to itself
  double load_microseconds = 0;       // of the benchmark's own side, which must not be what limits
  double megabytes = 0;
};

// Thousands of jobs that all want a turn all the time, each on one of 64 targets.
class Crowd {
 public:
  explicit Crowd(const std::string& address) : address_(*gate::Address::parse(address)) {}

  Result<void> join(std::size_t count) {
    jobs_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto fd = gate::connect_to(address_, kPatience);
      if (!fd) return Failure(fd.error());
      jobs_.push_back({std::move(*fd), 0});
      epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = i}};
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, jobs_.back().fd.get(), &event) != 0)
        return fail(ErrorCode::kIo, "epoll", errno);
      out_.clear();
      encode(gate::Hello{i + 1, 1, fmt::format("job{}", i)}, out_);
      ask(i);
    }
    return {};
  }
  // How many grants came in that time; each is given back, and asked for again, at once.
  std::uint64_t run(Duration time) {
    std::uint64_t grants = 0;
    std::array<epoll_event, 512> events;
    for (const auto until = Steady::now() + time; Steady::now() < until;) {
      const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < count; ++i) grants += serve(events[static_cast<std::size_t>(i)].data.u64);
    }
    return grants;
  }

 private:
  struct Job {
    gate::Fd fd;
    gate::Ticket ticket;
  };
  void ask(std::size_t i) {
    const auto target = static_cast<gate::TargetId>(i % 64);
    encode(gate::RequestMessage{++jobs_[i].ticket, Bytes(1), {false, {{target, target}}}}, out_);
    (void)send(jobs_[i].fd.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
  }
  // Answers are small and few: one receive takes all there are, whole.
  std::uint64_t serve(std::size_t i) {
    std::array<std::byte, 4096> buffer;
    const ssize_t count = recv(jobs_[i].fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    std::uint64_t grants = 0;
    for (std::span<const std::byte> rest(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
         !rest.empty();) {
      const auto decoded = gate::decode(rest);
      if (!decoded || !*decoded) break;
      rest = rest.subspan((*decoded)->consumed);
      const auto* answer = std::get_if<gate::AnswerMessage>(&(*decoded)->message);
      if (!answer || answer->kind != gate::Answer::Kind::kGranted) continue;
      ++grants;
      out_.clear();
      encode(gate::ReleaseMessage{jobs_[i].ticket}, out_);
      ask(i);
    }
    return grants;
  }

  gate::Address address_;
  gate::Fd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Job> jobs_;
  std::vector<std::byte> out_;
};

Result<Scale> measure_scale(const std::string& directory, const Options& options) {
  auto server_side = std::make_unique<Pinned>(last_processor());
  const GateProcess gate(directory, false);
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

void print(const std::vector<Row>& rows, const Scale& scale, bool json) {
  if (!json) {
    Table table(
        {"socket", "round trip us", "acquire+release us", "ratio", "back to back", "handover us", "round trips"});
    for (const Row& row : rows)
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
  for (const Row& row : rows)
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

int run(const Options& options) {
  const TemporaryDirectory directory;
  if (directory.path().empty()) return report({ErrorCode::kIo, "cannot make a temporary directory", errno});
  std::vector<Row> rows;
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
  return {"gate", "A turn at the gate against the bare round trip, handover, thousands of jobs", [](CommandLine& line) {
            auto options = std::make_shared<Options>();
            options->define(line, "Fewer rounds, 1000 jobs");
            line.option("--connections", options->connections, "Jobs connected at once");
            line.action([options] { return run(*options); });
          }};
}

}  // namespace tutti::cli

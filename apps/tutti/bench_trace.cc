// SPDX-License-Identifier: Apache-2.0
// tutti bench trace: measures what recording costs, as CPU time per request, and compares it with the CPU time of a
// whole request through client, socket and node. Both are medians of repetitions. Runs with and without traces side by
// side (bench net) differ by more than the cost in question.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/live_world.h"
#include "base/table.h"
#include "bench.h"
#include "bench_net_runs.h"
#include "trace/live_files.h"

namespace tutti::cli {
namespace {

constexpr double kGoal = 0.01;  // of the CPU time of a request

struct Repetitions {
  std::vector<double> values{};
  double middle() const { return median(values); }
  double least() const { return std::ranges::min(values); }
  double most() const { return std::ranges::max(values); }
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Arrival, completion, encoding and writing of requests of 4 KiB to 64 files by 4 applications. No two requests that
// follow each other have the same file, application or process.
constexpr std::size_t kInFlight = 64;
Result<double> record_once(std::uint64_t requests) {
  const TemporaryDirectory directory;
  auto files = trace::make_files({.directory = directory.path(), .name = "bench"});
  if (!files) return Failure(files.error());
  const auto workers = make_live_workers(1);
  trace::Recorder recorder(live_world(), *workers, std::move(*files), {});
  std::array<WaitingRequest, kInFlight> waiting{};
  for (std::size_t i = 0; i < kInFlight; ++i) {
    Request& request = waiting[i].request;
    request.id = request.file = i;
    request.stamp.application = static_cast<ApplicationId>(i % 4);
    request.stamp.operation = std::uint64_t{i} << 32;
    request.length = Bytes(4096);
    request.direction = Direction::kWrite;
    recorder.named(i, fmt::format("/scratch/job/out.{}", i));
  }
  const double before = cpu_seconds();
  for (std::uint64_t i = 0; i < requests + kInFlight; ++i) {
    WaitingRequest& next = waiting[i % kInFlight];
    next.arrived = TimePoint(Duration(1'000'000'000 + 3000 * i));
    if (i >= kInFlight) recorder.ended({&next.request, 1}, next.arrived, true);  // the one before it with this id
    next.request.offset += 4096;
    if (i < requests) recorder.arrived({&next, 1});
  }
  recorder.flush();
  workers->stop();
  const double used = cpu_seconds() - before;
  if (recorder.recorded() != requests)
    return fail(ErrorCode::kIo, fmt::format("{} of {} requests were recorded", recorder.recorded(), requests));
  return 1e9 * used / static_cast<double>(requests);
}

Result<Repetitions> measure_recording(const BenchArguments& arguments) {
  Repetitions nanoseconds;
  for (int i = 0; i < (arguments.quick ? 3 : 15); ++i) {
    const auto each = record_once(arguments.quick ? 100'000 : 500'000);
    if (!each) return Failure(each.error());
    nanoseconds.values.push_back(*each);
  }
  return nanoseconds;
}

Result<Repetitions> measure_requests(const BenchArguments& arguments, const std::string& direction) {
  const TemporaryDirectory directory;
  NodeOptions options;
  options.engine = "null";
  auto cluster = BenchCluster::start(directory, options, 4);
  if (!cluster) return Failure(cluster.error());
  auto side = (*cluster)->side({direction, kSmall, 4, 16}, 16 << 20);
  if (!side) return Failure(side.error());
  Repetitions nanoseconds;
  for (int i = 0; i < (arguments.quick ? 4 : 16); ++i) {
    const auto slice = (*side)->run(std::chrono::milliseconds(arguments.quick ? 40 : 200));
    if (!slice) return Failure(slice.error());
    if (i > 0) nanoseconds.values.push_back(1e3 * slice->cpu_us);  // the first is a warm-up
  }
  return nanoseconds;
}

int run(const BenchArguments& arguments) {
  const auto failed = [](const Error& error) {
    print_error("tutti: bench trace: {}\n", error.message);
    return 1;
  };
  const auto recording = measure_recording(arguments);
  if (!recording) return failed(recording.error());
  auto json = Json::array();
  Table table({"what", "CPU ns / request", "least", "most", "recording %", "goal", "holds"});
  const auto add = [&](const std::string& what, const Repetitions& each, std::optional<double> share) {
    table.add({what, fmt::format("{:.0f}", each.middle()), fmt::format("{:.0f}", each.least()),
               fmt::format("{:.0f}", each.most()), share ? fmt::format("{:.2f}", 100 * *share) : "-",
               share ? fmt::format("<= {:g}", 100 * kGoal) : "-", share ? *share <= kGoal ? "yes" : "NO" : "-"});
    json.push_back({{"what", what},
                    {"cpu_ns_per_request", each.middle()},
                    {"least", each.least()},
                    {"most", each.most()},
                    {"recording_share", share ? Json(*share) : Json(nullptr)}});
  };
  add("recording", *recording, std::nullopt);
  for (const std::string direction : {"write", "read"}) {
    const auto requests = measure_requests(arguments, direction);
    if (!requests) return failed(requests.error());
    add(fmt::format("{} of 4 KiB through nodes without storage", direction), *requests,
        recording->middle() / requests->middle());
  }
  if (arguments.json)
    fmt::print("{}\n", Json{{"rows", json}}.dump(2));
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace

Command bench_trace_command() {
  return {"trace", "Measure the CPU time of recording a request, compared with that of a whole request",
          [](CommandLine& line) {
            const auto arguments = std::make_shared<BenchArguments>();
            arguments->define(line, "Fewer and shorter repetitions");
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli

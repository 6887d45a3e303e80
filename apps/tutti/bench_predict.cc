// SPDX-License-Identifier: Apache-2.0
// tutti bench predict: measures how long predictions take to load and to look up, and their memory.
//
// Workload: 64 processes write requests of 8 KiB to shared files, each to its own part; the requests of a trace are in
// order of arrival. Look-ups in that order are what a scheduler does; look-ups in random order miss every cache.
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "base/huge_pages.h"
#include "base/json.h"
#include "base/print_error.h"
#include "base/prng.h"
#include "base/table.h"
#include "bench.h"
#include "sched/prediction/predictor.h"

namespace tutti::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::uint64_t kLength = 8192, kProcesses = 64;
constexpr double kLoadGoal = 3, kFindGoal = 200;  // seconds, nanoseconds; with 10 million requests

struct PredictArguments : BenchArguments {
  std::uint64_t requests = 10'000'000;
};

struct PredictRow {
  std::uint64_t requests = 0, files = 0;
  double load_seconds = 0;
  double in_order = 0, at_random = 0;  // nanoseconds per look-up
  double bytes_per_request = 0;
};

double lookup_seconds(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

std::size_t prediction_memory() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd + mapped_huge_bytes();
}

Trace make_trace(std::uint64_t requests, std::uint64_t files) {
  Trace trace;
  for (std::uint64_t file = 0; file < files; ++file) trace.files.push_back(unnamed_pattern(file));
  trace.requests.reserve(requests);
  const std::uint64_t part = (requests / files / kProcesses + 1) * kLength;
  for (std::uint64_t i = 0; i < requests; ++i) {
    const std::uint64_t file = i % files, process = i / files % kProcesses, step = i / files / kProcesses;
    trace.requests.push_back({.time = Duration(static_cast<std::int64_t>(i) * 10'000),
                              .file = static_cast<std::uint32_t>(file),
                              .application = 1,
                              .offset = process * part + step * kLength,
                              .length = Bytes(kLength),
                              .target = 0,
                              .direction = Direction::kWrite});
  }
  return trace;
}

// Nanoseconds per look-up: the fastest of several runs over part of the trace.
double measure_find(Predictor& predictor, const Trace& trace, bool random, bool& complete) {
  constexpr std::uint64_t kLookups = 1 << 18;
  Prng prng(7);
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    std::vector<Request> requests;
    std::vector<TimePoint> arrived;
    const std::uint64_t first = prng.below(std::max<std::uint64_t>(1, trace.requests.size() - kLookups));
    for (std::uint64_t i = 0; i < kLookups; ++i) {
      const std::size_t at = random ? prng.below(trace.requests.size()) : (first + i) % trace.requests.size();
      const TraceRequest& traced = trace.requests[at];
      requests.push_back({.id = i,
                          .file = traced.file,
                          .offset = traced.offset,
                          .length = traced.length,
                          .target = 0,
                          .direction = Direction::kWrite});
      arrived.push_back(TimePoint{traced.time});
    }
    std::uint64_t found = 0;
    const auto start = SteadyClock::now();
    for (std::uint64_t i = 0; i < kLookups; ++i) found += predictor.find(requests[i], arrived[i]) ? 1 : 0;
    best = std::min(best, lookup_seconds(start) * 1e9 / static_cast<double>(kLookups));
    complete = complete && found == kLookups;
  }
  return best;
}

Result<PredictRow> measure(std::uint64_t requests, std::uint64_t files) {
  PredictRow row{.requests = requests, .files = files};
  const Trace trace = make_trace(requests, files);
  const std::size_t before = prediction_memory();
  const auto start = SteadyClock::now();
  auto queues = PredictedQueues::combine(std::span(&trace, 1));
  Predictor predictor({.traces = queues, .learn = false, .limits = {}, .place = {}, .service = {Duration(1000), 1e9}});
  Request first{.file = 0, .offset = 0, .length = Bytes(kLength), .target = 0, .direction = Direction::kWrite};
  for (first.file = 0; first.file < files; ++first.file) {  // the first request to every file starts its time
    predictor.arrived(first, TimePoint{});
    (void)predictor.find(first, TimePoint{});
  }
  row.load_seconds = lookup_seconds(start);
  row.bytes_per_request = static_cast<double>(prediction_memory() - before) / static_cast<double>(requests);
  bool complete = queues->size() == requests;
  row.in_order = measure_find(predictor, trace, false, complete);
  row.at_random = measure_find(predictor, trace, true, complete);
  if (!complete) return fail(ErrorCode::kInvalid, "a request of the trace was not found");
  return row;
}

int run(const PredictArguments& arguments) {
  auto json = Json::array();
  Table table({"requests", "files", "load s", "goal", "in order ns", "at random ns", "goal", "bytes / request"});
  const std::uint64_t requests = arguments.quick ? 200'000 : arguments.requests;
  for (const std::uint64_t files : {1u, 16u, 1000u}) {
    const auto row = measure(requests, files);
    if (!row) {
      print_error("tutti: bench predict: {}\n", row.error().message);
      return 1;
    }
    json.push_back({{"requests", row->requests},
                    {"files", row->files},
                    {"load_seconds", row->load_seconds},
                    {"in_order_ns", row->in_order},
                    {"random_ns", row->at_random},
                    {"bytes_per_request", row->bytes_per_request}});
    table.add({std::to_string(row->requests), std::to_string(row->files), fmt::format("{:.2f}", row->load_seconds),
               fmt::format("{:.0f}", kLoadGoal), fmt::format("{:.0f}", row->in_order),
               fmt::format("{:.0f}", row->at_random), fmt::format("{:.0f}", kFindGoal),
               fmt::format("{:.0f}", row->bytes_per_request)});
  }
  if (arguments.json)
    fmt::print("{}\n", Json{{"rows", json}}.dump(2));
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace

Command bench_predict_command() {
  return {"predict", "Measure the time to load and to look up predictions", [](CommandLine& line) {
            const auto arguments = std::make_shared<PredictArguments>();
            arguments->define(line, "200,000 requests instead of 10 million");
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli

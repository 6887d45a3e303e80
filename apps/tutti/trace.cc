// SPDX-License-Identifier: Apache-2.0
// tutti trace: shows, merges, exports, imports and replays recorded requests.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "base/print_error.h"
#include "base/replace_file.h"
#include "base/table.h"
#include "base/units.h"
#include "command.h"
#include "sched/prediction/service_times.h"
#include "trace/dxt.h"
#include "trace/live_files.h"
#include "trace/merge.h"
#include "trace/statistics.h"
#include "trace_replay.h"

namespace tutti::cli {
namespace {

struct TraceArguments {
  std::vector<std::string> files;
  std::string output, format = "csv", align = "clock";
  std::string policy = "fifo", device = "ssd-2010";
  Duration gap = trace::kDefaultGap;
  std::uint32_t limit = 20;
  bool patterns = false, json = false;
};

const char* name_of(Direction direction) {
  return direction == Direction::kWrite ? "write" : "read";
}

trace::Names names_of(const TraceArguments& arguments) {
  return arguments.patterns ? trace::Names::kPatterns : trace::Names::kPaths;
}

trace::Align align_of(const TraceArguments& arguments) {
  return arguments.align == "clock" ? trace::Align::kClock : trace::Align::kFirst;
}

Result<trace::Recording> load(const TraceArguments& arguments) {
  auto read = load_recording(arguments.files, names_of(arguments), align_of(arguments));
  if (read) print_problems(*read);
  return read;
}

int show(const TraceArguments& arguments) {
  const auto recording = load(arguments);
  if (!recording) return report(recording.error());
  const auto& [files, requests] = recording->trace;
  const std::size_t count =
      arguments.limit == 0 ? requests.size() : std::min<std::size_t>(arguments.limit, requests.size());
  if (arguments.json) {
    auto rows = Json::array();
    for (const TraceRequest& request : std::span(requests).first(count))
      rows.push_back({{"seconds", seconds(request.time)},
                      {"completed_seconds", request.has_completed() ? Json(seconds(request.completed)) : nullptr},
                      {"application", request.application},
                      {"process", request.process},
                      {"target", request.target},
                      {"direction", name_of(request.direction)},
                      {"offset", request.offset},
                      {"length", request.length.count()},
                      {"file", files[request.file]}});
    fmt::print(
        "{}\n",
        Json{
            {"facts", recording->facts}, {"requests", requests.size()}, {"missing", recording->missing}, {"rows", rows}}
            .dump(2));
    return kDone;
  }
  Table table({"time s", "took ms", "application", "process", "target", "direction", "offset", "length", "file"});
  for (const TraceRequest& request : std::span(requests).first(count))
    table.add({fmt::format("{:.6f}", seconds(request.time)),
               request.has_completed() ? fmt::format("{:.3f}", seconds(request.completed - request.time) * 1e3) : "-",
               std::to_string(request.application), std::to_string(request.process), std::to_string(request.target),
               name_of(request.direction), std::to_string(request.offset), std::to_string(request.length.count()),
               files[request.file]});
  fmt::print("{}", table.text());
  if (count < requests.size()) fmt::print("and {} more (--limit 0 shows all)\n", requests.size() - count);
  return kDone;
}

Json as_json(const trace::Recording& recording, const trace::StatisticsRow& row) {
  return {{"file", recording.trace.files[row.file]},
          {"application", row.application},
          {"direction", name_of(row.direction)},
          {"requests", row.requests},
          {"bytes", row.bytes.count()},
          {"smallest", row.smallest.count()},
          {"largest", row.largest.count()},
          {"contiguous", row.contiguous},
          {"ascending", row.ascending},
          {"first_seconds", seconds(row.first)},
          {"last_seconds", seconds(row.last)},
          {"response_seconds", row.completed > 0 ? Json(seconds(row.response)) : nullptr}};
}

Json as_json(const std::optional<ServiceProfile::Figures>& service) {
  if (!service) return nullptr;
  return {{"latency_seconds", seconds(service->latency)}, {"bytes_per_second", service->bytes_per_second}};
}

void print_service(const ServiceTimes& times) {
  for (const Direction direction : {Direction::kRead, Direction::kWrite})
    if (const auto& service = times[static_cast<std::size_t>(direction)])
      fmt::print("a {} that is alone takes {} and its length at {}/s\n", name_of(direction), format(service->latency),
                 format(Bytes(static_cast<std::uint64_t>(service->bytes_per_second))));
}

int stats(const TraceArguments& arguments) {
  const auto recording = load(arguments);
  if (!recording) return report(recording.error());
  const auto rows = trace::statistics(recording->trace);
  const auto phases = trace::find_phases(recording->trace, arguments.gap);
  const ServiceTimes service = measure_service({&recording->trace, 1});
  if (arguments.json) {
    auto list = Json::array();
    for (const auto& row : rows) list.push_back(as_json(*recording, row));
    fmt::print("{}\n", Json{{"facts", recording->facts},
                            {"requests", recording->trace.requests.size()},
                            {"missing", recording->missing},
                            {"phases", phases.size()},
                            {"service", {{"read", as_json(service[0])}, {"write", as_json(service[1])}}},
                            {"rows", list}}
                           .dump(2));
    return kDone;
  }
  Table table({"file", "application", "direction", "requests", "bytes", "mean size", "contiguous", "ascending",
               "from s", "to s", "response ms"});
  const std::size_t count = arguments.limit == 0 ? rows.size() : std::min<std::size_t>(arguments.limit, rows.size());
  for (const trace::StatisticsRow& row : std::span(rows).first(count))
    table.add({recording->trace.files[row.file], std::to_string(row.application), name_of(row.direction),
               std::to_string(row.requests), format(row.bytes), format(row.bytes / row.requests),
               fmt::format("{:.0f}%", 100 * row.contiguous), fmt::format("{:.0f}%", 100 * row.ascending),
               fmt::format("{:.3f}", seconds(row.first)), fmt::format("{:.3f}", seconds(row.last)),
               row.completed > 0 ? fmt::format("{:.3f}", seconds(row.response) * 1e3) : "-"});
  fmt::print("{}", table.text());
  if (count < rows.size()) fmt::print("and {} more (--limit 0 shows all)\n", rows.size() - count);
  std::set<ApplicationId> applications;
  for (const trace::TracePhase& phase : phases) applications.insert(phase.application);
  fmt::print("\n{} requests of {} applications in {} phases", recording->trace.requests.size(), applications.size(),
             phases.size());
  fmt::print("{}\n", recording->missing > 0 ? fmt::format("; {} requests were not recorded", recording->missing) : "");
  print_service(service);
  return kDone;
}

// Writes the text to the file, or to standard output.
int write_text(const std::string& text, const std::string& path) {
  if (path.empty()) {
    fmt::print("{}", text);
    return kDone;
  }
  const auto written = replace_file(path, text);
  return written ? kDone : report(written.error());
}

int write_recording(const trace::Recording& recording, const std::string& path) {
  if (auto written = trace::write_file(recording, path); !written) return report(written.error());
  fmt::print("{}: {} requests to {} files\n", path, recording.trace.requests.size(), recording.trace.files.size());
  return kDone;
}

int export_text(const TraceArguments& arguments) {
  if (auto possible = check_output(arguments.files, arguments.output); !possible) return report(possible.error());
  const auto recording = load(arguments);
  if (!recording) return report(recording.error());
  if (arguments.format == "csv") return write_text(trace::csv(recording->trace), arguments.output);
  return write_text(
      trace::scenario(*recording,
                      {.name = "trace", .policy = arguments.policy, .device = arguments.device, .gap = arguments.gap}),
      arguments.output);
}

int import_dxt(const TraceArguments& arguments) {
  if (auto possible = check_output(arguments.files, arguments.output); !possible) return report(possible.error());
  std::vector<trace::Recording> recordings;
  for (const std::string& path : arguments.files) {
    const auto bytes = trace::read_whole_file(path);
    if (!bytes) return report(bytes.error());
    auto parsed =
        trace::parse_dxt({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path, names_of(arguments));
    if (!parsed) return report(parsed.error());
    recordings.push_back(std::move(*parsed));
  }
  const trace::Recording merged = trace::merge(std::move(recordings), align_of(arguments));
  print_problems(merged);
  return write_recording(merged, arguments.output);
}

int merge_files(const TraceArguments& arguments) {
  if (auto possible = check_output(arguments.files, arguments.output); !possible) return report(possible.error());
  const auto recording = load(arguments);
  if (!recording) return report(recording.error());
  return write_recording(*recording, arguments.output);
}

using Arguments = std::shared_ptr<TraceArguments>;

void define_files(CommandLine& line, const Arguments& arguments) {
  line.option(
          "FILE", arguments->files,
          "Trace files, or directories that hold them. Several are joined: files of one recording by their numbers, "
          "recordings by --align")
      .required();
  line.option(
          "--align", arguments->align,
          "clock: recordings keep their wall-clock times (servers of one run). first: their first requests coincide "
          "(several runs)")
      .one_of({"clock", "first"});
  line.flag("--patterns", arguments->patterns,
            "Replace numbers in file names by #, so that files of several runs count as one");
}

void define_export(CommandLine& line) {
  auto arguments = std::make_shared<TraceArguments>();
  define_files(line, arguments);
  line.option("--format", arguments->format, "csv: one line per request. scenario: a file for 'tutti sim run'")
      .one_of({"csv", "scenario"});
  line.option("--output", arguments->output, "File to write (default: standard output)");
  line.option("--policy", arguments->policy, "Policy of the scenario");
  line.option("--device", arguments->device, "Device of the scenario's servers, see docs/simulator.md");
  line.option("--gap", arguments->gap, "A pause of an application of at least this long ends a phase")
      .at_least(Duration(1));
  line.action([arguments] { return export_text(*arguments); });
}

void define_import(CommandLine& line) {
  auto arguments = std::make_shared<TraceArguments>();
  line.option("FILE", arguments->files,
              "Output of darshan-dxt-parser. If a file has POSIX rows, its MPI-IO rows are left out: they are the same "
              "bytes")
      .required();
  line.option("--output", arguments->output, "Trace file to write").required();
  line.option("--align", arguments->align, "As in 'tutti trace merge'").one_of({"clock", "first"});
  line.action([arguments] { return import_dxt(*arguments); });
}

void define_merge(CommandLine& line) {
  auto arguments = std::make_shared<TraceArguments>();
  define_files(line, arguments);
  line.option("--output", arguments->output, "Trace file to write").required();
  line.action([arguments] { return merge_files(*arguments); });
}

void define_table(CommandLine& line, int (*run)(const TraceArguments&), const std::string& what) {
  auto arguments = std::make_shared<TraceArguments>();
  define_files(line, arguments);
  line.option("--limit", arguments->limit, "Number of " + what + " to print; 0: all");
  line.option("--gap", arguments->gap, "A pause of an application of at least this long ends a phase")
      .at_least(Duration(1));
  line.json(arguments->json);
  line.action([arguments, run] { return run(*arguments); });
}

}  // namespace

void print_problems(const trace::Recording& recording) {
  for (const std::string& text : recording.problems.texts()) print_error("tutti: {}\n", text);
  const std::size_t shown = recording.problems.texts().size();
  if (recording.problems.count() > shown)
    print_error("tutti: and {} more problems\n", recording.problems.count() - shown);
}

Result<trace::Recording> load_recording(const std::vector<std::string>& files, trace::Names names, trace::Align align) {
  auto recordings = trace::read_files(files, names);
  if (!recordings) return Failure(recordings.error());
  return trace::merge(std::move(*recordings), align);
}

Command trace_command() {
  return {"trace", "Show, merge, export, import and replay the requests that nodes recorded (tutti up --trace DIR)",
          [](CommandLine& line) {
            define_table(line.subcommand("show", "List requests: time, process, range, duration"), show, "requests");
            define_table(
                line.subcommand("stats", "Requests, bytes, sizes and order per file, application and direction"), stats,
                "rows");
            define_merge(line.subcommand("merge", "Join traces of several servers or runs in one file"));
            define_export(line.subcommand("export", "Write a trace as CSV, or as a scenario for the simulator"));
            define_import(line.subcommand("import", "Convert Darshan DXT text (darshan-dxt-parser) to a trace"));
            define_trace_replay(
                line.subcommand("replay", "Run the recorded applications in the simulator under other policies"));
          }};
}

}  // namespace tutti::cli

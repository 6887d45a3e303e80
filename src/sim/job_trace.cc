// SPDX-License-Identifier: Apache-2.0
#include "sim/job_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "sim/scenario_file.h"
#include "trace/dxt.h"
#include "trace/live_files.h"
#include "trace/merge.h"
#include "trace/statistics.h"

namespace tutti::sim {
namespace {

constexpr std::string_view kSpace = " \t\r";
constexpr unsigned kMostPorts = 1 << 20;

// The words of one line of a coflow file. After a mistake it returns zeros and keeps the first message.
class CoflowLine {
 public:
  CoflowLine(std::string_view text, std::string where) : rest_(text), where_(std::move(where)) {}

  std::string_view word(std::string_view what) {
    const std::size_t begin = std::min(rest_.find_first_not_of(kSpace), rest_.size());
    const std::size_t end = std::min(rest_.find_first_of(kSpace, begin), rest_.size());
    const std::string_view found = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    if (found.empty()) mistake(fmt::format("ends where {} should be", what));
    return found;
  }

  template <typename Number>
  Number number(std::string_view text, std::string_view what, Number most) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= Number{} && value <= most)) {
      mistake(fmt::format("'{}' is not {}, a number from 0 to {}", text, what, most));
      return {};
    }
    return value;
  }
  template <typename Number>
  Number number(std::string_view what, Number most) {
    return number(word(what), what, most);
  }

  bool ended() const { return rest_.find_first_not_of(kSpace) == std::string_view::npos; }
  void mistake(const std::string& what) {
    if (error_.empty()) error_ = fmt::format("{}: {}", where_, what);
  }
  const std::string& error() const { return error_; }

 private:
  std::string_view rest_;
  std::string where_, error_;
};

Application read_coflow(CoflowLine& line, unsigned ports) {
  constexpr double kMostMegabytes = 1e8;  // of all reducers together
  Application job;
  job.name = fmt::format("coflow-{}", line.word("the coflow's id"));
  constexpr double kMostMilliseconds = 1e12;
  job.start = Duration(std::llround(1e6 * line.number("the arrival in ms", kMostMilliseconds)));
  job.ranks = line.number("the number of mappers", kMostPorts);
  if (job.ranks == 0) line.mistake("a coflow needs at least one mapper");
  for (unsigned i = 0; i < job.ranks && line.error().empty(); ++i) (void)line.number("a mapper's port", ports - 1);
  const unsigned reducers = line.number("the number of reducers", kMostPorts);
  job.server_bytes.resize(ports);
  double left = kMostMegabytes;
  for (unsigned i = 0; i < reducers && line.error().empty(); ++i) {
    const std::string_view word = line.word("a reducer as PORT:MB");
    const std::size_t colon = std::min(word.find(':'), word.size());
    const unsigned port = line.number(word.substr(0, colon), "a reducer's port", ports - 1);
    const double megabytes = line.number(word.substr(std::min(colon + 1, word.size())), "a reducer's size in MB", left);
    left -= megabytes;
    if (line.error().empty() && megabytes > 0)
      job.server_bytes[port] += Bytes(static_cast<std::uint64_t>(std::ceil(megabytes * 0x1p20 / job.ranks)));
  }
  job.size = Bytes{};
  for (const Bytes bytes : job.server_bytes) job.size += bytes;
  if (job.size == Bytes{}) line.mistake("a coflow needs at least one reducer with more than 0 MB");
  if (!line.ended()) line.mistake("has more words than its numbers of mappers and reducers say");
  return job;
}

// Traces of requests become the applications of the scenario that `tutti trace export` writes.
Result<JobTrace> jobs_of(const trace::Recording& recording, const std::string& path) {
  const auto scenario = parse_scenario(trace::scenario(recording, {}), path);
  if (!scenario) return Failure(scenario.error());
  return JobTrace{.kind = JobTrace::Kind::kRequests, .jobs = scenario->applications};
}

Result<JobTrace> jobs_of_recordings(const std::string& path) {
  auto recordings = trace::read_files({path}, trace::Names::kPaths);
  if (!recordings) return Failure(recordings.error());
  return jobs_of(trace::merge(std::move(*recordings), trace::Align::kClock), path);
}

bool looks_binary(std::string_view text) {
  return text.substr(0, 256).find('\0') != std::string_view::npos;
}

}  // namespace

Result<JobTrace> parse_coflows(std::string_view text, const std::string& source) {
  JobTrace trace;
  std::size_t number = 0, expected = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    CoflowLine line(text.substr(0, end), fmt::format("{}:{}", source, ++number));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ended()) continue;
    if (trace.servers == 0 || expected == 0) {
      trace.servers = line.number("the number of ports", kMostPorts);
      expected = line.number("the number of coflows", std::size_t{kMostPorts});
      if (!line.ended() || trace.servers == 0 || expected == 0)
        line.mistake("the first line of a coflow file is 'PORTS COFLOWS', two numbers of at least 1");
    } else {
      trace.jobs.push_back(read_coflow(line, trace.servers));
    }
    if (!line.error().empty()) return fail(ErrorCode::kInvalid, line.error());
  }
  if (trace.jobs.size() != expected || expected == 0)
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: has {} coflows, its first line says {}", source, trace.jobs.size(), expected));
  return trace;
}

Result<JobTrace> load_jobs(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return jobs_of_recordings(path);
  const auto bytes = trace::read_whole_file(path);
  if (!bytes) return Failure(bytes.error());
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (looks_binary(text)) return jobs_of_recordings(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '#') return parse_coflows(text, path);
  const auto recording = trace::parse_dxt(text, path, trace::Names::kPaths, trace::DxtRows::kWhole);
  if (!recording) return Failure(recording.error());
  return jobs_of(*recording, path);
}

}  // namespace tutti::sim

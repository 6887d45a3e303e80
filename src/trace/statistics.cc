// SPDX-License-Identifier: Apache-2.0
#include "trace/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/units.h"

namespace tutti::trace {
namespace {

const char* name_of(Direction direction) {
  return direction == Direction::kWrite ? "write" : "read";
}

// Compares requests with the last one of the same file, process, target and direction.
class Sequences {
 public:
  enum class Succession : std::uint8_t { kFirst, kContiguous, kAhead, kBack };

  Succession next(const TraceRequest& request) {
    const auto [known, is_first] =
        ends_.try_emplace({request.file, request.process, request.target, request.direction});
    const std::uint64_t end = std::exchange(known->second, request.offset + request.length.count());
    if (is_first) return Succession::kFirst;
    return request.offset == end  ? Succession::kContiguous
           : request.offset > end ? Succession::kAhead
                                  : Succession::kBack;
  }

 private:
  std::map<std::tuple<std::uint32_t, std::uint32_t, TargetId, Direction>, std::uint64_t> ends_;
};

std::string quoted(const std::string& text, char escape) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || (letter == '\\' && escape == '\\')) result += escape;
    result += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f ? '?' : letter;
  }
  return result + '"';
}

}  // namespace

std::vector<StatisticsRow> statistics(const Trace& trace) {
  std::map<std::tuple<std::uint32_t, ApplicationId, Direction>, StatisticsRow> rows;
  Sequences sequences;
  for (const TraceRequest& request : trace.requests) {
    StatisticsRow& row = rows[{request.file, request.application, request.direction}];
    if (row.requests == 0)
      row = {.file = request.file,
             .application = request.application,
             .direction = request.direction,
             .smallest = request.length,
             .first = request.time};
    ++row.requests;
    row.bytes += request.length;
    row.smallest = std::min(row.smallest, request.length);
    row.largest = std::max(row.largest, request.length);
    const Sequences::Succession step = sequences.next(request);
    row.contiguous += step == Sequences::Succession::kContiguous ? 1 : 0;
    row.ascending += step != Sequences::Succession::kBack ? 1 : 0;
    row.last = request.time;
    if (!request.has_completed()) continue;
    ++row.completed;
    row.response += request.completed - request.time;
  }
  std::vector<StatisticsRow> list;
  for (auto& [key, row] : rows) {
    row.contiguous /= static_cast<double>(row.requests);
    row.ascending /= static_cast<double>(row.requests);
    if (row.completed > 0) row.response /= static_cast<std::int64_t>(row.completed);
    list.push_back(row);
  }
  std::ranges::stable_sort(list, std::greater(), &StatisticsRow::bytes);
  return list;
}

std::string csv(const Trace& trace) {
  std::string text = "time,completed,application,process,target,direction,offset,length,file\n";
  for (const TraceRequest& request : trace.requests) {
    fmt::format_to(std::back_inserter(text), "{:.9f},", seconds(request.time));
    if (request.has_completed()) fmt::format_to(std::back_inserter(text), "{:.9f}", seconds(request.completed));
    fmt::format_to(std::back_inserter(text), ",{},{},{},{},{},{},{}\n", request.application, request.process,
                   request.target, name_of(request.direction), request.offset, request.length.count(),
                   quoted(trace.files[request.file], '"'));
  }
  return text;
}

// ---- scenarios ----

namespace {

// The part of a file that one process uses.
struct Region {
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;
};

// What the requests of one application in one direction have in common.
struct Behaviour {
  std::set<std::uint32_t> processes{}, files{};
  std::uint64_t requests = 0, ascending = 0;
  Bytes bytes{};
  std::uint64_t phases = 0;
  Duration begin{}, end{}, computing{};
  std::map<std::uint64_t, std::uint64_t> lengths{};                     // how often each occurs; the first 1000
  std::map<std::pair<std::uint32_t, std::uint32_t>, Region> regions{};  // by file and process
};

using Behaviours = std::map<std::pair<ApplicationId, Direction>, Behaviour>;

void observe(const TraceRequest& request, Sequences::Succession step, Behaviour& own) {
  own.end = std::max(own.end, request.has_completed() ? request.completed : request.time);
  own.processes.insert(request.process);
  own.files.insert(request.file);
  ++own.requests;
  own.bytes += request.length;
  own.ascending += step != Sequences::Succession::kBack ? 1 : 0;
  const std::uint64_t length = request.length.count();
  if (own.lengths.size() < 1000 || own.lengths.contains(length)) ++own.lengths[length];
  Region& region = own.regions[{request.file, request.process}];
  region.begin = std::min(region.begin, request.offset);
  region.end = std::max(region.end, request.offset + length);
}

Behaviours observe(const Trace& trace, Duration gap) {
  Behaviours all;
  Sequences sequences;
  for (const TracePhase& phase : find_phases(trace, gap)) {
    std::set<Direction> seen;
    for (const std::size_t index : phase.requests) {
      const TraceRequest& request = trace.requests[index];
      Behaviour& own = all[{request.application, request.direction}];
      if (seen.insert(request.direction).second) {
        if (own.phases++ == 0)
          own.begin = request.time;
        else
          own.computing += std::max(request.time - own.end, Duration::zero());
      }
      observe(request, sequences.next(request), own);
    }
  }
  return all;
}

// Whether the processes use the same part of a file.
bool regions_overlap(const Behaviour& behaviour) {
  std::map<std::uint32_t, std::vector<Region>> by_file;
  for (const auto& [who, region] : behaviour.regions) by_file[who.first].push_back(region);
  for (auto& [file, regions] : by_file) {
    std::ranges::sort(regions, {}, &Region::begin);
    for (std::size_t i = 1; i < regions.size(); ++i)
      if (regions[i].begin < regions[i - 1].end) return true;
  }
  return false;
}

const char* pattern_of(const Behaviour& behaviour) {
  if (4 * behaviour.ascending < 3 * behaviour.requests) return "random";
  return regions_overlap(behaviour) ? "strided" : "contiguous";
}

std::string application_text(ApplicationId application, Direction direction, const Behaviour& own) {
  const std::uint64_t ranks = own.processes.size();
  const std::uint64_t operations = std::max<std::uint64_t>(1, own.requests / (ranks * own.phases));
  const std::uint64_t size = std::max<std::uint64_t>(1, own.bytes.count() / (ranks * own.phases * operations));
  const auto usual = std::ranges::max_element(own.lengths, {}, [](const auto& entry) { return entry.second; });
  std::string text = fmt::format(
      "\n# {} requests of {} processes in {} phases to {} files, {} in total\n[[applications]]\nname = \"{}-{}\"\n",
      own.requests, ranks, own.phases, own.files.size(), format(own.bytes), application, name_of(direction));
  text += fmt::format("id = {}\ndirection = \"{}\"\npattern = \"{}\"\n", application & 0x7fffffff, name_of(direction),
                      pattern_of(own));
  text += fmt::format("start = \"{}ns\"\nranks = {}\niterations = {}\noperations = {}\nsize = {}\n", own.begin.count(),
                      ranks, own.phases, operations, size);
  if (own.phases > 1)
    text += fmt::format("compute = \"{}ns\"\n", (own.computing / static_cast<std::int64_t>(own.phases - 1)).count());
  if (own.files.size() >= ranks && ranks > 1) text += "file_per_process = true\n";
  return text + fmt::format("stripe_size = {}\n", usual->first);
}

}  // namespace

std::string scenario(const Recording& recording, const ScenarioOptions& options) {
  const Trace& trace = recording.trace;
  std::set<TargetId> targets;
  for (const TraceRequest& request : trace.requests) targets.insert(request.target);
  std::string text = fmt::format(
      "# Made from a trace by `tutti trace export`. Each application has the mean size, length and distance of its "
      "phases:\n# variations between phases, order between directions and exact offsets are not kept.\n"
      "name = {}\n[servers]\ncount = {}\npolicy = \"{}\"\ndevice = {{ preset = \"{}\" }}\n",
      quoted(options.name, '\\'), std::max<std::size_t>(1, targets.size()), options.policy, options.device);
  for (const auto& [who, behaviour] : observe(trace, options.gap))
    text += application_text(who.first, who.second, behaviour);
  return text;
}

}  // namespace tutti::trace

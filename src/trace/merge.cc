// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <unordered_map>

namespace tutti::trace {
namespace {

// Commas between values that differ; each value once.
void join_facts(Facts& all, const Facts& others) {
  for (const auto& [name, value] : others) {
    std::string& known = all[name];
    if (("," + known + ",").find("," + value + ",") != std::string::npos) continue;
    known += (known.empty() ? "" : ",") + value;
  }
}

std::string title_of(const Recording& recording, std::size_t index) {
  const auto node = recording.facts.find("node");
  return node == recording.facts.end() ? fmt::format("recording {}", index + 1) : node->second;
}

// Reports recordings that share no file with any other.
void report_unrelated(const std::vector<Recording>& recordings, Problems& problems) {
  std::unordered_map<std::string, std::size_t> users;  // of each file
  for (const Recording& recording : recordings)
    for (const std::string& file : recording.trace.files) ++users[file];
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const auto& files = recordings[i].trace.files;
    const bool shares = std::ranges::any_of(files, [&](const std::string& file) { return users[file] > 1; });
    if (!shares && !files.empty())
      problems.add(fmt::format("{} has no file in common with the others; are these traces of one program?",
                               title_of(recordings[i], i)));
  }
}

}  // namespace

Recording merge(std::vector<Recording> recordings, Align align) {
  assert(!recordings.empty());
  if (recordings.size() == 1) return std::move(recordings.front());
  Recording merged;
  merged.start = std::ranges::min(recordings, {}, &Recording::start).start;
  std::unordered_map<std::string, std::uint32_t> indexes;
  for (const Recording& recording : recordings) {
    join_facts(merged.facts, recording.facts);
    merged.problems.add(recording.problems);
    merged.missing += recording.missing;
    std::vector<std::uint32_t> files;  // index there to index here
    for (const std::string& file : recording.trace.files) {
      const auto [known, is_new] = indexes.try_emplace(file, static_cast<std::uint32_t>(merged.trace.files.size()));
      if (is_new) merged.trace.files.push_back(file);
      files.push_back(known->second);
    }
    const Duration later = align == Align::kClock ? recording.start - merged.start : Duration::zero();
    for (TraceRequest request : recording.trace.requests) {
      request.time += later;
      if (request.has_completed()) request.completed += later;
      request.file = files[request.file];
      merged.trace.requests.push_back(request);
    }
  }
  std::ranges::stable_sort(merged.trace.requests, {}, &TraceRequest::time);
  report_unrelated(recordings, merged.problems);
  return merged;
}

}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include "gate_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "trace/live_files.h"
#include "trace/merge.h"

namespace tutti::cli {

std::vector<gate::LockTable::PastEvent> past_events(const Trace& trace) {
  constexpr std::string_view kWait = "wait/", kTurn = "turn/";
  std::vector<gate::LockTable::PastEvent> events;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> kept;  // by file and user
  for (std::size_t i = trace.requests.size(); i-- > 0;) {
    const TraceRequest& request = trace.requests[i];
    const std::string& file = trace.files[request.file];
    const bool waits = file.starts_with(kWait);
    if (!request.has_completed() || (!waits && !file.starts_with(kTurn))) continue;
    if (++kept[{request.file, request.process}] > kMostPastTurns) continue;
    gate::LockTable::PastEvent event{.user = request.process, .job = file.substr(kWait.size())};
    event.time = TimePoint(waits ? request.time : request.completed);
    if (!waits) {
      event.held = std::max(request.completed - request.time, Duration::zero());
      event.announced = request.length > Bytes(1) ? request.length : Bytes();  // 1: none was announced
    }
    events.push_back(std::move(event));
  }
  std::ranges::reverse(events);
  std::ranges::stable_sort(events, {}, &gate::LockTable::PastEvent::time);
  return events;
}

Result<GateHistory> load_gate_history(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return fail(ErrorCode::kNotFound, path + ": No such file or directory. 'tutti gate --trace DIR' writes traces.");
  auto recordings = trace::read_files({path}, trace::Names::kPaths);
  if (!recordings) return Failure(recordings.error());
  GateHistory history;
  std::erase_if(*recordings, [&](const trace::Recording& recording) {
    const auto node = recording.facts.find("node");
    if (node != recording.facts.end() && node->second == "gate") return false;
    history.problems.push_back(fmt::format("{}: the trace of {} is not that of a gate; it is left out", path,
                                           node == recording.facts.end() ? "an unknown program" : node->second));
    return true;
  });
  if (recordings->empty())
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: no trace of a gate. 'tutti gate --trace DIR' writes them.", path));
  const trace::Recording merged = trace::merge(std::move(*recordings), trace::Align::kClock);
  for (const std::string& problem : merged.problems.texts()) history.problems.push_back(problem);
  history.events = past_events(merged.trace);
  history.turns = static_cast<std::size_t>(
      std::ranges::count_if(history.events, [](const auto& event) { return event.held.has_value(); }));
  return history;
}

}  // namespace tutti::cli

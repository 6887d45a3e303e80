// SPDX-License-Identifier: Apache-2.0
#include "gate/turn_trace.h"

#include <algorithm>
#include <functional>
#include <string>

namespace tutti::gate {
namespace {

constexpr Bytes kLongest{std::uint64_t{1} << 62};  // clients announce any number; a request ends at 2^63

enum class Part : std::uint8_t { kWait, kTurn };

std::string path_of(const LockTable::Turn& turn, Part part) {
  return (part == Part::kWait ? "wait/" : "turn/") + turn.ask.job;
}

Request request_of(const LockTable::Turn& turn, Part part) {
  Request request{.id = 2 * turn.sequence + (part == Part::kTurn ? 1 : 0),
                  .file = std::hash<std::string>{}(path_of(turn, part)),
                  .length = std::clamp(turn.ask.bytes, Bytes(1), kLongest),
                  .target = turn.ask.targets.first(),
                  .direction = Direction::kWrite};
  request.stamp.application = static_cast<ApplicationId>(turn.ask.id.number);
  request.stamp.operation = OperationId{turn.ask.id.user} << 32;  // the recorder takes the process from there
  return request;
}

void begin(SchedulerObserver& observer, const LockTable::Turn& turn, Part part, TimePoint now) {
  const WaitingRequest waiting{request_of(turn, part), now};
  observer.named(waiting.request.file, path_of(turn, part));
  observer.arrived({&waiting, 1});
}

void end(SchedulerObserver& observer, const LockTable::Turn& turn, Part part, TimePoint now, bool served) {
  const Request request = request_of(turn, part);
  observer.ended({&request, 1}, now, served);
}

}  // namespace

void TurnTrace::asked(const LockTable::Turn& turn, TimePoint now) {
  begin(observer_, turn, Part::kWait, now);
}

void TurnTrace::granted(const LockTable::Turn& turn, TimePoint now) {
  end(observer_, turn, Part::kWait, now, true);
  begin(observer_, turn, Part::kTurn, now);
}

void TurnTrace::ended(const LockTable::Turn& turn, TimePoint now) {
  end(observer_, turn, turn.holding ? Part::kTurn : Part::kWait, now, turn.holding);
}

}  // namespace tutti::gate

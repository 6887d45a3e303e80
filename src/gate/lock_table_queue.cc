// SPDX-License-Identifier: Apache-2.0
// The waiting turns of a lock table, and the order in which they are served.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "gate/lock_table.h"

namespace tutti::gate {

bool LockTable::ServedBefore::operator()(const Turn* a, const Turn* b) const {
  // Overdue turns are ordered by arrival only.
  const auto key = [](const Turn* t) {
    return std::tuple(!t->overdue, t->overdue ? 0.0 : t->placement.rank, t->arrived, t->sequence);
  };
  return key(a) < key(b);
}

void LockTable::TurnGroup::add(Turn& turn) {
  TurnQueue& queue = queues[turn.placement.queue];
  const double last_start = queue.turns.empty() ? 0 : queue.last_start;
  const auto at = queue.turns.insert(queue.turns.end(), &turn);  // usually the last one
  if (const auto next = std::next(at); next != queue.turns.end()) {
    turn.distance = std::exchange((*next)->distance, 0);  // both start at the same time
  } else {
    turn.distance = turn.placement.start - last_start;
    queue.last_start = turn.placement.start;
  }
  want(turn.ask.targets);
}

void LockTable::TurnGroup::want(const TargetSet& targets) {
  wanted |= targets;
  targets.for_each([&](TargetId target) { ++waiting_for[target]; });
}

void LockTable::TurnGroup::remove(Turn& turn) {
  turn.ask.targets.for_each([&](TargetId target) {
    if (--waiting_for[target] == 0) wanted.erase(target);
  });
  TurnQueue& queue = queues.at(turn.placement.queue);
  const auto next = queue.turns.erase(queue.turns.find(&turn));
  if (next == queue.turns.end())
    queue.last_start -= turn.distance;
  else
    (*next)->distance += turn.distance;
}

void LockTable::TurnGroup::delay(Turn& removed, double by) {
  TurnQueue& queue = queues.at(removed.placement.queue);
  const auto next = queue.turns.upper_bound(&removed);
  if (next == queue.turns.end()) return;
  (*next)->distance += by;
  queue.last_start += by;
}

LockTable::ServiceOrder::ServiceOrder(const TurnGroup& group) {
  fronts_.reserve(group.queues.size());
  for (const auto& [number, queue] : group.queues)
    if (!queue.turns.empty())
      fronts_.push_back({queue.turns.begin(), queue.turns.end(), (*queue.turns.begin())->distance});
}

LockTable::Turn* LockTable::ServiceOrder::next() {
  if (fronts_.empty()) return nullptr;
  const auto first = std::min_element(fronts_.begin(), fronts_.end(), [](const Front& a, const Front& b) {
    const auto key = [](const Front& front) {
      const Turn& turn = **front.at;
      return std::tuple(!turn.overdue, turn.overdue ? 0.0 : front.start, turn.arrived, turn.sequence);
    };
    return key(a) < key(b);
  });
  Turn* const turn = *first->at;
  start_ = first->start;
  if (++first->at == first->end)
    fronts_.erase(first);
  else
    first->start += (*first->at)->distance;
  return turn;
}

}  // namespace tutti::gate

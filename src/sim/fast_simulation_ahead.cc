// SPDX-License-Identifier: Apache-2.0
// With thousands of servers, the state of a server is in no cache when an event reaches it. This loads what coming
// events need, step by step, because each step needs the data of the one before.
#include "base/prefetch.h"
#include "sim/fast_simulation.h"

namespace tutti::sim {

void FastSimulation::look_ahead() {
  const auto arrives = [](const Event& event) { return event.kind() == EventKind::kMessage; };
  const auto finishes = [](const Event& event) { return event.kind() == EventKind::kFinish; };
  if (const Event* event = events_.peek(17)) {
    if (arrives(*event)) prefetch_bytes(&operations_[event->a], sizeof(SimulatedOperation));
    if (finishes(*event)) stations_[event->a].expect();
  }
  if (const Event* event = events_.peek(15)) {
    if (arrives(*event)) expect(operations_[event->a].messages[event->b]);
    if (finishes(*event)) stations_[event->a].expect_content();
  }
  if (const Event* event = events_.peek(13)) {
    if (arrives(*event)) expect_station(*event);
    if (finishes(*event)) expect_batch(event->a);
  }
  if (const Event* event = events_.peek(11)) {
    if (arrives(*event)) stations_[operations_[event->a].messages[event->b].server].expect_content();
    if (finishes(*event)) expect_answer(event->a);
  }
  for (unsigned step = 0; step < Policy::kPrefetchSteps; ++step)
    if (const Event* event = events_.peek(9 - 2 * step)) expect_policy(*event, step);
}

void FastSimulation::expect_station(const Event& event) const {
  const SimulatedOperation& operation = operations_[event.a];
  const ServerMessage& message = operation.messages[event.b];
  stations_[message.server].expect();
  prefetch_line(&operation.requests[message.first]);
  prefetch_line(&applications_[operation.application].announced[message.server]);
}

// The batch that the device finishes next.
const Request* FastSimulation::next_finished(std::uint32_t index) const {
  const auto tag = stations_[index].device().next_tag();
  if (!tag || (*tag & kFromCache) != 0) return nullptr;
  return stations_[index].batch(static_cast<std::uint32_t>(*tag)).requests.data();
}

void FastSimulation::expect_batch(std::uint32_t index) const {
  if (const Request* request = next_finished(index)) prefetch_bytes(request, sizeof(*request));
}

// What the answer of that batch will need.
void FastSimulation::expect_answer(std::uint32_t index) const {
  const Request* const request = next_finished(index);
  if (!request || (request->id & kForwarded) != 0) return;
  expect_message(request->id);
}

// It can be in two cache lines.
void FastSimulation::expect(const ServerMessage& message) {
  prefetch_line(&message);
  prefetch_line(&message.payload);
}

void FastSimulation::expect_message(RequestId id) const {
  const SimulatedOperation& operation = operations_[slot_of(id)];
  if (request_of(id) < operation.messages.size()) expect(operation.messages[request_of(id)]);
}

void FastSimulation::expect_policy(const Event& event, unsigned step) {
  if (event.kind() == EventKind::kFinish) {
    Policy& policy = stations_[event.a].policy();
    policy.prefetch(nullptr, step);
    const Request* const next = step == 3 ? policy.likely_next() : nullptr;
    if (next) expect_message(next->id);
    return;
  }
  if (event.kind() != EventKind::kMessage) return;
  const SimulatedOperation& operation = operations_[event.a];
  const ServerMessage& message = operation.messages[event.b];
  const Request request{.id = request_id(event.a, message.first),
                        .file = operation.file,
                        .offset = 0,
                        .length = Bytes{},
                        .target = message.server,
                        .direction = operation.direction,
                        .stamp = operation.stamp};
  stations_[message.server].policy().prefetch(&request, step);
}

}  // namespace tutti::sim

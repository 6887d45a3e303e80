// SPDX-License-Identifier: Apache-2.0
// The fast simulation of a scenario: applications, operations, stations, faults and the event loop. Policies, stamps,
// striping and the lock table are production code, called without messages.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "gate/lock_table.h"
#include "job/phases.h"
#include "layout/layout.h"
#include "sched/heaps.h"
#include "sim/active_faults.h"
#include "sim/applications.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/pattern.h"
#include "sim/placement.h"
#include "sim/simulation.h"
#include "sim/station.h"
#include "sim/trace_recorder.h"

namespace tutti::sim {

// One object per run. Not thread-safe.
class FastSimulation final : private Applications::Backend {
 public:
  static Result<std::unique_ptr<FastSimulation>> create(const Scenario& scenario, const RunOptions& options);

  Outcome run();

 private:
  // A contiguous range of an operation on one server.
  struct SimulatedRequest {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t message = 0;
  };

  // All requests of an operation to one server. They are sent in one message and have one answer.
  struct ServerMessage : node::Ordered {
    std::uint32_t server = 0;
    std::uint32_t first = 0;  // index of its first request
    std::uint32_t count = 0;
    std::uint32_t remaining = 0;     // requests that are not served
    std::uint32_t unanswered = 0;    // requests that have not reached the station that answers the client
    std::uint32_t undispatched = 0;  // requests that wait in the policy; counted only if `pulls_`
    std::uint64_t bytes = 0;
    Nanoseconds served = 0;  // when the last request was
    // Where the payload of a write is. It is sent with the message, or the node pulls it.
    enum class Payload : std::uint8_t { kSent, kAbsent, kPulled, kArrived };
    Payload payload = Payload::kSent;
    bool memory = false;   // has memory at the server
    bool behind = false;   // counted in Station::memory_behind
    bool counted = false;  // counts against the limits of its connection
    bool ordered = false;  // is in the order of its file
  };

  // A connection of a rank that may reach the limits of connections.
  struct RankConnection {
    struct Use {
      std::uint64_t bytes = 0;   // as in net::InFlight
      std::uint64_t credit = 0;  // as in wire::Limits
    };
    net::InFlight under_way;
    std::uint64_t used_credit = 0;
    std::uint64_t pulled = 0;                   // bytes that were asked for and have not arrived
    RunQueue<Station::WaitingMessage> waiting;  // not sent yet
    RunQueue<Use> answers_coming;               // of the messages that they answer
  };

  // An fsync of a rank at one server.
  struct RankSync : node::Ordered {
    std::uint32_t application = 0, rank = 0, server = 0;
    FileId file = 0;
  };

  struct SimulatedOperation {
    std::uint32_t application = 0;
    std::uint32_t rank = 0;
    std::uint32_t generation = 0;
    bool abandoned = false;
    bool probe = false;  // a probe write of a job
    Direction direction = Direction::kRead;
    std::uint32_t remaining = 0;  // requests that are not answered
    FileId file = 0;
    Stamp stamp{};
    Nanoseconds issued = 0;
    Nanoseconds first_server = 0;
    Nanoseconds last_server = 0;
    Nanoseconds arrival = 0;  // of the last byte received so far
    std::vector<SimulatedRequest> requests;
    std::vector<ServerMessage> messages;
  };

  struct ApplicationState {
    const Application* spec;
    Placed placed;
    // By rank: each is a process that does not know the operations of the others.
    std::vector<job::Phases> phases{};
    Duration skew{};
    bool holds = false;      // the gate's lock
    bool asking = false;     // waits at the gate
    bool connected = false;  // has a session at the gate
    // When it sent the first message that the gate has not answered, and when it gave up waiting for the answer.
    std::optional<Nanoseconds> unanswered{}, gave_up{};
    std::unique_ptr<gate::Backoff> backoff{};
    std::vector<RankConnection> connections{};  // by rank and server; empty: the limits cannot be reached
    std::vector<std::uint32_t> syncing{};       // by rank: servers that have not answered its fsync
    std::vector<Bytes> announced{};             // by server, from the last stamp that arrived there

    std::string pattern{};  // of the names of its files

    const Layout& layout(std::uint32_t rank) const { return *placed.layout(rank); }
  };

  FastSimulation(const Scenario& scenario, const RunOptions& options);
  Result<void> build_stations();
  void build_applications();

  // The loop.
  void handle(const Event& event);
  void schedule(Nanoseconds at, EventKind kind, EventQueue::Operands operands) { events_.push(at, kind, operands); }
  void collect_stuck();
  // Prefetching (fast_simulation_ahead.cc).
  void look_ahead();
  const Request* next_finished(std::uint32_t station) const;
  void expect_station(const Event& event) const;
  void expect_batch(std::uint32_t station) const;
  void expect_answer(std::uint32_t station) const;
  static void expect(const ServerMessage& message);
  void expect_message(RequestId id) const;
  void expect_policy(const Event& event, unsigned step);

  // Operations of the applications (fast_simulation_clients.cc).
  Nanoseconds now() const override { return now_; }
  void step_at(Nanoseconds when, std::uint32_t application, std::uint32_t operand) override {
    schedule(when, EventKind::kStep, {application, operand});
  }
  void phase_begins(std::uint32_t application) override;
  void phase_ends(std::uint32_t application) override;
  void issue(std::uint32_t application, std::uint32_t rank, const OperationIndex& index) override;
  void split(const ApplicationState& state, const OperationIndex& index, SimulatedOperation& operation);
  void sum_shares(const SimulatedOperation& operation);
  void group_by_server(SimulatedOperation& operation);
  void one_message_each(SimulatedOperation& operation);
  void send(std::uint32_t slot);
  bool begin_message(RankConnection& connection, std::uint32_t slot, std::uint32_t message);
  RankConnection* connection_of(const SimulatedOperation& operation, const ServerMessage& message);
  void send_message(std::uint32_t slot, std::uint32_t message);
  void answered(std::uint32_t application, std::uint32_t connection);
  void sync(std::uint32_t application, std::uint32_t rank) override;
  void sync_arrives(std::uint32_t number, std::uint32_t server);
  void synced(std::uint32_t application, std::uint32_t rank);
  void start_ready(Station& station, FileId file);
  void order_done(const SimulatedOperation& operation, ServerMessage& message);
  static std::size_t memory_of(std::uint64_t bytes) {
    return net::Budget::capacity(std::min<std::uint64_t>(bytes, wire::kMaxPayload));
  }
  static std::uint64_t credit_for(std::uint64_t bytes) {
    return net::WriteMemory::credit_for(std::min<std::uint64_t>(bytes, wire::kMaxPayload));
  }
  void release_memory(const SimulatedOperation& operation, ServerMessage& message);
  void release_message(const SimulatedOperation& operation, ServerMessage& message, Nanoseconds answer);
  void reply(std::uint32_t slot);
  void over(std::uint32_t application, std::uint32_t rank, std::optional<Bytes> moved);
  void timeout(std::uint32_t slot, std::uint32_t generation);
  void abandon(std::uint32_t slot);
  void drop_request(std::uint32_t slot);  // of an abandoned operation; the last one frees the operation
  std::uint32_t take_slot();
  void free_slot(std::uint32_t slot);
  std::size_t client_of(const ApplicationState& state, std::uint32_t rank) const {
    return state.placed.first_client + rank / state.spec->ranks_per_node;
  }

  // The gate (fast_simulation_gate.cc).
  // Messages to the gate, answers, and timers. The operand of an event is a step and a ticket.
  enum GateStep : std::uint32_t {
    kAsked,
    kReleased,
    kRenewed,
    kClosed,  // messages to the gate; kClosed: the connection
    kQueued,
    kGranted,  // answers
    kRenew,
    kWaiterRenews,
    kSlept,
    kGivesUp,
    kUnanswered,  // timers of the application
    kTick,
    kSteps  // timer of the gate
  };
  struct GateMessage {
    std::uint32_t application = 0, step = 0, ticket = 0;
  };
  static constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  Result<void> build_gate();
  void ask_for_turn(std::uint32_t application) override;
  void gate_step(std::uint32_t application, std::uint32_t operand);
  void schedule_gate(Nanoseconds at, const GateMessage& message) {
    schedule(at, EventKind::kGate, {message.application, message.step + kSteps * message.ticket});
  }
  void send_to_gate(std::uint32_t application, GateStep step, std::uint32_t ticket) {
    schedule_gate(now_ + scenario_.gate.latency.count(), {application, step, ticket});
  }
  void gate_receives(const GateMessage& message);
  void set_gate_stopped(bool stopped);
  // The ticket of the application's current phase.
  std::uint32_t ticket_of(std::uint32_t application) const { return driver_.progress(application).iteration + 1; }
  void ask(std::uint32_t application, std::uint32_t ticket);
  bool reachable(const ApplicationState& state) const;
  void waiter_renews(std::uint32_t application);
  void answer_arrives(std::uint32_t application, std::uint32_t ticket, bool granted);
  void deliver_answers();
  void release_turn(std::uint32_t application);
  void begin_probes(std::uint32_t application);
  void next_probe(std::uint32_t application);
  void probes_done(std::uint32_t application);
  void probe(std::uint32_t application, Bytes bytes, std::uint32_t target);

  // Stations (fast_simulation_servers.cc).
  void message_arrives(std::uint32_t slot, std::uint32_t message);
  bool admit(std::uint32_t slot, std::uint32_t message);
  void enqueue(std::uint32_t slot, std::uint32_t message);
  bool find_memory(std::uint32_t station, std::uint32_t ticket);
  bool lacks_payload(std::uint32_t station, std::uint32_t ticket);
  void pull_payloads(std::uint32_t station);
  void note_dispatched(std::uint32_t index, std::uint32_t ticket);
  bool pull(std::uint32_t slot, ServerMessage& message, bool holds, bool& memory_left);
  void payload_arrives(std::uint32_t slot, std::uint32_t message);
  void retry_starved(std::uint32_t station);
  void forwarded_batch_arrives(std::uint32_t route, std::uint32_t ticket);
  void finish(std::uint32_t station);
  void wake(std::uint32_t station);
  void answer_forwarded(std::uint32_t route, std::uint32_t ticket);
  void pump(std::uint32_t station);
  void handle_batch(std::uint32_t station, std::uint32_t ticket);
  void serve(std::uint32_t station, std::uint32_t ticket);
  bool serve_from_memory(std::uint32_t station, std::uint32_t ticket, Bytes& length);
  void use_write_cache(std::uint32_t station);
  void add_to_device(std::uint32_t station, const DeviceRequest& request);
  void start_on_device(std::uint32_t station, std::uint32_t ticket, Bytes length);
  void device_done(std::uint32_t station, std::uint32_t ticket);
  void forward_batch(std::uint32_t station, std::uint32_t ticket);
  void batch_served(std::uint32_t station, std::uint32_t ticket);
  // A server has served a request; then its bytes have reached the station that answers the client.
  void request_served(RequestId id, Nanoseconds at);
  void request_answered(RequestId id, std::uint32_t station);
  std::uint64_t position(const Request& request, std::uint32_t server) const;
  Nanoseconds extra_delay(std::uint32_t application, std::uint32_t server);
  void fault(std::uint32_t index, bool ends);
  void set_stopped(std::uint32_t server, bool stopped);
  // A pair of forwarding node and server, as an operand of an event.
  std::uint32_t route_between(std::uint32_t node, std::uint32_t server) const {
    return (server << 16) | (node - scenario_.servers.count);
  }
  std::uint32_t node_of(std::uint32_t route) const { return scenario_.servers.count + (route & 0xffff); }
  static std::uint32_t target_of(std::uint32_t route) { return route >> 16; }
  bool is_server(std::uint32_t station) const { return station < scenario_.servers.count; }
  std::string describe_wait(const ApplicationState& state, std::uint32_t application) const;

  // Ids of requests: of requests of operations, or of batches that a forwarding node sent.
  static RequestId request_id(std::uint32_t slot, std::uint32_t index) { return (RequestId{slot} << 32) | index; }
  static constexpr RequestId kForwarded = RequestId{1} << 63;
  static constexpr std::uint64_t kFromCache = std::uint64_t{1}
                                              << 63;  // tag of a device request; the rest is its length
  static std::uint32_t slot_of(RequestId id) { return static_cast<std::uint32_t>(id >> 32); }
  static std::uint32_t request_of(RequestId id) { return static_cast<std::uint32_t>(id); }
  // Of a request of an operation.
  ServerMessage& message_of(RequestId id) {
    SimulatedOperation& operation = operations_[slot_of(id)];
    // Both are sorted by server: with one request per message, the numbers are equal.
    const bool one_each = operation.requests.size() == operation.messages.size();
    return operation.messages[one_each ? request_of(id) : operation.requests[request_of(id)].message];
  }

  Scenario scenario_;
  RunOptions options_;
  EventQueue events_;
  NetworkModel network_;
  Prng chance_;
  Nanoseconds now_ = 0;
  std::vector<Station> stations_;  // servers, then forwarding nodes
  std::uint64_t credit_ = 0;       // of each connection, as in wire::Limits
  bool pulls_ = false;             // a message was sent without its payload
  std::vector<ApplicationState> applications_;
  std::vector<SimulatedOperation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::deque<RankSync> syncs_;  // all of the run
  ActiveFaults active_faults_;
  OperationId next_operation_ = 1;
  std::optional<gate::LockTable> gate_;
  bool gate_stopped_ = false;
  Nanoseconds gate_continued_ = 0;        // end of the last time that it was stopped
  std::vector<GateMessage> gate_unread_;  // arrived while the gate was stopped
  Nanoseconds gate_tick_ = kNever;        // time of the next kTick
  std::uint64_t spread_ = 0;              // 0: positions on the devices do not matter
  std::optional<TraceRecorder> recorder_;
  Outcome outcome_;
  Applications driver_;

  // Temporary data of split().
  std::vector<Extent> extents_;
  RequestCutter cutter_;
  std::vector<CutRequest> unsorted_;
  std::vector<ServerMessage*> starved_;  // used by find_memory() only
  std::vector<std::uint32_t> counts_;
  std::vector<TargetShare> shares_;
};

}  // namespace tutti::sim

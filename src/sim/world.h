// SPDX-License-Identifier: Apache-2.0
// The inside of a run: applications, operations, stations, faults, and the loop that moves time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "gate/lock_table.h"
#include "layout/layout.h"
#include "sched/stamper.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/pattern.h"
#include "sim/simulation.h"
#include "sim/station.h"

namespace tutti::sim {

// Not thread-safe; one per run.
class World {
 public:
  static Result<std::unique_ptr<World>> create(const Scenario& scenario, const RunOptions& options);

  Outcome run();

 private:
  // A contiguous piece of an operation on one server.
  struct Piece {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t group = 0;
  };

  // The pieces of an operation on one server travel as one message.
  struct Group {
    std::uint32_t server = 0;
    std::uint32_t first = 0;  // piece
    std::uint32_t count = 0;
    std::uint32_t remaining = 0;
  };

  struct Operation {
    std::uint32_t application = 0;
    std::uint32_t rank = 0;
    std::uint32_t generation = 0;
    bool abandoned = false;
    bool probe = false;  // of a job that looks whether the servers are busy
    Direction direction = Direction::kRead;
    std::uint32_t remaining = 0;  // pieces
    FileId file = 0;
    Stamp stamp{};
    Nanoseconds issued = 0;
    Nanoseconds first_server = 0;
    Nanoseconds last_server = 0;
    Nanoseconds arrival = 0;  // of the last byte so far
    std::vector<Piece> pieces;
    std::vector<Group> groups;
  };

  struct RankState {
    unsigned issued = 0;
    unsigned completed = 0;
  };

  struct ApplicationState {
    explicit ApplicationState(const Application& its_spec, ApplicationId id) : spec(&its_spec), stamper(id) {}
    const Application* spec;
    Stamper stamper;
    Layout layout;
    std::size_t first_client = 0;  // client node of rank 0
    Duration skew{};
    unsigned iteration = 0;
    unsigned operations = 0;  // of each rank in the current phase
    bool in_phase = false;
    bool done = false;
    bool dead = false;
    unsigned round_left = 0;  // operations of the current round that are not complete
    unsigned ranks_left = 0;  // that have operations of this phase before them
    Nanoseconds ready = 0;    // for the current phase
    bool holds = false;       // the gate's lock
    bool asking = false;      // waits at the gate
    std::unique_ptr<gate::Backoff> backoff;
    Nanoseconds phase_begin = 0;
    Nanoseconds compute_begin = 0;
    Bytes phase_bytes{};
    Bytes announced{};  // the truth about a phase without variation; 0: not worked out
    std::vector<RankState> ranks;
    std::vector<Bytes> demand;
  };

  World(const Scenario& scenario, const RunOptions& options);
  Result<void> build_stations();
  void build_applications();

  // The loop.
  void handle(const Event& event);
  void schedule(Nanoseconds at, EventKind kind, EventQueue::Operands operands) { events_.push(at, kind, operands); }
  void collect_stuck();

  // Applications (world_clients.cc).
  void begin_iteration(std::uint32_t application);
  void step(std::uint32_t application, std::uint32_t rank_plus_one);
  void begin_phase(std::uint32_t application);
  void end_phase(std::uint32_t application);
  void finish_application(std::uint32_t application);
  Bytes expected_phase(ApplicationState& state);
  void issue_round(std::uint32_t application);
  void issue(std::uint32_t application, std::uint32_t rank);
  void split(const ApplicationState& state, const Place& place, Operation& operation);
  void add_pieces(const ApplicationState& state, const Extent& extent);
  bool joins_last(const ApplicationState& state, const tutti::Piece& piece);
  void group_pieces(Operation& operation);
  void send(std::uint32_t slot);
  void reply(std::uint32_t slot);
  void advance(std::uint32_t application, std::uint32_t rank);
  void timeout(std::uint32_t slot, std::uint32_t generation);
  void abandon(std::uint32_t slot);
  void drop_piece(std::uint32_t slot);  // one less of an abandoned operation; the last frees it
  std::uint32_t take_slot();
  void free_slot(std::uint32_t slot);
  std::size_t client_of(const ApplicationState& state, std::uint32_t rank) const {
    return state.first_client + rank / state.spec->ranks_per_node;
  }

  // The gate (world_gate.cc).
  enum GateStep : std::uint32_t { kArrives, kGranted, kReleased, kSlept, kGivesUp, kTick };
  Result<void> build_gate();
  void ready(std::uint32_t application);
  void gate_step(std::uint32_t application, std::uint32_t step);
  void ask(std::uint32_t application);
  void deliver_answers();
  void release(std::uint32_t application);
  void next_probe(std::uint32_t application);
  void probe(std::uint32_t application, Bytes bytes, std::uint32_t target);
  double quiet_rate(const Application& application) const;

  // Stations (world_servers.cc).
  void message(std::uint32_t slot, std::uint32_t group);
  void forward(std::uint32_t way, std::uint32_t ticket);
  void finish(std::uint32_t station);
  void wake(std::uint32_t station);
  void come_back(std::uint32_t way, std::uint32_t ticket);
  void pump(std::uint32_t station);
  void handle_batch(std::uint32_t station, std::uint32_t ticket);
  void serve(std::uint32_t station, std::uint32_t ticket);
  bool serve_from_memory(std::uint32_t station, std::uint32_t ticket, Bytes& length);
  void start_on_device(std::uint32_t station, std::uint32_t ticket, Bytes length);
  void device_done(std::uint32_t station, std::uint32_t ticket);
  void send_on(std::uint32_t station, std::uint32_t ticket);
  void batch_served(std::uint32_t station, std::uint32_t ticket);
  // A server has served a piece; then its bytes are with the station that answers the client.
  void piece_served(RequestId id, Nanoseconds at);
  void piece_answered(RequestId id, std::uint32_t station);
  std::uint64_t position(const Request& request, std::uint32_t server) const;
  Nanoseconds extra_delay(std::uint32_t application, std::uint32_t server);
  void fault(std::uint32_t index, bool ends);
  // A way between a forwarding node and a server, as an operand of an event.
  std::uint32_t way_between(std::uint32_t node, std::uint32_t server) const {
    return (server << 16) | (node - scenario_.servers.count);
  }
  std::uint32_t node_of(std::uint32_t way) const { return scenario_.servers.count + (way & 0xffff); }
  static std::uint32_t target_of(std::uint32_t way) { return way >> 16; }
  bool is_server(std::uint32_t station) const { return station < scenario_.servers.count; }
  std::string describe_wait(const ApplicationState& state, std::uint32_t application) const;

  // Ids of requests: pieces of operations, or batches that a forwarding node sent on.
  static RequestId piece_id(std::uint32_t slot, std::uint32_t piece) { return (RequestId{slot} << 32) | piece; }
  static constexpr RequestId kForwarded = RequestId{1} << 63;

  Scenario scenario_;
  RunOptions options_;
  EventQueue events_;
  NetworkModel network_;
  Prng chance_;
  Nanoseconds now_ = 0;
  std::vector<Station> stations_;  // servers, then forwarding nodes
  std::vector<ApplicationState> applications_;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::vector<bool> active_faults_;
  OperationId next_operation_ = 1;
  std::optional<gate::LockTable> gate_;
  bool gate_dead_ = false;
  std::size_t running_ = 0;
  std::uint64_t spread_ = 0;  // 0: places on the devices do not matter
  Outcome outcome_;

  // Scratch of split().
  std::vector<Extent> extents_;
  std::vector<Piece> unsorted_;  // `group` holds the server
  std::vector<std::uint32_t> counts_;
  struct LastPiece {
    std::uint32_t number = ~std::uint32_t{0};  // in unsorted_
    std::uint64_t end = 0;                     // in the server's part of the file
  };
  std::vector<LastPiece> last_pieces_;  // by server
  std::vector<TargetShare> shares_;
};

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// The client of the gate, used by the processes of a job. Every wait is bounded. When a bound is reached, the job
// proceeds without a turn.
//
//  - The gate cannot be reached or does not answer within `answer_bound`: the job proceeds. Later phases begin at once,
//    until a connection attempt in the background gets an answer from the gate.
//  - The turn is not granted within `max_wait`: the job proceeds.
//  - The gate is restarted: a waiter reconnects within `answer_bound` and keeps its position in the queue; a holder
//    keeps its turn.
//
// A process has one phase at a time. A begin() while a phase is open joins that phase if it covers the targets, else it
// waits for the phase to end. The phase ends with the last end().
//
// This is the asynchronous client, for any world and transport. gate/live_client.h has the blocking calls.
#pragma once

#include <boost/container/small_vector.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/world.h"
#include "gate/targets.h"
#include "net/transport.h"

namespace tutti::gate {

enum class GateOutcome {
  kGranted,      // the turn is granted
  kUnreachable,  // proceeds: no connection to the gate
  kNoAnswer,     // proceeds: the gate does not answer
  kTimedOut,     // proceeds: no turn within max_wait
  kRefused,      // proceeds: the gate refused, e.g. because its queue is full
  kInvalid,      // proceeds: the request was wrong, e.g. targets that the gate does not have
};
const char* explain(GateOutcome outcome);

// Thread-safe.
//
// The client computes the end of its lease on Clock::steady(), starting when it sent the last message that the gate
// answered. So the lease ends here before it ends at the gate, even if this machine was suspended in between. The gate
// ends a turn when the connection of its last holder closes. After a lost connection, lease_left() is zero until the
// gate has confirmed the turn over a new connection.
class GateClient final : public net::Handler {
 public:
  struct Options {
    net::Endpoint endpoint{};
    net::ConnectOptions connect{};  // `job` is the job's name; the timeout is answer_bound
    std::uint64_t number = 0;       // job number; 0: this process is a job of its own
    std::uint32_t process = 0;      // process id, for status output
    Duration answer_bound = std::chrono::seconds(2);
    Duration max_wait = std::chrono::minutes(10);
    std::function<void(const std::string&)> say{};  // called once per problem: why the job proceeds
  };
  using Done = std::function<void(GateOutcome)>;

  // The world must outlive the client.
  GateClient(World& world, std::unique_ptr<net::Transport> transport, Options options);
  ~GateClient() override;  // ends an open phase

  // Calls `done` once, when the phase may begin: inside begin(), or later on a thread of the world or the transport.
  // Each begin() needs an end() after that, for every outcome.
  void begin(const TargetList& targets, Bytes bytes, Done done);
  void end();

  // Receives the answer to the open begin() on the calling thread, if the transport supports it (net::Connection).
  void attend();

  // How long the open phase certainly keeps its turn if the gate sends nothing more. Zero if there is no phase, the
  // turn was not granted, or the lease has expired.
  Duration lease_left() const;

  // Closes the child's copy of the connection. In a child made by fork(), this must be the only call.
  void abandon_after_fork() TUTTI_UNCHECKED;  // another thread of the parent may have held the mutex

  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

 private:
  enum class PhaseState {
    kNone,
    kAsking,       // no outcome yet
    kHolding,      // granted
    kWithoutTurn,  // proceeds without a turn, or the turn was lost
  };
  // One phase of the process, from the first begin() to the last end().
  struct OpenPhase {
    PhaseState state = PhaseState::kNone;
    std::size_t depth = 0;  // calls of begin() minus calls of end()
    std::uint64_t ticket = 0;
    TargetList targets{};
    Bytes bytes{};
    TimePoint deadline{};  // begin() + max_wait
    boost::container::small_vector<Done, 1> waiting{};
    GateOutcome outcome = GateOutcome::kUnreachable;
    bool asked = false;   // the gate may have received this ticket
    TimePoint arrived{};  // the gate's arrival stamp, once the request is queued
    std::uint32_t group = 0;
    TimePoint acknowledged{};                 // send time of the last message that was answered
    TimePoint lease_until{};                  // kHolding
    bool confirmed = false;                   // kHolding: its connection has not closed since the gate's confirmation
    TimePoint connect_by = TimePoint::max();  // kAsking without a connection
  };
  // A begin() that waits for the end of a phase with other targets.
  struct PendingBegin {
    TargetList targets;
    Bytes bytes;
    TimePoint deadline;
    Done done;
  };
  // A request without an answer. Tag 0: none.
  struct SentRequest {
    std::uint64_t tag = 0;
    TimePoint at{};
  };
  // Calls to make after the mutex is released.
  struct DeferredCalls {
    boost::container::small_vector<std::pair<Done, GateOutcome>, 1> done;
    std::vector<std::string> say;
    std::vector<net::ConnectionPointer> close;
    bool connect = false;
    void run(GateClient& client);
  };

  // Call these with the mutex held, up to and without connect().
  TimePoint now() const { return world_.clock().steady(); }
  Duration provable_lease() const TUTTI_REQUIRES(mutex_);
  void start(PendingBegin begin, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  bool covered(const TargetList& targets) const TUTTI_REQUIRES(mutex_);
  void send_open() TUTTI_REQUIRES(mutex_);
  void send_ask() TUTTI_REQUIRES(mutex_);
  void send_renew() TUTTI_REQUIRES(mutex_);
  void send_release() TUTTI_REQUIRES(mutex_);
  void ask_again() TUTTI_REQUIRES(mutex_);
  void handle_open_reply(const net::Incoming& message, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  template <typename Request>
  void handle_answer(const net::Incoming& message, const SentRequest& sent, DeferredCalls& deferred)
      TUTTI_REQUIRES(mutex_);
  void granted(DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void lose(const std::string& why, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void decide(PhaseState state, GateOutcome outcome, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void give_up(GateOutcome outcome, const std::string& why, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void say_once(bool& said, std::string line, DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void drop_connection(DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void close_unresponsive(DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void start_pending(DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  void work(DeferredCalls& deferred) TUTTI_REQUIRES(mutex_);
  TimePoint renew_at() const TUTTI_REQUIRES(mutex_);
  TimePoint next_wake() const TUTTI_REQUIRES(mutex_);
  void set_timer() TUTTI_REQUIRES(mutex_);
  Duration step() const TUTTI_REQUIRES(mutex_);
  Duration retry_after() const TUTTI_REQUIRES(mutex_);
  bool wants_connection() const TUTTI_REQUIRES(mutex_);
  std::optional<TimePoint> unanswered_since() const TUTTI_REQUIRES(mutex_);

  void connect();
  void connected(Result<net::ConnectionPointer> connection);
  void tick();

  World& world_;
  const Options options_;
  const std::uint64_t session_;

  mutable Mutex mutex_;  // guards what follows; never held while waiting or while calling back
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;
  net::ConnectionPointer connection_ TUTTI_GUARDED_BY(mutex_);
  net::ConnectionPointer unresponsive_
      TUTTI_GUARDED_BY(mutex_);  // of a holder; closing it would end the turn if the gate is only slow
  net::ConnectionPointer closed_early_ TUTTI_GUARDED_BY(mutex_);  // closed before connected() was called
  bool connecting_ TUTTI_GUARDED_BY(mutex_) = false;
  TimePoint next_connect_ TUTTI_GUARDED_BY(mutex_){};  // not before this
  std::uint64_t last_tag_ TUTTI_GUARDED_BY(mutex_) = 0, last_ticket_ TUTTI_GUARDED_BY(mutex_) = 0;
  SentRequest open_ TUTTI_GUARDED_BY(mutex_), ask_ TUTTI_GUARDED_BY(mutex_),
      renew_ TUTTI_GUARDED_BY(mutex_);  // ask_ stays until its phase ends, because an ask has several answers
  bool ask_answered_ TUTTI_GUARDED_BY(mutex_) = false;
  bool gate_answered_ TUTTI_GUARDED_BY(mutex_) = false;     // at least once
  bool gate_unavailable_ TUTTI_GUARDED_BY(mutex_) = false;  // phases do not wait for the gate until it answers again
  GateOutcome unavailable_outcome_ TUTTI_GUARDED_BY(mutex_) = GateOutcome::kUnreachable;
  Duration lease_ TUTTI_GUARDED_BY(mutex_) = std::chrono::seconds(10);
  OpenPhase phase_ TUTTI_GUARDED_BY(mutex_);
  std::deque<PendingBegin> pending_ TUTTI_GUARDED_BY(mutex_);
  bool said_unavailable_ = false, said_timed_out_ = false, said_refused_ = false, said_lost_ = false;
  TimePoint timer_at_ TUTTI_GUARDED_BY(mutex_) = TimePoint::max();
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<net::Transport> transport_;
};

}  // namespace tutti::gate

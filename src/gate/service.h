// SPDX-License-Identifier: Apache-2.0
// The gate as a service on a transport: the lock table with messages (wire/messages.h, "the gate").
//
// A connection opens a session, which belongs to the authenticated user. Renewals are answered at once; releases are
// not answered. An ask is answered when its turn is granted. If it is queued, it is also answered before that: at once,
// or after kQueuedAfter if turns were recently granted sooner than that, so that a short wait costs one message. A
// session ends when its peer closes the connection, unless a later connection of the same user has taken it over. If
// the connection is lost, the job may still be running and not know it: its session keeps a held turn until the lease
// ends. Errors of a peer are answered to that peer only; after kMaxRefusals errors its connection is closed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/world.h"
#include "gate/lock_table.h"
#include "gate/status.h"
#include "net/transport.h"

namespace tutti::gate {

// Thread-safe. The world must outlive the service. All connections must be closed before it is destroyed.
class GateService final : public net::Handler {
 public:
  static constexpr std::size_t kMaxRefusals = 100;  // per session
  static constexpr Duration kQueuedAfter = std::chrono::milliseconds(50);

  struct Options {
    LockTable::Options table{};       // recover_until is computed from recover_for
    Duration recover_for{};           // how long sessions of the previous gate may re-assert; 0: there are none
    Authentication authentication{};  // for the status only
    std::function<void(const std::string&)> log{};  // one line each
  };

  static Result<std::unique_ptr<GateService>> create(World& world, Options options);
  ~GateService() override;

  // Options for a listener of this service. The caller adds keys and limits on connections.
  static net::ListenOptions listen_options();

  bool recovering() const;
  // Stops answering. True: no job holds or waits, so the next gate need not recover.
  bool stop();

  void connected(const net::ConnectionPointer& connection) override;
  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

 private:
  struct ConnectedSession {
    SessionId id = 0;
    std::uint64_t number = 0;  // chosen by the client
    JobId job{};
    std::string name{};
    std::uint32_t process = 0;
    net::ConnectionPointer connection{};  // nullptr: lost
    std::uint64_t ask_tag = 0;            // of the waiting or granted ask, for later answers
    Ticket ask_ticket = 0;
    bool ask_unanswered = false;  // queued, and not answered yet
    TimePoint ask_arrived{};
    std::size_t refusals = 0;
  };
  struct SessionKey {
    std::uint32_t user = 0;
    std::uint64_t number = 0;
    friend bool operator==(const SessionKey&, const SessionKey&) = default;
  };
  struct SessionHash {
    std::size_t operator()(const SessionKey& key) const {
      return std::hash<std::uint64_t>{}(key.number ^ (std::uint64_t{key.user} << 32));
    }
  };
  // Its session is queued and has no answer yet.
  struct UnansweredAsk {
    SessionId session = 0;
    Ticket ticket = 0;
    TimePoint due{};
  };
  // The request that is being handled.
  struct HandledRequest {
    const net::ConnectionPointer& from;
    const net::Incoming& message;
    ConnectedSession* session = nullptr;
    Ticket ticket = 0;
    bool answered = false;
  };

  GateService(World& world, Options options, LockTable table, TimePoint started);

  // The wall clock at the start plus steady time since then. So arrival stamps are comparable over restarts, and a jump
  // of the wall clock does not end a lease.
  TimePoint now() const { return started_ + (world_.clock().steady() - started_steady_); }
  void log(const ConnectedSession& session, std::string_view what) const;

  // Call these with the mutex held.
  static ConnectedSession* session_of(net::Connection& connection) {
    return static_cast<ConnectedSession*>(connection.context.get());
  }
  void handle(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void open(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void ask(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void renew(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void release(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void status(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  template <typename Message>
  std::optional<Message> decode(HandledRequest& request) TUTTI_REQUIRES(mutex_);
  void forget(const ConnectedSession& session) TUTTI_REQUIRES(mutex_);
  void fail_request(HandledRequest& request, const Error& error) TUTTI_REQUIRES(mutex_);
  void deliver(HandledRequest* request) TUTTI_REQUIRES(mutex_);
  void post(const Answer& answer, HandledRequest* request) TUTTI_REQUIRES(mutex_);
  void answer_queued(ConnectedSession& session) TUTTI_REQUIRES(mutex_);
  ConnectedSession* waits_for(const UnansweredAsk& ask) TUTTI_REQUIRES(mutex_);
  void set_timer() TUTTI_REQUIRES(mutex_);
  void tick();

  World& world_;
  const Options options_;
  const TimePoint started_, started_steady_;

  mutable Mutex mutex_;  // guards what follows
  LockTable table_ TUTTI_GUARDED_BY(mutex_);
  TimePoint time_ TUTTI_GUARDED_BY(mutex_){};  // now(), of the message, timer or end of a connection that is handled
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;
  std::size_t connections_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ TUTTI_GUARDED_BY(mutex_) = 0;  // requests
  std::vector<std::unique_ptr<ConnectedSession>> sessions_
      TUTTI_GUARDED_BY(mutex_);                             // by id; also the context of their connections
  std::vector<SessionId> unused_ TUTTI_GUARDED_BY(mutex_);  // ids
  std::unordered_map<SessionKey, ConnectedSession*, SessionHash> by_client_ TUTTI_GUARDED_BY(mutex_);
  std::deque<UnansweredAsk> unanswered_ TUTTI_GUARDED_BY(mutex_);          // by `due`; some have been answered since
  Duration last_wait_ TUTTI_GUARDED_BY(mutex_){};                          // of the turn that was granted last
  std::vector<net::ConnectionPointer> to_close_ TUTTI_GUARDED_BY(mutex_);  // after the mutex is released
  struct StatusDocument {
    std::uint64_t number = 0;
    TimePoint fresh_until{};
    std::string text{};
  } document_;
  TimePoint timer_at_ TUTTI_GUARDED_BY(mutex_) = TimePoint::max();  // time that the timer is set to
  std::unique_ptr<Timer> timer_;
};

}  // namespace tutti::gate

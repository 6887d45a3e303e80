// SPDX-License-Identifier: Apache-2.0
// A connection over a stream socket of any kind. Internal to the transports.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/admission.h"
#include "net/event_loop.h"
#include "net/frame_reader.h"
#include "net/handshake.h"
#include "net/transport.h"

namespace tutti::net {

class StreamConnection;

// Bytes of requests in flight, without payloads. Each part is at most kMaxRequestMemory. Thread-safe.
struct RequestMemory {
  std::atomic<std::int64_t> regular{0};
  // Requests for which `regular` has no room, on connections that owe a payload: it is behind them in the socket. They
  // count apart, so that a client that does not send the payload does not use the memory of others.
  std::atomic<std::int64_t> before_owed{0};

  std::atomic<std::int64_t>& of(const Charge& charge) { return charge.before_owed ? before_owed : regular; }
};

// What the requests of one user hold of a listener's memory. No user holds more of a part than is free then, so that
// requests of one user that wait behind each other leave memory for the others. Thread-safe.
struct UserMemory {
  RequestMemory requests;
  // They need no credit. The second: as RequestMemory::before_owed.
  std::shared_ptr<BufferAccount> small_payloads = std::make_shared<BufferAccount>();
  std::shared_ptr<BufferAccount> small_before_owed = std::make_shared<BufferAccount>();
};

// Shared by the connections of one listener. Thread-safe.
struct ListenerState {
  ListenOptions options;
  Handler* handler = nullptr;
  std::function<void()> retry;  // makes connections retry that wait for memory
  RequestMemory request_memory;
  std::shared_ptr<BufferPool> small_before_owed;  // as in UserMemory
  std::atomic<bool> waiting_for_memory{false};    // a connection waits for request memory
  std::atomic<std::size_t> connections{0};        // authenticated

  void remember(StreamConnection* key, const std::weak_ptr<StreamConnection>& connection);
  // Connections beyond max_connections that are kept for root and the node's own user, on sockets that tell the user.
  static constexpr std::size_t kKeptForAdministrators = 64;
  static bool administers(std::optional<std::uint32_t> user);
  bool has_room(std::optional<std::uint32_t> user);  // for one more connection
  // Counts a connection of this user (nothing: not authenticated yet). False: it has too many. When less than an eighth
  // is left, no user gets more than are left for the others.
  bool add_user(std::optional<std::uint32_t> user);
  void remove_user(std::optional<std::uint32_t> user);
  // Of a user with a connection.
  std::shared_ptr<UserMemory> memory_of(std::optional<std::uint32_t> user);
  void forget(StreamConnection* key);
  bool has_unsent();  // a connection has frames that are not sent yet

  Mutex mutex;
  std::condition_variable all_closed;
  std::map<StreamConnection*, std::weak_ptr<StreamConnection>> open TUTTI_GUARDED_BY(mutex);  // authenticated or not
  struct User {
    std::size_t connections = 0;
    std::shared_ptr<UserMemory> memory = std::make_shared<UserMemory>();
  };
  std::map<std::optional<std::uint32_t>, User> users TUTTI_GUARDED_BY(mutex);  // nothing: not authenticated
};

// Two locks: `receiving_` is held by the thread that receives and calls the handler, which is the loop's thread or one
// in await_reply(). `mutex_` guards what senders and receivers share. Lock order: `receiving_`, then `mutex_`.
class StreamConnection final : public Connection,
                               public EventSource,
                               public std::enable_shared_from_this<StreamConnection> {
 public:
  // The node's side of a new socket, before the handshake. Owns the socket. `known`: the user, as the kernel reports
  // it.
  static std::shared_ptr<StreamConnection> accepted(
      std::shared_ptr<EventLoop> loop, int socket, std::shared_ptr<ListenerState> listener, std::string address,
      std::optional<wire::Identity> known) TUTTI_UNCHECKED;  // not shared yet

  struct Established {
    bool watch = false;                            // as in ConnectOptions
    std::unique_ptr<const wire::Welcome> welcome;  // the client's side only
    Peer peer;
    std::shared_ptr<BufferPool> pool;
  };
  // The client's side, after the handshake. Owns the socket.
  static std::shared_ptr<StreamConnection> connected(std::shared_ptr<EventLoop> loop, int socket, Handler& handler,
                                                     Established established) TUTTI_UNCHECKED;  // not shared yet

  ~StreamConnection() override;

  // Adds the connection to the loop.
  void start();

  void send(Outgoing message) override;
  void close(const Error& why) override;
  void await_reply(std::uint64_t tag, const std::function<bool()>& wanted) override;
  bool set_credit(std::uint64_t bytes) override {
    Lock lock(mutex_);
    return admission_.set_credit(bytes);
  }
  const Peer& peer() const override { return established_.peer; }
  const wire::Welcome& welcome() const override { return *established_.welcome; }
  bool has_unsent();
  void abandon_after_fork() override;

  void ready(std::uint32_t events) override;
  TimePoint tick(TimePoint now) override;
  void flush() override;
  void retry() override;
  void stopped() override;

 private:
  struct QueuedMessage {
    Outgoing message;
    std::size_t size = 0;  // bytes of frame and payload
    std::size_t sent = 0;
    bool by_reference = false;  // borrowed memory is sent by reference, through message.pages
    std::size_t lead = 0;       // bytes of it that are copied: those before the first page boundary
    bool has_pages() const { return by_reference || message.pages.size() > 0; }
    std::size_t pages_begin() const { return message.frame.size() + lead; }
    bool pages_are_next() const { return has_pages() && sent >= pages_begin(); }
    bool fill_pages();               // false: the message is sent without pages
    std::optional<Charge> charge{};  // of the request that this reply answers
  };
  // Why the connection does not read from its socket.
  enum class Pause {
    kNone,
    kForReplies,  // the client has reached its limits
    kForMemory,   // the node has no memory
    kResuming,    // a reply was sent; resume() is posted to the loop
    kVerifying,   // the peer's credential is checked on another thread
  };
  enum class Stage { kHandshake, kOpen, kEnding, kEnded };

  StreamConnection(std::shared_ptr<EventLoop> loop, int socket, Handler& handler);

  static constexpr std::size_t kParts = 64;  // iovecs in one sendmsg or recvmsg
  static constexpr std::uint32_t kRead = EPOLLIN | EPOLLRDHUP;

  bool sends_by_reference() const { return established_.welcome && established_.welcome->by_reference; }
  bool node_side() const { return listener_ != nullptr; }
  void receive(std::span<std::byte> scratch, bool ended) TUTTI_REQUIRES(receiving_);
  enum class Received {
    kMore,  // there may be more to receive
    kAll,   // everything that has arrived was received
    kStop,  // stop receiving: nothing has arrived, the connection is paused, or it is closed
  };
  Received receive_bytes(std::span<std::byte> scratch) TUTTI_REQUIRES(receiving_);
  Received receive_pages(PagePipe& pages, bool ended) TUTTI_REQUIRES(receiving_);
  bool process(std::span<const std::byte> bytes) TUTTI_REQUIRES(receiving_);
  bool admit() TUTTI_REQUIRES(receiving_);
  void expect_rest(std::size_t bytes) TUTTI_REQUIRES(receiving_);
  bool exceeds_credit(const wire::Header& header) TUTTI_REQUIRES(receiving_);
  bool find_memory(const wire::Header& header, Buffer& buffer, ReplyMemory& into) TUTTI_REQUIRES(receiving_);
  Result<void> check_kind(const wire::Header& header, bool request) const;
  bool admit_request(const wire::Header& header) TUTTI_REQUIRES(receiving_);
  bool find_small_memory(std::size_t size, Buffer& buffer) TUTTI_REQUIRES(receiving_);
  bool find_request_memory(Charge& charge) TUTTI_REQUIRES(receiving_);
  enum class Waits : std::uint8_t { kAlways, kUnlessItOwes };  // a payload that was asked for
  bool wait_for_memory(const MemoryWait& wait, Waits waits) TUTTI_REQUIRES(receiving_);
  void deliver() TUTTI_REQUIRES(receiving_);
  void deliver_on_loop(Incoming message) TUTTI_REQUIRES(mutex_);
  bool begin_awaiting(std::uint64_t tag);
  bool still_awaiting(std::uint64_t tag);
  ssize_t receive_awaited(std::span<std::byte> scratch);
  void refuse(const Error& why) TUTTI_REQUIRES(receiving_);
  void continue_handshake(Incoming message) TUTTI_REQUIRES(receiving_);
  void verify(Incoming message) TUTTI_REQUIRES(receiving_);
  void take_step(NodeHandshake::Step step) TUTTI_REQUIRES(receiving_);
  void close_for_violation(const Error& why);
  bool is_paused();
  void pause(std::span<const std::byte> rest) TUTTI_REQUIRES(receiving_);
  void resume();

  void enqueue(Outgoing&& message) TUTTI_REQUIRES(mutex_);
  void drain(Lock& lock) TUTTI_REQUIRES(mutex_);
  std::size_t collect_parts(std::span<iovec> parts, bool one) TUTTI_REQUIRES(mutex_);
  ssize_t send_next(Lock& lock, bool one) TUTTI_REQUIRES(mutex_) TUTTI_UNCHECKED;  // unlocks while it sends
  void not_accepted(int error) TUTTI_REQUIRES(mutex_);
  void drop_unsendable() TUTTI_REQUIRES(mutex_);
  void report_unsendable() TUTTI_REQUIRES(receiving_);
  bool may_be_answered(std::uint64_t tag) const TUTTI_REQUIRES(mutex_);
  void mark_sent(std::size_t count) TUTTI_REQUIRES(mutex_);
  void release(const Charge& charge) TUTTI_REQUIRES(mutex_);
  void update_interest() TUTTI_REQUIRES(mutex_);
  void begin_end(const Error& why) TUTTI_REQUIRES(mutex_);
  void end();
  void finish(const Error& why);

  const std::shared_ptr<EventLoop> loop_;
  const int socket_;
  Handler& handler_;
  std::shared_ptr<ListenerState> listener_;  // the node's side only
  Established established_;
  std::unique_ptr<NodeHandshake> handshake_;
  std::optional<std::uint32_t> user_;        // under which the listener counts this connection
  std::shared_ptr<UserMemory> user_memory_;  // from the first request on
  TimePoint opened_ = steady_now();

  Mutex receiving_;
  FrameReader reader_ TUTTI_GUARDED_BY(receiving_);
  std::vector<std::byte> pending_ TUTTI_GUARDED_BY(receiving_);  // received, but not processed because of a pause
  // The node's side: when the rest of a body or payload must have arrived.
  TimePoint rest_by_ TUTTI_GUARDED_BY(receiving_) = TimePoint::max();
  bool after_pages_ TUTTI_GUARDED_BY(receiving_) =
      false;  // the last frame had pages: do not receive the next one's pages as bytes
  bool reported_ TUTTI_GUARDED_BY(receiving_) = false;  // the handler knows this connection, so closed() must be called
  bool accounted_ TUTTI_GUARDED_BY(receiving_) = false;  // counted among the listener's authenticated connections

  Mutex mutex_;
  std::condition_variable idle_;                  // no thread is in sendmsg
  std::atomic<Stage> stage_ = Stage::kHandshake;  // changed only under the mutex
  Error why_ TUTTI_GUARDED_BY(mutex_);
  std::list<QueuedMessage> queue_ TUTTI_GUARDED_BY(mutex_);
  bool sending_ TUTTI_GUARDED_BY(mutex_) = false;      // a thread is in sendmsg; other threads only enqueue
  bool want_write_ TUTTI_GUARDED_BY(mutex_) = false;   // the socket is full
  bool flush_later_ TUTTI_GUARDED_BY(mutex_) = false;  // the loop will call flush()
  std::vector<std::uint64_t> unsendable_ TUTTI_GUARDED_BY(mutex_);  // tags for Handler::unsendable(), not reported yet
  Pause pause_ TUTTI_GUARDED_BY(mutex_) = Pause::kNone;
  std::vector<std::uint64_t> awaited_tags_ TUTTI_GUARDED_BY(mutex_);  // for which a thread is or was in await_reply()
  bool last_reply_was_fast_ = false;                                  // used by the receiving thread only
  std::thread::id receiving_thread_
      TUTTI_GUARDED_BY(mutex_);  // the thread in await_reply() that receives instead of the loop
  std::size_t loop_deliveries_ TUTTI_GUARDED_BY(mutex_) = 0;  // messages that the loop still has to deliver
  TimePoint progress_ TUTTI_GUARDED_BY(mutex_){};  // since when the socket accepts nothing; TimePoint{}: it does
  Admission admission_ TUTTI_GUARDED_BY(mutex_);   // the node's side only
  std::size_t owed_payloads_ TUTTI_GUARDED_BY(mutex_) = 0;  // asked for by wire::Pull, not arrived yet
};

}  // namespace tutti::net

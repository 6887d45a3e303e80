// SPDX-License-Identifier: Apache-2.0
// A connection over any stream socket. Internal to the transports.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "net/event_loop.h"
#include "net/frame_reader.h"
#include "net/handshake.h"
#include "net/transport.h"

namespace tutti::net {

class StreamConnection;

// What the connections of one listener share.
struct ListenerState {
  ListenOptions options;
  Handler* handler = nullptr;
  std::function<void()> retry;                  // wakes connections that wait for memory
  std::atomic<std::int64_t> request_memory{0};  // of requests under way, payloads aside
  std::atomic<bool> starved{false};             // somebody waits for request memory
  std::atomic<std::size_t> connections{0};      // authenticated

  void remember(StreamConnection* key, const std::weak_ptr<StreamConnection>& connection);
  void forget(StreamConnection* key);
  bool has_unsent();  // one of the connections has something to send

  std::mutex mutex;
  std::condition_variable all_closed;
  std::map<StreamConnection*, std::weak_ptr<StreamConnection>> open;  // authenticated or not
};

// Two locks: `receiving_` is held by whoever receives and calls the handler, the loop's thread or one in await_reply();
// `mutex_` guards what senders and receivers share. `receiving_` comes first where both are needed.
class StreamConnection final : public Connection, public Source, public std::enable_shared_from_this<StreamConnection> {
 public:
  // The node's side of a new socket, before the handshake. `known`: who the kernel says it is.
  static std::shared_ptr<StreamConnection> accepted(std::shared_ptr<EventLoop> loop, int socket,
                                                    std::shared_ptr<ListenerState> listener, std::string address,
                                                    std::optional<wire::Identity> known);

  struct Established {
    wire::Welcome welcome;
    TimePoint welcomed;  // by steady_now(), when the Welcome was there
    Peer peer;
    std::shared_ptr<BufferPool> pool;
  };
  // The client's side, after it.
  static std::shared_ptr<StreamConnection> connected(std::shared_ptr<EventLoop> loop, int socket, Handler& handler,
                                                     Established established);

  ~StreamConnection() override;

  // Hands itself over to the loop.
  void start();

  void send(Outgoing message) override;
  void close(const Error& why) override;
  void await_reply(std::uint64_t tag, const std::function<bool()>& wanted) override;
  const Peer& peer() const override { return established_.peer; }
  const wire::Welcome& welcome() const override { return established_.welcome; }
  TimePoint node_time(TimePoint here) const override;
  bool has_unsent();

  void ready(std::uint32_t events) override;
  void tick(TimePoint now) override;
  void flush() override;
  bool retry() override;
  void stopped() override;

 private:
  // What a request takes from the node until its reply is sent.
  struct Charge {
    std::uint64_t bytes = 0;  // payload that came plus payload that will go
    std::int64_t memory = 0;  // everything else
    bool counted = false;
  };
  struct Sending {
    Outgoing message;
    std::size_t size = 0;  // of frame and payload
    std::size_t sent = 0;
    bool lend = false;     // what is borrowed goes by reference, through `pages`
    std::size_t lead = 0;  // but for so much of it, up to the first boundary of pages
    bool has_pages() const { return lend || message.pages.size() > 0; }
    std::size_t pages_begin() const { return message.frame.size() + lead; }
    bool pages_are_next() const { return has_pages() && sent >= pages_begin(); }
    void fill_pages();
    Charge charge;
  };
  // Why nothing is read from the socket right now.
  enum class Parking {
    kNone,
    kForReplies,  // the client has as much under way as it may
    kForMemory,   // the node has
    kResuming,    // a reply went out; resume() is on its way
  };
  enum class Stage { kHandshake, kOpen, kEnding, kEnded };

  StreamConnection(std::shared_ptr<EventLoop> loop, int socket, Handler& handler);

  bool node_side() const { return listener_ != nullptr; }
  void receive(std::span<std::byte> scratch);
  enum class Received { kMore, kNothing, kOver };
  Received receive_bytes(std::span<std::byte> scratch);
  Received receive_pages(PagePipe& pages);
  PagePipe pages_for(const wire::Header& header) const;
  bool process(std::span<const std::byte> bytes);
  bool admit();
  bool admit_request(Charge& charge);
  bool wait_for_memory();
  void deliver();
  void hand_over(Incoming message);
  bool begin_awaiting();
  bool still_awaiting(std::uint64_t tag);
  void end_awaiting();
  void shake_hands(const Incoming& message);
  void violated(const Error& why);
  void park(std::span<const std::byte> rest);
  void resume();

  void enqueue(Outgoing message);
  void drain(std::unique_lock<std::mutex>& lock);
  std::size_t gather(std::span<iovec> parts);
  ssize_t send_next(std::unique_lock<std::mutex>& lock);
  void mark_sent(std::size_t count);
  void release(const Charge& charge);
  void update_interest();
  void end();
  void finish(const Error& why);

  const std::shared_ptr<EventLoop> loop_;
  const int socket_;
  Handler& handler_;
  std::shared_ptr<ListenerState> listener_;  // the node's side only
  Established established_;
  std::optional<NodeHandshake> handshake_;
  TimePoint opened_ = steady_now();

  std::mutex receiving_;
  FrameReader reader_;
  std::vector<std::byte> pending_;  // received, but not processed: parked
  bool after_pages_ = false;        // the last frame had pages: those of the next one are to stay whole
  bool reported_ = false;           // the handler knows of this connection
  bool accounted_ = false;          // counted among the listener's authenticated connections

  std::mutex mutex_;
  std::condition_variable idle_;  // nobody is in sendmsg any more
  Stage stage_ = Stage::kHandshake;
  Error why_;
  std::deque<Sending> queue_;
  bool sending_ = false;     // somebody is in sendmsg; the others only enqueue
  bool want_write_ = false;  // the socket is full
  Parking parking_ = Parking::kNone;
  std::unordered_set<std::uint64_t> awaited_;  // replies whose threads wait in await_reply(), or have been there
  std::thread::id awaiting_;                   // one of them, which receives instead of the loop
  std::size_t handed_over_ = 0;                // messages that the loop is to deliver
  TimePoint progress_{};                       // of sending
  std::unordered_map<std::uint64_t, Charge> charges_;  // by tag
  std::uint64_t charged_bytes_ = 0;
};

}  // namespace tutti::net

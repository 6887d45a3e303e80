// SPDX-License-Identifier: Apache-2.0
// The connection to one node: calls that were sent, calls that wait for the node's limits, and the keys of files that
// the node knows. Writes beyond the connection's credit are sent without their payload, which the node asks for when
// it dispatches them. Internal to the client.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>

#include "base/clock.h"
#include "base/mutex.h"
#include "client/call.h"
#include "net/peer_clock.h"

namespace tutti {

// Notifications of a link to its owner. Called without locks of the link.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  // The call has decoded its reply; `status` is from its head.
  virtual void answered(CallPointer call, std::int32_t status) = 0;
  // The connection was closed. Calls in `sent` may have reached the node, those in `unsent` did not.
  virtual void lost(std::size_t link, std::vector<CallPointer> sent, std::vector<CallPointer> unsent,
                    const Error& why) = 0;
  // The owner must call next_deadline() at this time or earlier.
  virtual void watch(TimePoint deadline) = 0;
};

// Thread-safe.
class NodeLink final : public net::Handler {
 public:
  struct Options {
    std::size_t index = 0;
    Duration request_timeout{};
    Duration fence_time{};  // the node's own is used if it is longer
    net::Endpoint endpoint{};
    net::ConnectOptions connect{};
  };

  NodeLink(Clock& clock, net::Transport& transport, Options options, LinkEvents& events);

  // Connects if the link is down. `done` is called once, on a thread of the transport or in this call. Only one attempt
  // at a time.
  void connect(std::function<void(Result<void>)> done);
  // When it returns, the link no longer uses memory of callers.
  void disconnect(const Error& why);
  bool up() const;
  // Of the node; nothing if the link is down.
  std::optional<wire::Instance> instance() const;

  // Sends the call as soon as the node's limits allow. False: the link is down, or the node has another boot than the
  // call needs. `now` on Clock::steady().
  bool send(CallPointer call, TimePoint now);
  // Receives the reply on this thread, if the call was sent on this link and no other thread receives here.
  void await_reply(const CallPointer& call);
  // The file was closed: tells the node, if it knows the key.
  void forget(std::uint64_t file_key);
  // The earliest time at which a call without a reply is overdue. TimePoint::max(): there is none, and
  // LinkEvents::watch() will be called for the next one.
  TimePoint next_deadline();
  bool is_up() const;
  // When the node last sent something, on Clock::steady(). TimePoint{}: the link is down.
  TimePoint heard() const;
  // Sends a request that the node answers at once. Without an answer it is overdue as a sync: not while the node
  // reports that it is at work. Does nothing if calls wait for the node's limits.
  void ping();
  // The call without a reply that was submitted first.
  struct Oldest {
    TimePoint submitted = TimePoint::max();  // max(): there is none
    TimePoint progress{};                    // the node's last report of progress plus the request timeout
  };
  Oldest oldest_call() const;
  // Removes and returns the syncs past their limit. Their replies will be ignored.
  std::vector<CallPointer> take_late_syncs(TimePoint now);

  net::ReplyMemory reply_memory(const wire::Header& header, std::span<const std::byte> body) override;
  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void unsendable(const net::ConnectionPointer& from, std::uint64_t tag) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

 private:
  bool fits(const Call& call) const TUTTI_REQUIRES(mutex_);
  bool may_send_payload(const Call& call) const TUTTI_REQUIRES(mutex_);
  void send_until_timeout(std::shared_ptr<Call> call);
  void release(const Call& call) TUTTI_REQUIRES(mutex_);
  std::optional<std::uint64_t> credit_to_accept() TUTTI_REQUIRES(mutex_);
  static void accept_credit(const net::ConnectionPointer& connection, const std::optional<std::uint64_t>& number);
  TimePoint overdue(const Call& call) const TUTTI_REQUIRES(mutex_);
  void progress(const net::ConnectionPointer& from, const net::Incoming& message);
  void pull(const net::ConnectionPointer& from, const net::Incoming& message);
  void credit(const net::ConnectionPointer& from, const net::Incoming& message);
  const CallPointer* find(std::uint64_t tag) const TUTTI_REQUIRES(mutex_);
  std::uint64_t take_slot(const CallPointer& call) TUTTI_REQUIRES(mutex_);
  CallPointer take_answered(std::uint64_t tag) TUTTI_REQUIRES(mutex_);
  void connected(Result<net::ConnectionPointer> connection, const std::function<void(Result<void>)>& done);
  void transmit(Lock& lock, const CallPointer& call, TimePoint now)
      TUTTI_REQUIRES(mutex_) TUTTI_UNCHECKED;  // unlocks while it sends
  void pump(Lock& lock, TimePoint now) TUTTI_REQUIRES(mutex_);

  Clock& clock_;
  net::Transport& transport_;
  const Options options_;
  LinkEvents& events_;

  mutable Mutex mutex_;
  net::ConnectionPointer connection_ TUTTI_GUARDED_BY(mutex_);
  net::ConnectionPointer closed_early_
      TUTTI_GUARDED_BY(mutex_);  // closed() was called before connect() reported the connection
  struct EarlyCredit {
    net::ConnectionPointer from;
    wire::Credit credit;
  };
  EarlyCredit early_credit_ TUTTI_GUARDED_BY(mutex_);  // arrived before connect() reported the connection
  wire::Limits limits_ TUTTI_GUARDED_BY(mutex_);       // from the node's Welcome
  wire::Instance instance_ TUTTI_GUARDED_BY(mutex_);
  Duration fence_time_ TUTTI_GUARDED_BY(mutex_){};
  // Calls without a reply, by slot. Lower half of a tag: index of the slot; upper half: how often the slot was used.
  struct Slot {
    std::uint64_t tag = 0;
    CallPointer call;
  };
  std::vector<Slot> sent_ TUTTI_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_slots_ TUTTI_GUARDED_BY(mutex_);
  std::size_t unanswered_ TUTTI_GUARDED_BY(mutex_) = 0;
  bool watched_ TUTTI_GUARDED_BY(mutex_) = false;             // the owner will call next_deadline() in time
  std::deque<CallPointer> waiting_ TUTTI_GUARDED_BY(mutex_);  // until the node's limits allow them
  std::uint64_t sent_bytes_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::uint64_t used_credit_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_small_ TUTTI_GUARDED_BY(mutex_) = 0;             // bytes of payloads that need no credit
  std::optional<std::uint64_t> new_credit_ TUTTI_GUARDED_BY(mutex_);  // number of the last wire::Credit, until accepted
  net::PeerClock node_clock_ TUTTI_GUARDED_BY(mutex_);                // sampled from the Welcome and from replies
  TimePoint heard_ TUTTI_GUARDED_BY(mutex_);
  // The node's last reports of progress plus the request timeout, on Clock::steady().
  TimePoint queue_deadline_ TUTTI_GUARDED_BY(mutex_);
  TimePoint sync_deadline_ TUTTI_GUARDED_BY(mutex_);
  TimePoint name_deadline_ TUTTI_GUARDED_BY(mutex_);
  TimePoint renewed_ TUTTI_GUARDED_BY(mutex_);  // the deadline of the last wire::Renew
  boost::unordered_flat_set<std::uint64_t> known_files_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

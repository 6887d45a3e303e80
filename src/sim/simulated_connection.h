// SPDX-License-Identifier: Apache-2.0
// Connections of the simulated network. Internal to it.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/admission.h"
#include "sim/simulated_network.h"

namespace tutti::sim {

// State that the connections of one listener share.
struct SimulatedListener {
  net::ListenOptions options;
  net::Handler* handler = nullptr;
  Process* process = nullptr;
  const void* transport = nullptr;
  SimulatedNetwork::NetworkPort port;
  std::int64_t request_memory = 0;
  std::deque<std::weak_ptr<SimulatedConnection>> starved;  // waiting for memory, in this order
  bool waking = false;
  std::size_t connections = 0;
};

// One end of a connection.
class SimulatedConnection final : public net::Connection, public std::enable_shared_from_this<SimulatedConnection> {
 public:
  SimulatedConnection(SimulatedNetwork& network, SimulatedNetwork::Attachment end, net::Handler& handler,
                      const void* owner)
      : network_(network), here_(end), handler_(handler), owner_(owner), number_(++network.last_number_) {}

  // A frame in transit.
  struct SimulatedFrame {
    net::Outgoing message;
    std::uint64_t size = 0;
    std::uint32_t payload = 0;            // bytes
    bool paced = false;                   // a slow receiver has started to receive it
    std::optional<net::Charge> charge{};  // of the request that it answers
    std::vector<std::byte> copy{};        // of the payload, once it is sent

    void own_memory();
  };

  void send(net::Outgoing message) override;
  void close(const Error& why) override;
  void await_reply(std::uint64_t, const std::function<bool()>&) override {}
  bool set_credit(std::uint64_t bytes) override { return admission_.set_credit(bytes); }
  const net::Peer& peer() const override { return peer_; }
  const wire::Welcome& welcome() const override { return welcome_; }

  bool node_side() const { return listener_ != nullptr; }
  // Receives the frame, or queues it.
  void arrived(SimulatedFrame& frame);
  void receive();
  void end(const Error& why);
  void end_here(const Error& why);
  void send_queued();
  void forget();
  void add_to(SimulatedNetwork::Census& census) const;
  Process& process() { return *here_.process; }

  SimulatedNetwork& network_;
  const SimulatedNetwork::Attachment here_;
  net::Handler& handler_;
  const void* const owner_;  // the transport that created it
  const std::uint64_t number_;
  std::shared_ptr<SimulatedConnection> other_;
  std::shared_ptr<SimulatedListener> listener_;  // only on the node's side
  std::shared_ptr<net::BufferPool> pool_;

 private:
  void transmit(SimulatedFrame&& frame);
  void notify_other(const std::shared_ptr<SimulatedConnection>& other, const std::string& why);
  bool room() const;
  bool still_receiving(SimulatedFrame& first);
  bool deliver(SimulatedFrame& frame);
  bool admit(const wire::Header& header, std::span<const std::byte> body, net::Buffer& memory);
  bool find_pulled_memory(const wire::Header& header, net::Buffer& memory);
  void wait_for_memory();
  void place(const SimulatedFrame& frame, std::span<const std::span<std::byte>> parts) const;
  void release(const net::Charge& charge);

  bool ended_ = false;
  bool lost_ = false;  // a frame was lost, so that no later one is received, either
  bool receiving_ = false;
  bool waking_ = false;                 // receive() is scheduled for busy_until_
  bool other_waits_ = false;            // the other end waits for room in the window
  std::uint64_t unreceived_ = 0;        // bytes that the other end sent and this end has not received
  Nanoseconds last_arrival_ = 0;        // of the frames sent
  Nanoseconds busy_until_ = 0;          // a slow receiver has received the first of incoming_ then
  std::list<SimulatedFrame> queue_;     // not sent, because the window is full
  std::list<SimulatedFrame> incoming_;  // arrived, but not received yet
  net::Admission admission_;

 public:  // rarely used
  net::Peer peer_;
  wire::Welcome welcome_;
};

// Frames in transit, in slots that are reused. Events refer to a slot, so they need no memory.
struct SimulatedNetwork::FramePool {
  struct PooledFrame {
    std::shared_ptr<SimulatedConnection> to;
    SimulatedConnection::SimulatedFrame frame;
  };
  std::deque<PooledFrame> entries;  // addresses must not change
  std::vector<PooledFrame*> free;

  void send(Nanoseconds when, const std::shared_ptr<SimulatedConnection>& to,
            SimulatedConnection::SimulatedFrame&& frame) {
    if (free.empty()) free.push_back(&entries.emplace_back());
    PooledFrame* const entry = free.back();
    free.pop_back();
    entry->to = to;
    entry->frame = std::move(frame);
    to->process().at(when, [this, entry] { arrive(*entry); });
  }

  void arrive(PooledFrame& entry) {
    entry.to->arrived(entry.frame);
    entry.to = nullptr;
    entry.frame.message.payload = {};
    entry.frame.message.borrowed.clear();
    free.push_back(&entry);
  }
};

}  // namespace tutti::sim

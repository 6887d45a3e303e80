// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace tutti::sim {
namespace {

std::uint64_t tag_of(const net::Outgoing& message) {
  std::uint64_t tag = 0;
  std::memcpy(&tag, message.frame.data() + 8, sizeof tag);
  return tag;
}

std::uint32_t payload_of(const net::Outgoing& message) {
  std::size_t size = message.payload.size();
  for (const auto& part : message.borrowed) size += part.size();
  return static_cast<std::uint32_t>(size);
}

}  // namespace

// As the kernel does: the sender may use its memory again.
void SimulatedConnection::SimulatedFrame::own_memory() {
  if (payload == 0) return;
  copy.reserve(payload);
  copy.insert(copy.end(), message.payload.span().begin(), message.payload.span().end());
  for (const auto& part : message.borrowed) copy.insert(copy.end(), part.begin(), part.end());
  message.payload = {};
  message.borrowed.assign(1, std::span<const std::byte>(copy));
}

// ---- sending ----

void SimulatedConnection::send(net::Outgoing message) {
  if (ended_) return;
  SimulatedFrame frame{.message = std::move(message)};
  frame.payload = payload_of(frame.message);
  frame.size = frame.message.frame.size() + frame.payload;
  if (node_side()) frame.charge = admission_.answered(tag_of(frame.message));
  if (queue_.empty() && room()) return transmit(std::move(frame));
  queue_.push_back(std::move(frame));
  other_->other_waits_ = true;
}

bool SimulatedConnection::room() const {
  const SimulatedNetwork::Receiver* receiver = network_.receiver(*other_->here_.process);
  return other_->unreceived_ <
         (receiver ? std::min(receiver->window, network_.options_.window) : network_.options_.window);
}

void SimulatedConnection::send_queued() {
  while (!ended_ && !queue_.empty() && room()) {
    SimulatedFrame frame = std::move(queue_.front());
    queue_.pop_front();
    transmit(std::move(frame));
  }
  if (!ended_) other_->other_waits_ = !queue_.empty();
}

void SimulatedConnection::transmit(SimulatedFrame&& frame) {
  other_->unreceived_ += frame.size;
  if (frame.charge) release(*std::exchange(frame.charge, {}));
  if (other_->ended_ || lost_) return;
  if (network_.options_.content) frame.own_memory();
  if (auto* cut = network_.find_cut(*here_.process, *other_->here_.process)) {
    if (cut->lost) lost_ = true;
    if (cut->lost) return;
    cut->held.push_back([self = shared_from_this(), other = other_,
                         held = std::make_shared<SimulatedFrame>(std::move(frame))]() mutable {
      self->last_arrival_ =
          std::max(self->last_arrival_, self->network_.arrival(self->here_, other->here_, held->size));
      self->network_.frame_pool_->send(self->last_arrival_, other, std::move(*held));
    });
    return;
  }
  if (network_.loss_ > 0 && network_.simulator_.chance().chance(network_.loss_))
    return here_.process->soon([self = shared_from_this()] {
      self->end({ErrorCode::kUnreachable, "the connection was lost", ECONNRESET});
    });
  last_arrival_ = std::max(last_arrival_, network_.arrival(here_, other_->here_, frame.size));
  network_.frame_pool_->send(last_arrival_, other_, std::move(frame));
}

void SimulatedConnection::release(const net::Charge& charge) {
  admission_.release(charge);
  listener_->request_memory -= charge.memory;
  if (!incoming_.empty()) here_.process->soon([self = shared_from_this()] { self->receive(); });
}

// ---- receiving ----

void SimulatedConnection::arrived(SimulatedFrame& frame) {
  if (ended_) return;
  if (incoming_.empty() && !receiving_ && !still_receiving(frame) && deliver(frame)) return;
  if (!ended_) incoming_.push_back(std::move(frame));
}

// Receives arrived frames while there is room for them.
void SimulatedConnection::receive() {
  while (!ended_ && !receiving_ && !incoming_.empty() && !still_receiving(incoming_.front())) {
    if (!deliver(incoming_.front())) return;
    if (!ended_) incoming_.pop_front();
  }
}

// True: a slow receiver has not received the whole frame yet and continues later.
bool SimulatedConnection::still_receiving(SimulatedFrame& first) {
  const auto* own = network_.receiver(*here_.process);
  if (own && own->bytes_per_second > 0 && !std::exchange(first.paced, true))
    busy_until_ = network_.simulator_.now() +
                  static_cast<Nanoseconds>(static_cast<double>(first.size) / own->bytes_per_second * 1e9);
  if (network_.simulator_.now() >= busy_until_) return false;
  if (!std::exchange(waking_, true))
    here_.process->at(busy_until_, [self = shared_from_this()] {
      self->waking_ = false;
      self->receive();
    });
  return true;
}

// False: there is no room for it now, or the connection has ended.
bool SimulatedConnection::deliver(SimulatedFrame& frame) {
  const auto bytes = std::span<const std::byte>(frame.message.frame);
  const auto header = wire::decode_header(bytes.first<wire::kHeaderSize>());
  assert(header && header->payload_length == frame.payload);
  const auto body = bytes.subspan(wire::kHeaderSize);
  net::Incoming incoming{.header = *header};
  if (node_side() && !admit(*header, body, incoming.payload)) return false;
  network_.simulator_.mix(header->tag * 31 + frame.size);
  if (frame.payload > 0 && !node_side()) {
    const auto into = handler_.reply_memory(*header, body);
    if (network_.options_.content) place(frame, into.memory);
  } else if (network_.options_.content && frame.payload > 0) {
    const std::span<std::byte> whole = incoming.payload.span();
    place(frame, {&whole, 1});
  }
  incoming.body = std::move(frame.message.frame);
  incoming.body.erase(incoming.body.begin(), incoming.body.begin() + wire::kHeaderSize);
  unreceived_ -= frame.size;
  if (std::exchange(other_waits_, false)) other_->here_.process->soon([other = other_] { other->send_queued(); });
  receiving_ = true;
  handler_.received(shared_from_this(), std::move(incoming));
  receiving_ = false;
  return true;
}

// False: it stays queued until there is room.
bool SimulatedConnection::admit(const wire::Header& header, std::span<const std::byte> body, net::Buffer& memory) {
  if (header.type == wire::Type::kPayload) return header.payload_length == 0 || find_pulled_memory(header, memory);
  if (wire::is_one_way(header.type)) return true;
  const net::Charge charge = net::charge_of(header, body);
  const auto verdict = admission_.check(listener_->options.limits, header.tag, charge);
  if (verdict == net::Admission::Verdict::kRepeated) {
    end({ErrorCode::kProtocol, fmt::format("request {} is already in progress", header.tag)});
    return false;
  }
  if (admission_.too_large(header.payload_length)) {
    end({ErrorCode::kProtocol, fmt::format("a payload of {} bytes exceeds the credit", header.payload_length)});
    return false;
  }
  if (verdict == net::Admission::Verdict::kOver) return false;  // release() continues
  if (listener_->request_memory + charge.memory > net::kMaxRequestMemory) return wait_for_memory(), false;
  if (header.payload_length > 0) {
    memory = pool_->try_allocate(header.payload_length);
    if (memory.empty()) return wait_for_memory(), false;
  }
  listener_->request_memory += charge.memory;
  admission_.add(header.tag, charge);
  return true;
}

bool SimulatedConnection::find_pulled_memory(const wire::Header& header, net::Buffer& memory) {
  auto found = handler_.payload_memory(shared_from_this(), header);
  if (!found) {
    end(found.error());
    return false;
  }
  memory = std::move(*found);
  if (memory.empty()) wait_for_memory();
  return !memory.empty();
}

void SimulatedConnection::wait_for_memory() {
  listener_->starved.push_back(weak_from_this());
}

void SimulatedConnection::place(const SimulatedFrame& frame, std::span<const std::span<std::byte>> parts) const {
  std::size_t part = 0, at = 0;
  const auto copy = [&](std::span<const std::byte> from) {
    while (!from.empty() && part < parts.size()) {
      const std::size_t size = std::min(from.size(), parts[part].size() - at);
      std::memcpy(parts[part].data() + at, from.data(), size);
      from = from.subspan(size);
      at += size;
      if (at == parts[part].size()) ++part, at = 0;
    }
  };
  copy(frame.message.payload.span());
  for (const auto& borrowed : frame.message.borrowed) copy(borrowed);
}

// ---- the end ----

void SimulatedConnection::close(const Error& why) {
  if (ended_) return;
  if (!receiving_) return end(why);
  end_here(why);  // the handler is running; it is notified afterwards
  here_.process->soon([self = shared_from_this(), why] { self->handler_.closed(self, why); });
}

void SimulatedConnection::end(const Error& why) {
  if (ended_) return;
  const auto self = shared_from_this();
  end_here(why);
  handler_.closed(self, why);
}

// Ends this side. The other end is notified after all frames sent before have arrived.
void SimulatedConnection::end_here(const Error& why) {
  ended_ = true;
  if (node_side()) {
    for (const SimulatedFrame& frame : queue_)
      if (frame.charge) listener_->request_memory -= frame.charge->memory;
    for (const auto& [tag, charge] : admission_.take_all()) listener_->request_memory -= charge.memory;
    --listener_->connections;
  }
  queue_.clear();
  incoming_.clear();
  network_.open_.erase(number_);
  const auto other = std::exchange(other_, nullptr);
  if (!other || other->ended_ || lost_) return;
  auto* cut = network_.find_cut(*here_.process, *other->here_.process);
  if (!cut) return notify_other(other, why.message);
  if (cut->lost) return;
  cut->held.push_back(
      [self = shared_from_this(), other, message = why.message] { self->notify_other(other, message); });
}

void SimulatedConnection::notify_other(const std::shared_ptr<SimulatedConnection>& other, const std::string& why) {
  const Nanoseconds at = std::max(last_arrival_, network_.arrival(here_, other->here_, 0));
  other->here_.process->at(at, [other, why] {
    other->end({ErrorCode::kUnreachable, "the peer closed the connection: " + why});
  });
}

void SimulatedConnection::add_to(SimulatedNetwork::Census& census) const {
  if (!other_ || other_->ended_ || lost_ || other_->lost_) {
    ++census.half_open;
    for (const SimulatedFrame& frame : queue_) {  // wait for the peer until this end is notified
      if (frame.charge) census.request_memory -= frame.charge->memory;
      census.half_open_buffers += frame.message.payload.capacity();
    }
    return;
  }
  if (node_side()) ++census.established;
  census.queued += queue_.size();
  census.in_transit += unreceived_;
}

void SimulatedConnection::forget() {
  other_ = nullptr;
  end({ErrorCode::kUnreachable, "the connection was lost", ECONNRESET});
}

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "client/node_link.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "net/admission.h"

namespace tutti {
namespace {

constexpr const char* kUnreadable = "the memory to write from cannot be read";
// Of small payloads that are sent with their writes. If the node had no memory for more of them, they would wait in the
// socket, and calls of other kinds behind them.
constexpr std::uint64_t kSmallInFlight = net::Budget::kReserve;

}  // namespace

NodeLink::NodeLink(Clock& clock, net::Transport& transport, Options options, LinkEvents& events)
    : clock_(clock), transport_(transport), options_(std::move(options)), events_(events) {}

void NodeLink::connect(std::function<void(Result<void>)> done) {
  if (up()) return done({});
  transport_.connect(options_.endpoint, options_.connect, *this,
                     [this, done = std::move(done)](Result<net::ConnectionPointer> connection) {
                       connected(std::move(connection), done);
                     });
}

void NodeLink::connected(Result<net::ConnectionPointer> connection, const std::function<void(Result<void>)>& done) {
  if (!connection) return done(Failure(connection.error()));
  bool ended = false;
  const net::ConnectionPointer established = std::move(*connection);
  std::optional<std::uint64_t> accepted;
  {
    Lock lock(mutex_);
    ended = closed_early_ == established;
    closed_early_ = nullptr;
    if (!ended) {
      connection_ = established;
      instance_ = connection_->welcome().instance;
      fence_time_ = std::max(options_.fence_time, connection_->welcome().fence_time);
      queue_deadline_ = sync_deadline_ = name_deadline_ = renewed_ = {};
      new_credit_.reset();
      limits_ = connection_->welcome().limits;
      if (early_credit_.from == connection_) {
        new_credit_ = early_credit_.credit.number;
        limits_.credit = early_credit_.credit.bytes;
        accepted = credit_to_accept();
      }
      heard_ = clock_.steady();
      node_clock_ = {};
      node_clock_.sample(connection_->welcome().now, heard_);
    }
    early_credit_ = {};
  }
  accept_credit(established, accepted);
  if (ended) return done(fail(ErrorCode::kUnreachable, "the node closed the connection right after the handshake"));
  done({});
}

void NodeLink::disconnect(const Error& why) {
  net::ConnectionPointer connection;
  {
    Lock lock(mutex_);
    connection = connection_;
  }
  if (connection) connection->close(why);
}

bool NodeLink::up() const {
  Lock lock(mutex_);
  return connection_ != nullptr;
}

std::optional<wire::Instance> NodeLink::instance() const {
  Lock lock(mutex_);
  return connection_ != nullptr ? std::optional(instance_) : std::nullopt;
}

bool NodeLink::send(CallPointer call, TimePoint now) {
  Lock lock(mutex_);
  if (connection_ == nullptr || (call->only_boot && *call->only_boot != instance_.boot)) return false;
  if (waiting_.empty() && fits(*call))
    transmit(lock, call, now);
  else
    waiting_.push_back(std::move(call));
  return true;
}

bool NodeLink::fits(const Call& call) const {
  return net::InFlight{unanswered_, sent_bytes_}.fits(limits_, may_send_payload(call) ? call.bytes : 0);
}

// Else the call is sent without its payload.
bool NodeLink::may_send_payload(const Call& call) const {
  const auto needed = net::WriteMemory::credit_for(call.payload, limits_.small);
  if (needed == 0) return call.payload == 0 || sent_small_ + call.payload <= kSmallInFlight;
  return used_credit_ + needed <= limits_.credit;
}

void NodeLink::release(const Call& call) {
  sent_bytes_ -= call.counted;
  used_credit_ -= call.credit;
  sent_small_ -= call.small;
}

// Call after release(). The number of the last Credit, once the payloads beyond it are answered.
std::optional<std::uint64_t> NodeLink::credit_to_accept() {
  return used_credit_ <= limits_.credit ? std::exchange(new_credit_, {}) : std::nullopt;
}

void NodeLink::accept_credit(const net::ConnectionPointer& connection, const std::optional<std::uint64_t>& number) {
  if (number) connection->send({.frame = wire::encode(wire::CreditAccepted{*number}, {})});
}

const CallPointer* NodeLink::find(std::uint64_t tag) const {
  const auto slot = static_cast<std::uint32_t>(tag);
  return slot < sent_.size() && sent_[slot].tag == tag && sent_[slot].call ? &sent_[slot].call : nullptr;
}

// Stores the call in a free slot and returns its tag.
std::uint64_t NodeLink::take_slot(const CallPointer& call) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(sent_.size()));
    sent_.push_back({sent_.size(), nullptr});
  }
  auto& slot = sent_[free_slots_.back()];
  free_slots_.pop_back();
  slot.tag += std::uint64_t{1} << 32;
  slot.call = call;
  ++unanswered_;
  return slot.tag;
}

// nullptr: no call with this tag is without a reply.
CallPointer NodeLink::take_answered(std::uint64_t tag) {
  if (find(tag) == nullptr) return nullptr;
  const auto slot = static_cast<std::uint32_t>(tag);
  free_slots_.push_back(slot);
  --unanswered_;
  return std::move(sent_[slot].call);
}

void NodeLink::pump(Lock& lock, TimePoint now) {
  while (connection_ != nullptr && !waiting_.empty() && fits(*waiting_.front())) {
    const auto call = std::move(waiting_.front());
    waiting_.pop_front();
    transmit(lock, call, now);
  }
}

void NodeLink::transmit(Lock& lock, const CallPointer& call, TimePoint now) {
  const auto connection = connection_;
  Call::Attempt attempt{.on_request = !may_send_payload(*call)};
  attempt.tag = take_slot(call);
  call->awaits_pull = attempt.on_request;
  call->pulled = false;
  call->counted = attempt.on_request ? 0 : call->bytes;
  call->credit = attempt.on_request ? 0 : net::WriteMemory::credit_for(call->payload, limits_.small);
  call->small = attempt.on_request || call->credit > 0 ? 0 : call->payload;
  call->node = options_.index;
  call->tag = attempt.tag;
  call->instance = instance_;
  call->fence_time = fence_time_;
  call->deadline = now + options_.request_timeout;
  // Reads and syncs change nothing and have none. Changes of names have one, also those that may be repeated.
  if (call->retry != Retry::kAnytime || call->work == Work::kName)
    attempt.deadline = node_clock_.node_time(call->deadline);
  if (call->file_key != 0) {
    const bool fresh = known_files_.insert(call->file_key).second;
    attempt.with_path = fresh || std::exchange(call->force_path, false);
  }
  if (call->source_key != 0) known_files_.insert(call->source_key);  // forget() closes it
  sent_bytes_ += call->counted;
  used_credit_ += call->credit;
  sent_small_ += call->small;
  const bool watch = !std::exchange(watched_, true);
  lock.unlock();
  if (watch) events_.watch(call->deadline);
  connection->send(call->encode(attempt));
  lock.lock();
}

void NodeLink::await_reply(const CallPointer& call) {
  const auto tag = call->tag.load();
  const auto wanted = [&] {
    Lock lock(mutex_);
    const auto* found = find(tag);
    return found != nullptr && *found == call;
  };
  net::ConnectionPointer connection;
  {
    Lock lock(mutex_);
    connection = connection_;
  }
  if (connection && wanted()) connection->await_reply(tag, wanted);
}

namespace {

// A call without a consumer of its reply.
template <typename Request>
std::shared_ptr<Call> make_silent_call(const Request& request) {
  auto call = std::make_shared<FunctionCall<typename Request::Reply>>();
  call->make = [request](const Call::Attempt& attempt) {
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->report = [](const Result<typename Request::Reply>&) {};
  call->work = Work::kSync;  // it may wait behind writes: a node that reports progress is not lost
  return call;
}

}  // namespace

void NodeLink::send_until_timeout(std::shared_ptr<Call> call) {
  const auto now = clock_.steady();
  call->give_up = now + options_.request_timeout;
  send(std::move(call), now);
}

void NodeLink::forget(std::uint64_t file_key) {
  {
    Lock lock(mutex_);
    if (connection_ == nullptr || known_files_.erase(file_key) == 0) return;
  }
  send_until_timeout(make_silent_call(wire::CloseRequest{file_key}));
}

TimePoint NodeLink::heard() const {
  Lock lock(mutex_);
  return connection_ != nullptr ? heard_ : TimePoint{};
}

void NodeLink::ping() {
  {
    Lock lock(mutex_);
    if (!waiting_.empty()) return;
  }
  send_until_timeout(make_silent_call(wire::HealthRequest{}));
}

TimePoint NodeLink::next_deadline() {
  Lock lock(mutex_);
  TimePoint earliest = TimePoint::max();
  for (const auto& slot : sent_) {
    if (slot.call) earliest = std::min(earliest, overdue(*slot.call));
  }
  watched_ = earliest != TimePoint::max();
  return earliest;
}

TimePoint NodeLink::overdue(const Call& call) const {
  switch (call.work) {
    case Work::kQueued:
      return std::max(call.deadline, std::min(queue_deadline_, call.give_up));
    case Work::kName:
      return std::max(call.deadline, std::min(std::max(queue_deadline_, name_deadline_), call.give_up));
    case Work::kSync:
      return std::min(std::max({call.deadline, queue_deadline_, sync_deadline_}), call.sync_limit);
  }
  return call.deadline;
}

bool NodeLink::is_up() const {
  Lock lock(mutex_);
  return connection_ != nullptr;
}

NodeLink::Oldest NodeLink::oldest_call() const {
  Lock lock(mutex_);
  Oldest oldest;
  for (const auto& slot : sent_)
    if (slot.call && slot.call->submitted < oldest.submitted)
      oldest = {slot.call->submitted, std::max({queue_deadline_, sync_deadline_, name_deadline_})};
  return oldest;
}

std::vector<CallPointer> NodeLink::take_late_syncs(TimePoint now) {
  std::vector<CallPointer> late;
  Lock lock(mutex_);
  for (auto& slot : sent_)
    if (slot.call && slot.call->work == Work::kSync && now > slot.call->sync_limit)
      late.push_back(take_answered(slot.tag));
  return late;
}

net::ReplyMemory NodeLink::reply_memory(const wire::Header& header, std::span<const std::byte> body) {
  CallPointer call;
  {
    Lock lock(mutex_);
    const auto* found = find(header.tag);
    if (found == nullptr) return {};
    call = *found;
  }
  call->decode(header, body);
  return call->head() != nullptr ? call->reply_memory() : net::ReplyMemory{};
}

// The node may apply changes until the new deadline: closed() takes it into account.
void NodeLink::progress(const net::ConnectionPointer& from, const net::Incoming& message) {
  const auto progress = wire::decode<wire::Progress>(message.header, message.body);
  if (!progress) return;
  wire::Renew renew;
  {
    Lock lock(mutex_);
    if (from != connection_) return;
    const TimePoint now = heard_ = clock_.steady();
    node_clock_.sample(progress->head.now, now);
    if (progress->syncing) sync_deadline_ = now + options_.request_timeout;
    if (progress->naming) name_deadline_ = now + options_.request_timeout;
    if (progress->moving) queue_deadline_ = now + options_.request_timeout;
    if ((!progress->moving && !progress->naming) || unanswered_ == 0) return;
    renewed_ = now + options_.request_timeout;
    renew.deadline = node_clock_.node_time(renewed_);
  }
  from->send({.frame = wire::encode(renew, {})});
}

// The deadline of the write begins now. As with progress(), it is noted before it is sent.
void NodeLink::pull(const net::ConnectionPointer& from, const net::Incoming& message) {
  const auto pull = wire::decode<wire::Pull>(message.header, message.body);
  if (!pull) return;
  CallPointer call;
  Call::Attempt attempt{.tag = pull->write};
  {
    Lock lock(mutex_);
    const auto* found = from == connection_ ? find(pull->write) : nullptr;
    if (found == nullptr || !(*found)->awaits_pull) return;
    call = *found;
    call->awaits_pull = false;
    call->pulled = true;
    call->deadline = clock_.steady() + options_.request_timeout;
    attempt.deadline = node_clock_.node_time(call->deadline);
  }
  from->send(call->encode_payload(attempt));
}

void NodeLink::credit(const net::ConnectionPointer& from, const net::Incoming& message) {
  const auto credit = wire::decode<wire::Credit>(message.header, message.body);
  if (!credit) return;
  std::optional<std::uint64_t> accepted;
  {
    Lock lock(mutex_);
    if (from != connection_) {
      early_credit_ = {from, *credit};
      return;
    }
    new_credit_ = credit->number;
    limits_.credit = credit->bytes;
    accepted = credit_to_accept();
  }
  accept_credit(from, accepted);
}

void NodeLink::received(const net::ConnectionPointer& from, net::Incoming message) {
  if (message.header.tag == 0) {
    if (message.header.type == wire::Type::kProgress) return progress(from, message);
    if (message.header.type == wire::Type::kPull) return pull(from, message);
    if (message.header.type == wire::Type::kCredit) return credit(from, message);
  }
  CallPointer call;
  std::optional<std::uint64_t> accepted;
  {
    Lock lock(mutex_);
    if (from != connection_) return;
    call = take_answered(message.header.tag);
    if (!call) return;
    release(*call);
    accepted = credit_to_accept();
  }
  accept_credit(from, accepted);
  if (message.header.payload_length == 0) call->decode(message.header, message.body);  // else reply_memory() did
  const auto* head = call->head();
  {
    Lock lock(mutex_);
    const TimePoint now = heard_ = clock_.steady();
    if (head != nullptr && head->now != TimePoint{}) node_clock_.sample(head->now, now);
    if (!waiting_.empty()) pump(lock, now);
  }
  if (message.unwritable) return call->done(fail(ErrorCode::kIo, "the memory to read into cannot be written", EFAULT));
  if (!message.payload.empty()) call->keep_payload(std::move(message));
  events_.answered(std::move(call), head != nullptr ? head->status : static_cast<std::int32_t>(wire::kOk));
}

// Repeating the call would not help. If its frame had the path of its file, the node will ask for it.
void NodeLink::unsendable(const net::ConnectionPointer& from, std::uint64_t tag) {
  CallPointer call;
  std::optional<std::uint64_t> accepted;
  {
    Lock lock(mutex_);
    const auto* found = from == connection_ ? find(tag) : nullptr;
    if (found == nullptr) return;
    if ((*found)->pulled) {  // the node waits for it, and answers with EFAULT
      (*found)->unreadable = true;
      lock.unlock();
      return from->send({.frame = wire::encode(wire::Payload{}, {.tag = tag})});
    }
    call = take_answered(tag);
    release(*call);
    accepted = credit_to_accept();
    if (!waiting_.empty()) pump(lock, clock_.steady());
  }
  accept_credit(from, accepted);
  call->done(fail(ErrorCode::kIo, kUnreadable, EFAULT));
}

void NodeLink::closed(const net::ConnectionPointer& connection, const Error& why) {
  std::vector<CallPointer> sent, unsent, unreadable;
  {
    Lock lock(mutex_);
    if (connection != connection_) {
      closed_early_ = connection;
      return;
    }
    connection_ = nullptr;
    for (auto& slot : sent_) {
      if (!slot.call) continue;
      if (slot.call->work == Work::kQueued || slot.call->work == Work::kName)
        slot.call->deadline = std::max(slot.call->deadline, renewed_);
      if (slot.call->awaits_pull) slot.call->deadline = {};  // the node has no payload and will never apply it
      (slot.call->unreadable ? unreadable : sent).push_back(take_answered(slot.tag));
    }
    unsent.assign(waiting_.begin(), waiting_.end());
    waiting_.clear();
    known_files_.clear();
    sent_bytes_ = used_credit_ = sent_small_ = 0;
  }
  for (const CallPointer& call : unreadable) call->done(fail(ErrorCode::kIo, kUnreadable, EFAULT));
  events_.lost(options_.index, std::move(sent), std::move(unsent), why);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Part of DataPath: writes whose payloads are pulled. A dispatched batch asks for the payloads that it lacks, and waits
// for them. Until kPullPatience is over it waits for all of them, so that its requests stay one operation. After that,
// or if there is no memory for some of them, the requests whose payloads have arrived go to the engine; the others
// follow.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "node/data_path.h"
#include "wire/codec.h"

namespace tutti::node {
namespace {

// Batches that may be parked. One client could make any number of them; beyond it the queue depth counts them.
constexpr std::size_t kMostParked = 16384;
// Batches that wait for a payload that another batch has asked for, and take no place. All are looked at when one
// arrives.
constexpr std::size_t kMostAlongside = 1024;
constexpr Duration kSlowestByte = std::chrono::nanoseconds(1000);  // as in the transport

}  // namespace

bool DataPath::lacks_payload(const EngineBatch& engine_batch) {
  for (const Request& scheduled : engine_batch.batch.requests)
    if (extent_of(scheduled).request->payload != PayloadState::kHere) return true;
  return false;
}

void DataPath::retry_payloads() {
  Effects effects;
  {
    Lock lock(mutex_);
    advance_payloads(effects);
  }
  carry_out(effects);
}

// In order of dispatch: the first that gets no memory stops the later ones.
void DataPath::advance_payloads(Effects& effects) {
  pull_memory_left_ = headers_waiting_ == 0;
  for (std::size_t i = 0; i < waiting_for_payload_.size();)
    if (advance_payload_at(i, effects)) ++i;
  payloads_missing_ = !waiting_for_payload_.empty();
}

// False: the batch has left waiting_for_payload_.
bool DataPath::advance_payload_at(std::size_t index, Effects& effects) {
  EngineBatch& engine_batch = *waiting_for_payload_[index];
  const bool waits = advance_payloads(engine_batch, effects);
  if (engine_batch.without_payload.empty()) {
    begin(std::move(waiting_for_payload_[index]), effects);
    waiting_for_payload_.erase(waiting_for_payload_.begin() + static_cast<std::ptrdiff_t>(index));
    return false;
  }
  if (!waits && parked_count_ < kMostParked) {
    park(index);
    return false;
  }
  // Extents of one request can be many batches, which all wait for one payload. Only the batch that asked for it takes
  // a place of the queue depth: else one list would keep all others from being dispatched.
  const bool asked_before = std::ranges::none_of(engine_batch.without_payload, [](const RequestExtent* extent) {
    return extent->pulls || !extent->request->awaits_payload();
  });
  // Nor does a user take places one after the other with many clients that do not send.
  const bool user_is_late =
      std::ranges::any_of(engine_batch.without_payload, [&](const RequestExtent* extent) TUTTI_REQUIRES(mutex_) {
        return late_of_user_.contains(extent->request->stamp.user);
      });
  if ((asked_before || user_is_late) && waiting_for_payload_.size() < kMostAlongside) set_aside(engine_batch);
  // A few of those that wait let more batches be dispatched. If the memory is held by requests whose other extents are
  // still in the scheduler, all of them do: those extents must be served before memory is released.
  if (!pull_memory_left_ && memory_behind_ > 0) set_aside(engine_batch);
  if (!engine_batch.aside && pull_memory_left_ && ahead_ < kPulledAhead) {
    engine_batch.ahead = true;
    ++ahead_;
    set_aside(engine_batch);
  }
  return true;
}

// One extent of the request was dispatched or cancelled.
void DataPath::left_scheduler(ClientRequest& request) {
  if (--request.undispatched == 0 && std::exchange(request.memory_behind, false)) --memory_behind_;
}

// The batch waits for clients that are late. It lets others be dispatched.
void DataPath::park(std::size_t index) {
  auto engine_batch = std::move(waiting_for_payload_[index]);
  waiting_for_payload_.erase(waiting_for_payload_.begin() + static_cast<std::ptrdiff_t>(index));
  if (std::exchange(engine_batch->ahead, false)) --ahead_;
  set_aside(*engine_batch);
  ++parked_count_;
  PulledPayloads* const first = engine_batch->without_payload.front()->request->pulled_payloads;
  const bool alone = std::ranges::all_of(engine_batch->without_payload, [&](const RequestExtent* extent) {
    return extent->request->pulled_payloads == first;
  });
  parked_[alone ? first : nullptr].push_back(std::move(engine_batch));
}

// Its payloads have arrived or are lost.
void DataPath::unpark(PulledPayloads& connection) {
  const auto concerned = [&](const std::unique_ptr<EngineBatch>& engine_batch) {
    return std::ranges::any_of(engine_batch->without_payload, [&](const RequestExtent* extent) {
      return extent->request->pulled_payloads == &connection;
    });
  };
  for (PulledPayloads* const key : {&connection, static_cast<PulledPayloads*>(nullptr)}) {
    const auto found = parked_.find(key);
    if (found == parked_.end()) continue;
    auto& parked = found->second;
    const auto others = std::stable_partition(parked.begin(), parked.end(), concerned);
    parked_count_ -= static_cast<std::size_t>(others - parked.begin());
    std::move(parked.begin(), others, std::back_inserter(waiting_for_payload_));
    parked.erase(parked.begin(), others);
    if (parked.empty()) parked_.erase(found);
  }
  payloads_missing_ = !waiting_for_payload_.empty();
}

// Asks for payloads and passes on what has arrived. True: it waits for a payload that is on its way, or for memory.
bool DataPath::advance_payloads(EngineBatch& engine_batch, Effects& effects) {
  const TimePoint now = clock_.steady();
  bool coming = false, short_of_memory = false;
  for (RequestExtent* extent : engine_batch.without_payload) {
    ClientRequest& request = *extent->request;
    if (request.awaits_payload()) check_late(request, now);
    if (request.payload == PayloadState::kAbsent && request.head.status == wire::kOk &&
        request.pulled_payloads->late == 0)
      (pull(request, effects) ? extent->pulls : short_of_memory) = true;
    coming = coming || (request.awaits_payload() && !request.late);
  }
  if (coming) return true;
  boost::container::small_vector<RequestExtent*, 1> left;
  for (RequestExtent* extent : engine_batch.without_payload) {
    const ClientRequest& request = *extent->request;
    const bool refused = request.payload == PayloadState::kAbsent && request.head.status != wire::kOk;
    if (request.payload == PayloadState::kHere || refused)
      plan(engine_batch, *extent, effects);
    else
      left.push_back(extent);
  }
  engine_batch.without_payload = std::move(left);
  start_operations(engine_batch, effects);
  return short_of_memory;
}

// False: there is no memory now. One connection uses a quarter of it, or one payload.
bool DataPath::pull(ClientRequest& request, Effects& effects) {
  PulledPayloads& connection = *request.pulled_payloads;
  net::BufferPool& pool = *dependencies_.pulled_memory;
  if (connection.bytes > 0 && connection.bytes + request.total > pool.budget().count() / 4) return false;
  if (pull_memory_left_) request.memory = pool.try_allocate(request.total);
  if (request.memory.data() == nullptr) return pull_memory_left_ = false;
  request.payload = PayloadState::kPulled;
  if (request.undispatched > 0 && !std::exchange(request.memory_behind, true)) ++memory_behind_;
  request.pulled_at = clock_.steady();
  connection.bytes += request.total;
  effects.pulls.push_back({request.connection, request.tag});
  wake_at(request.pulled_at + kPullPatience);
  return true;
}

// A payload that is late loses its memory; the transport disconnects clients that send it slowly.
void DataPath::check_late(ClientRequest& request, TimePoint now) {
  const TimePoint late_at = request.pulled_at + kPullPatience;
  if (now < late_at) return wake_at(late_at);
  if (!std::exchange(request.late, true)) {
    ++request.pulled_payloads->late;
    ++late_of_user_[request.stamp.user];
    ++late_payloads_;
  }
  if (request.payload == PayloadState::kArriving) return;
  request.memory = {};
  wake_at(payload_by(request));
}

TimePoint DataPath::payload_by(const ClientRequest& request) const {
  return request.pulled_at + dependencies_.receive_timeout + kSlowestByte * request.total;
}

// On the timer's thread, because close() waits for calls of the handler. The connections are closed before the requests
// are answered: a reply must not reach a client that may still send from the memory of its caller.
void DataPath::disconnect_late_peers() {
  std::vector<net::ConnectionPointer> peers;
  const TimePoint now = clock_.steady();
  {
    Lock lock(mutex_);
    if (late_payloads_ == 0) return;
    for (const ClientRequest& request : requests_)
      if (request.payload == PayloadState::kPulled && !request.header_waits && now >= payload_by(request))
        peers.push_back(request.connection);
  }
  for (const auto& peer : peers) peer->close({ErrorCode::kTimeout, "the peer does not send the data it announced"});
  if (peers.empty()) return;
  Lock lock(mutex_);
  for (ClientRequest& request : requests_)
    if (request.payload != PayloadState::kHere && std::ranges::find(peers, request.connection) != peers.end()) {
      request.fail(ETIMEDOUT, "the client did not send the data it announced");
      payload_ended(request);
    }
}

void DataPath::payload_ended(ClientRequest& request) {
  if (request.awaits_payload()) request.pulled_payloads->bytes -= request.total;
  if (std::exchange(request.header_waits, false)) --headers_waiting_;
  if (std::exchange(request.late, false)) {
    --late_payloads_;
    const auto user = late_of_user_.find(request.stamp.user);
    if (--user->second == 0) late_of_user_.erase(user);
    if (--request.pulled_payloads->late == 0) unpark(*request.pulled_payloads);
  }
  if (request.payload == PayloadState::kPulled) request.memory = {};
  request.payload = PayloadState::kHere;
}

void DataPath::payload_lost(ClientRequest& request) {
  request.fail(ECANCELED, "the connection is gone");
  payload_ended(request);
}

ClientRequest* DataPath::find_pulled(ClientRequestList& requests, std::uint64_t tag) {
  for (ClientRequest& request : requests)
    if (request.tag == tag && request.awaits_payload()) return &request;
  return nullptr;
}

Result<net::Buffer> DataPath::payload_memory(ClientRequestList& requests, const wire::Header& header) {
  Lock lock(mutex_);
  ClientRequest* request = find_pulled(requests, header.tag);
  if (request == nullptr || request->payload != PayloadState::kPulled)
    return fail(ErrorCode::kProtocol, "a payload that was not asked for");
  if (request->total != header.payload_length)
    return fail(ErrorCode::kProtocol, "a payload has another size than the extents of its write");
  if (request->memory.data() == nullptr) request->memory = dependencies_.pulled_memory->try_allocate(request->total);
  if (request->memory.data() == nullptr) {  // its memory was given away because it is late; the connection tries again
    headers_waiting_ += !std::exchange(request->header_waits, true);
    return net::Buffer();
  }
  if (std::exchange(request->header_waits, false)) --headers_waiting_;
  request->payload = PayloadState::kArriving;
  return std::move(request->memory);
}

Result<void> DataPath::payload_arrived(ClientRequestList& requests, net::Incoming message) {
  const auto decoded = wire::decode<wire::Payload>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  Effects effects;
  {
    Lock lock(mutex_);
    ClientRequest* request = find_pulled(requests, message.header.tag);
    if (request == nullptr) return fail(ErrorCode::kProtocol, "a payload that was not asked for");
    if (message.payload.empty()) request->fail(EFAULT, "the client cannot read the memory to write from");
    payload_ended(*request);
    request->sent_deadline = decoded->deadline;
    request->memory = std::move(message.payload);
    request->pages = std::move(message.pages);
    request->pages_at = message.pages_at;
    if (request->extents.size() > 1) request->copy_pages();  // the extents become separate engine operations
    advance_payloads(effects);
  }
  carry_out(effects);
  pump();
  return {};
}

}  // namespace tutti::node

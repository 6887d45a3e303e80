// SPDX-License-Identifier: Apache-2.0
#include "node/data_path.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/mutex.h"
#include "net/admission.h"
#include "net/transport.h"
#include "wire/codec.h"

namespace tutti::node {
namespace {

using Kind = ClientRequest::Kind;

Request to_scheduler_request(ClientRequest& request, RequestExtent& extent) {
  return {.id = extent.id,
          .file = request.file->id(),
          .offset = extent.offset,
          .length = Bytes(extent.length),
          .target = request.target,
          .direction = request.direction(),
          .stripe_log2 = static_cast<std::uint8_t>(request.stripe_log2 & 0x7f),
          .job_proven = request.job_proven,
          .stripe_count = request.stripe_count,
          .stamp = request.stamp};
}

// Whether a read's data may be sent from the page cache to the socket without a copy into our memory. This is faster
// for large reads, and possible if no checksum of the data is needed.
bool may_take_pages(const ClientRequest& request) {
  return request.kind == Kind::kRead && !request.checksum && request.extents.size() == 1 &&
         request.total >= PagePipe::kLeast && request.total <= PagePipe::kMost;
}

TimePoint engine_deadline(const ClientRequest& request) {
  const TimePoint deadline = request.deadline();
  return deadline == TimePoint{} ? TimePoint::max() : deadline;
}

std::string text_of(int error) {
  return error == 0 ? std::string() : std::strerror(error);
}

}  // namespace

DataPath::DataPath(const Dependencies& dependencies)
    : dependencies_(dependencies), clock_(dependencies.world->clock()) {
  timer_ = dependencies_.world->make_timer([this] { wake(); });
  // The thread that releases memory may hold locks, so the timer's thread retries.
  dependencies_.read_memory->when_released([this] { wake_at(TimePoint{}); });
}

DataPath::~DataPath() {
  dependencies_.read_memory->when_released({});
  stop_timer();
  assert(unanswered_ == 0);
}

void DataPath::discard() {
  dependencies_.read_memory->when_released({});
  stop_timer();
  Lock lock(mutex_);
  requests_.clear_and_dispose([](ClientRequest* request) { delete request; });
  engine_batches_.clear_and_dispose([](EngineBatch* engine_batch) { delete engine_batch; });
  waiting_for_memory_.clear();
  in_turn_ = 0;
  waiting_for_payload_.clear();
  parked_.clear();
  orders_.clear();
  unanswered_ = 0;
}

// ---- arrival ----

void DataPath::admit(std::unique_ptr<ClientRequest> arrived) {
  if (const TimePoint now = clock_.steady(); arrived->transfers() && arrived->expired(now))
    return refuse_expired(std::move(arrived), now);
  ClientRequest* request = arrived.release();
  FileOrder::Ready ready;
  TimePoint look_at = TimePoint::max();
  {
    Lock lock(mutex_);
    ++unanswered_;
    request->look = looks_;
    if (request->payload != PayloadState::kHere && request->pulled_payloads->lost) payload_lost(*request);
    if (next_look_ == TimePoint::max()) look_at = next_look_ = clock_.steady() + dependencies_.look_interval;
    requests_.push_back(*request);
    request->connection_requests->push_back(*request);
    if (request->transfers()) {
      request->left = request->extents.size();
      for (RequestExtent& extent : request->extents) assign_id(extent);
      usage_.arrived(request->usage(), request->connection->peer().job);
      if (put_in_order(*request)) ready.push_back(request);
    } else {
      FileOrder& order = orders_[request->file->id()];
      order.add(*request, request->kind == Kind::kSync ? Barrier::kSync : Barrier::kExclusive);
      ready = order.take_ready();
    }
  }
  wake_at(look_at);
  for (Ordered* entry : ready) start(static_cast<ClientRequest&>(*entry));
  pump();
}

// True: it may start now.
bool DataPath::put_in_order(ClientRequest& transfer) {
  if (transfer.kind != Kind::kRead) return orders_[transfer.file->id()].add(transfer);
  const auto order = orders_.find(transfer.file->id());
  return order == orders_.end() || order->second.add_read(transfer);
}

// It has waited in its socket for memory.
void DataPath::refuse_expired(std::unique_ptr<ClientRequest> arrived, TimePoint now) {
  arrived->fail(wire::kExpired, kTooLate);
  arrived->head.now = now;
  reply(*arrived);
  Lock lock(mutex_);
  ++counts_.refused;
}

// Ids are numbers, not addresses, so that runs in the simulator do not depend on the memory allocator.
void DataPath::assign_id(RequestExtent& extent) {
  if (free_ids_.empty()) {
    free_ids_.push_back(extents_.size());
    extents_.push_back(nullptr);
  }
  extent.id = free_ids_.back();
  free_ids_.pop_back();
  extents_[extent.id] = &extent;
}

// A request that ends while it is started makes others ready: any number of them may follow each other, so an inner
// call leaves them to the outer one.
void DataPath::start(std::span<ClientRequest* const> requests) {
  static thread_local DataPath* starting = nullptr;
  static thread_local std::deque<ClientRequest*> more;
  if (requests.empty()) return;
  if (starting == this) {
    more.insert(more.end(), requests.begin(), requests.end());
    return;
  }
  DataPath* const outer = std::exchange(starting, this);
  std::deque<ClientRequest*> of_outer = std::exchange(more, {requests.begin(), requests.end()});
  while (!more.empty()) {
    ClientRequest& next = *more.front();
    more.pop_front();
    start(next);
  }
  more = std::move(of_outer);
  starting = outer;
}

void DataPath::start(ClientRequest& request) {
  if (request.transfers())
    schedule(request);
  else
    start_barrier(request);
}

// After its last extent is added, the request may be answered and deleted by another thread at any time.
void DataPath::schedule(ClientRequest& request) {
  const std::size_t count = request.undispatched = request.extents.size();
  std::vector<RequestExtent*> refused;
  Error reason;
  for (std::size_t i = 0; i < count; ++i) {
    RequestExtent& extent = request.extents[i];
    if (auto added = dependencies_.scheduler->add(to_scheduler_request(request, extent)); !added) {
      refused.push_back(&extent);
      reason = added.error();
    }
  }
  if (refused.empty()) return;
  Effects effects;
  {
    Lock lock(mutex_);
    counts_.refused += refused.size();
    const bool stopped = reason.code == ErrorCode::kStopped;
    refused.front()->request->fail(stopped ? wire::kStopping : EAGAIN, reason.message);
    for (RequestExtent* extent : refused) {
      left_scheduler(*extent->request);
      free_ids_.push_back(extent->id);
      settle(*extent, effects);
    }
  }
  carry_out(effects);
}

void DataPath::start_barrier(ClientRequest& request) {
  if (request.expired(clock_.steady())) {
    Lock lock(mutex_);
    request.fail(wire::kExpired, kTooLate);
    Effects effects;
    ++counts_.refused;
    finish(request, effects);
    lock.unlock();
    return carry_out(effects);
  }
  if (request.kind == Kind::kSync) {
    request.sync = std::make_unique<ClientRequest::Sync>();
    request.sync->kind = Operation::Kind::kSync;
    request.sync->file = request.file;
    request.sync->sink = this;
    request.sync->request = &request;
    request.sync->covered = request.file->changes.ended();
    return dependencies_.engine->submit(*request.sync);
  }
  dependencies_.workers->post(request.stamp.user, [this, &request] {
    auto done = dependencies_.files->truncate(*request.file, request.size, request.deadline());
    Effects effects;
    {
      Lock lock(mutex_);
      if (!done) {
        const bool late = done.error().code == ErrorCode::kTimeout;
        request.fail(late ? wire::kExpired : wire::to_head(done.error()).status, done.error().message);
        counts_.refused += late;
      }
      finish(request, effects);
    }
    carry_out(effects);
    pump();
  });
}

void DataPath::abandon(ClientRequestList& requests, PulledPayloads& payloads) {
  Effects effects;
  {
    Lock lock(mutex_);
    payloads.lost = true;
    // settle() of the last extent removes the request from the list.
    for (auto next = requests.begin(); next != requests.end();) {
      ClientRequest& request = *next++;
      if (!request.transfers()) continue;
      if (request.payload != PayloadState::kHere) payload_lost(request);
      cancel(request, {ErrorCode::kStopped, "the connection is gone", ECANCELED}, effects);
    }
    advance_payloads(effects);
  }
  carry_out(effects);
  pump();
}

// Its extents that wait in the scheduler. After the last extent of all, the request has ended.
void DataPath::cancel(ClientRequest& request, const Error& why, Effects& effects) {
  for (std::size_t i = 0, count = request.extents.size(); i < count; ++i)
    if (request.extents[i].request && dependencies_.scheduler->cancel(request.extents[i].id)) {
      request.fail(why.system, why.message);
      const bool last = request.left == 1;
      left_scheduler(request);
      free_ids_.push_back(request.extents[i].id);
      settle(request.extents[i], effects);
      if (last) return;
    }
}

// ---- dispatch ----

// Any number of threads may dispatch at once. An engine that completes inside submit() calls pump() recursively; the
// inner call returns at once, and the outer one dispatches again.
void DataPath::pump() {
  static thread_local DataPath* pumping = nullptr;
  static thread_local bool again = false;
  if (pumping == this) {
    again = true;
    return;
  }
  DataPath* const outer = std::exchange(pumping, this);
  do {
    again = false;
    dispatch();
  } while (again);
  pumping = outer;
}

void DataPath::dispatch() {
  static thread_local std::array<Scheduler::Dispatched, 16> batches;  // not used after a call that may pump()
  TimePoint again = TimePoint::max();
  if (payloads_missing_) retry_payloads();
  for (bool more = true; more;) {
    const std::size_t count = dependencies_.scheduler->try_next(batches, again);
    if (count == 0) break;
    Effects effects;
    bool set_aside = false;  // makes room for further batches
    {
      Lock lock(mutex_);
      for (std::size_t i = 0; i < count; ++i) {
        auto engine_batch = std::make_unique<EngineBatch>();
        engine_batch->batch = batches[i];
        ++counts_.batches;
        counts_.batched_requests += batches[i].requests.size();
        for (const Request& scheduled : batches[i].requests) left_scheduler(*extent_of(scheduled).request);
        const std::size_t waiting = waiting_for_memory_.size() + waiting_for_payload_.size() + parked_count_;
        submit(std::move(engine_batch), effects);
        set_aside = set_aside || waiting_for_memory_.size() + waiting_for_payload_.size() + parked_count_ > waiting;
      }
    }
    more = count == batches.size() || set_aside || !effects.ready.empty() || !effects.completed.empty();
    carry_out(effects);
  }
  if (again != TimePoint::max()) wake_at(clock_.steady() + (again - dependencies_.policy_clock->now()));
}

void DataPath::submit(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) {
  if (!engine_batch->batch.dropped && !find_memory(*engine_batch)) {
    if (engine_batch->waiting_since == TimePoint{}) engine_batch->waiting_since = clock_.steady();
    set_aside(*engine_batch);  // other extents of requests that have memory may be behind it in the scheduler
    wake_at(engine_batch->waiting_since + dependencies_.memory_patience);
    in_turn_ += !engine_batch->over_share;
    waiting_for_memory_.push_back(std::move(engine_batch));
    return;
  }
  if (!engine_batch->batch.dropped && lacks_payload(*engine_batch)) {
    for (const Request& scheduled : engine_batch->batch.requests)
      engine_batch->without_payload.push_back(&extent_of(scheduled));
    waiting_for_payload_.push_back(std::move(engine_batch));
    advance_payload_at(waiting_for_payload_.size() - 1, effects);
    payloads_missing_ = !waiting_for_payload_.empty();
    return;
  }
  plan(*engine_batch, effects);
  begin(std::move(engine_batch), effects);
}

// All its operations are planned; some may have ended already.
void DataPath::begin(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) {
  if (engine_batch->unfinished == 0)
    complete(std::move(engine_batch), effects);
  else
    engine_batches_.push_back(*engine_batch.release());
}

void DataPath::complete(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) {
  if (engine_batch->ahead) --ahead_;
  effects.completed.push_back(std::move(engine_batch));
}

void DataPath::set_aside(EngineBatch& engine_batch) {
  if (!std::exchange(engine_batch.aside, true)) dependencies_.scheduler->set_aside(engine_batch.batch);
}

void DataPath::plan(EngineBatch& engine_batch, Effects& effects) {
  for (const Request& scheduled : engine_batch.batch.requests) plan(engine_batch, extent_of(scheduled), effects);
  start_operations(engine_batch, effects);
}

// Fencing: a request whose deadline has passed is refused here, right before it would be submitted to the engine.
void DataPath::plan(EngineBatch& engine_batch, RequestExtent& extent, Effects& effects) {
  const Scheduler::Dispatched& batch = engine_batch.batch;
  ClientRequest& request = *extent.request;
  request.head.timing = {batch.dispatched - batch.arrived - batch.held, batch.held, {}};
  if (batch.dropped)
    request.fail(wire::kStopping, "the node is shutting down; the request was not applied");
  else if (request.expired(clock_.steady()))
    request.fail(wire::kExpired, kTooLate);
  if (request.head.status != wire::kOk) {
    ++counts_.refused;
    settle(extent, effects);
  } else {
    append(engine_batch, extent);
  }
}

// Passes the operations that were added since the last call to the engine.
void DataPath::start_operations(EngineBatch& engine_batch, Effects& effects) {
  auto next = engine_batch.operations.begin();
  std::advance(next, engine_batch.started);
  for (; next != engine_batch.operations.end(); ++next, ++engine_batch.started, ++engine_batch.unfinished)
    effects.operations.push_back(&*next);
}

// Adds the extent to the last operation if it adjoins it on the same descriptor, else makes a new operation.
void DataPath::append(EngineBatch& engine_batch, RequestExtent& extent) {
  ClientRequest& request = *extent.request;
  const bool open = engine_batch.operations.size() > engine_batch.started;  // the engine has not got the last one
  const RequestExtent* last = open ? engine_batch.operations.back().extents.back() : nullptr;
  const bool copy = request.kind == Kind::kCopy;
  const bool adjoins = last && !copy && last->request->kind != Kind::kCopy &&
                       last->offset + last->length == extent.offset &&
                       engine_batch.operations.back().file == request.file;
  if (!adjoins) {
    TransferOperation& transfer = engine_batch.operations.emplace_back();
    transfer.kind = request.kind == Kind::kRead ? Operation::Kind::kRead : Operation::Kind::kWrite;
    if (copy) transfer.kind = Operation::Kind::kCopy;
    transfer.file = request.file;
    transfer.offset = extent.offset;
    transfer.sink = this;
    transfer.engine_batch = &engine_batch;
    transfer.batch = &engine_batch;
    if (may_take_pages(request)) transfer.pages = &request.pages;
    if (request.kind == Kind::kWrite && request.pages.is_open()) transfer.pages = &request.pages;
    transfer.pages_at = request.pages_at;
  } else {
    engine_batch.operations.back().pages = nullptr;
  }
  TransferOperation& transfer = engine_batch.operations.back();
  transfer.deadline = std::min(transfer.deadline, engine_deadline(request));
  transfer.extents.push_back(&extent);
  if (copy) {
    transfer.source = request.source;
    transfer.source_offset = request.source_offset;
    transfer.copy_length = extent.length;
  } else {
    transfer.memory.push_back({request.memory.data() + extent.memory_at, extent.length});
  }
}

// ---- completion ----

void DataPath::completed(std::span<Operation* const> operations) {
  Effects effects;
  {
    Lock lock(mutex_);
    const TimePoint now = dependencies_.policy_clock->now();
    some_completed_ = true;
    for (Operation* operation : operations) {
      if (operation->kind == Operation::Kind::kSync) {
        const auto& sync = static_cast<ClientRequest::Sync&>(*operation);
        ClientRequest& request = *sync.request;
        if (sync.error == 0) request.file->changes.synced(sync.covered);
        if (sync.error != 0) request.fail(sync.error, text_of(sync.error));
        finish(request, effects);
      } else {
        complete_transfer(static_cast<TransferOperation&>(*operation), now, effects);
      }
    }
  }
  carry_out(effects);
  pump();
}

void DataPath::complete_transfer(TransferOperation& transfer, TimePoint now, Effects& effects) {
  EngineBatch& engine_batch = *transfer.engine_batch;
  std::uint64_t moved = transfer.transferred;
  for (std::size_t i = 0; i < transfer.extents.size(); ++i) {
    RequestExtent& extent = *transfer.extents[i];
    const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(moved, extent.length));
    if (here < extent.length && transfer.error != 0 && transfer.extents.size() > 1) {
      split(transfer, i, effects);
      break;
    }
    moved -= here;
    extent.moved = here;
    ClientRequest& request = *extent.request;
    request.head.timing.engine = now - engine_batch.batch.dispatched;
    if (here < extent.length && transfer.error != 0)
      request.fail(transfer.expired ? wire::kExpired : transfer.error, text_of(transfer.error));
    if (here < extent.length && transfer.error == 0 && request.kind == Kind::kWrite)
      request.fail(EIO, "only a part was written");
    settle(extent, effects);
  }
  if (--engine_batch.unfinished > 0 || !engine_batch.without_payload.empty()) return;
  engine_batches_.erase(engine_batches_.iterator_to(engine_batch));
  complete(std::unique_ptr<EngineBatch>(&engine_batch), effects);
}

// Retries the rest of a failed operation with one operation per extent, to attribute the error to a request. Extents
// whose deadline has passed are refused.
void DataPath::split(TransferOperation& transfer, std::size_t from, Effects& effects) {
  for (std::size_t i = from; i < transfer.extents.size(); ++i) {
    RequestExtent& extent = *transfer.extents[i];
    if (extent.request->expired(clock_.steady())) {
      extent.request->fail(wire::kExpired, kTooLate);
      settle(extent, effects);
      continue;
    }
    TransferOperation& single = transfer.engine_batch->operations.emplace_back();
    single.kind = transfer.kind;
    single.file = transfer.file;
    single.offset = extent.offset;
    single.sink = this;
    single.deadline = engine_deadline(*extent.request);
    single.engine_batch = transfer.engine_batch;
    single.memory.push_back({extent.request->memory.data() + extent.memory_at, extent.length});
    single.extents.push_back(&extent);
  }
  start_operations(*transfer.engine_batch, effects);
}

}  // namespace tutti::node

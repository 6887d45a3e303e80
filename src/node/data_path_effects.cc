// SPDX-License-Identifier: Apache-2.0
// Part of DataPath: the end of requests, and what follows from a change under the lock.
#include "base/mutex.h"
#include "node/data_path.h"
#include "wire/codec.h"

namespace tutti::node {

void DataPath::settle(RequestExtent& extent, Effects& effects) {
  ClientRequest& request = *std::exchange(extent.request, nullptr);
  assert(request.left > 0);
  if (--request.left == 0) finish(request, effects);
}

void DataPath::finish(ClientRequest& request, Effects& effects) {
  request.change.end();
  if (request.transfers()) {
    std::uint64_t moved = 0;
    for (const RequestExtent& extent : request.extents) moved += extent.moved;
    usage_.finished(request.usage(), moved, request.head.timing);
  }
  if (request.kind != ClientRequest::Kind::kRead) {
    const auto order = orders_.find(request.file->id());
    request.transfers() ? order->second.done(request) : order->second.barrier_done(request);
    for (Ordered* ready : order->second.take_ready()) effects.ready.push_back(static_cast<ClientRequest*>(ready));
    if (order->second.idle()) orders_.erase(order);
  }
  request.unlink();
  request.all_hook.unlink();
  effects.answers.emplace_back(&request);
}

void DataPath::carry_out(Effects& effects) {
  for (const PullMessage& pull : effects.pulls)
    pull.to->send({.frame = wire::encode(wire::Pull{.write = pull.tag}, {})});
  copy_joined_pages(effects.operations);
  if (!effects.operations.empty()) dependencies_.engine->submit(effects.operations);
  boost::container::small_vector<RequestId, 8> completed;  // ids that the scheduler no longer knows
  for (const auto& engine_batch : effects.completed) {
    for (const Request& scheduled : engine_batch->batch.requests) completed.push_back(scheduled.id);
    dependencies_.scheduler->complete(engine_batch->batch);
  }
  const TimePoint now = effects.answers.empty() ? TimePoint{} : clock_.steady();
  for (const auto& request : effects.answers) {
    request->head.now = now;
    reply(*request);
  }
  start(effects.ready);
  if (effects.answers.empty() && completed.empty()) return;
  const std::size_t answered = effects.answers.size();
  effects.answers.clear();
  bool idle = false;
  {
    Lock lock(mutex_);
    free_ids_.insert(free_ids_.end(), completed.begin(), completed.end());
    unanswered_ -= answered;
    idle = answered > 0 && unanswered_ == 0;
  }
  if (idle && dependencies_.when_idle) dependencies_.when_idle();
}

// An operation can use the pages of one request only; the others' data is copied into memory.
void DataPath::copy_joined_pages(std::span<Operation* const> operations) {
  for (Operation* operation : operations) {
    const TransferOperation& transfer = static_cast<const TransferOperation&>(*operation);
    if (transfer.extents.size() > 1)
      for (RequestExtent* extent : transfer.extents) extent->request->copy_pages();
  }
}

}  // namespace tutti::node

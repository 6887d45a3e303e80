// SPDX-License-Identifier: Apache-2.0
// Part of DataPath: memory for the data of reads.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "net/admission.h"
#include "node/data_path.h"

namespace tutti::node {

using Kind = ClientRequest::Kind;

// The memory of all its reads or of none, so that batches hold no memory while they wait. A batch waits behind those
// that wait already, unless small buffers suffice for it. A batch of a client that holds its share, because it does not
// read its replies, waits without delaying others.
bool DataPath::find_memory(EngineBatch& engine_batch) {
  net::BufferPool& pool = *dependencies_.read_memory;
  boost::container::small_vector<ClientRequest*, 4> reads;  // that need memory
  boost::container::small_vector<std::size_t, 4> sizes;
  bool holds = false, large = false;  // one of its requests has memory since an earlier batch; needs a large buffer
  for (const Request& scheduled : engine_batch.batch.requests) {
    ClientRequest& request = *extent_of(scheduled).request;
    if (request.kind != Kind::kRead || request.head.status != wire::kOk) continue;
    holds = holds || request.memory.data() != nullptr;
    if (request.memory.data() != nullptr || std::ranges::find(reads, &request) != reads.end()) continue;
    large = large || request.total > net::Budget::kSmall;
    reads.push_back(&request);
    sizes.push_back(request.total);
  }
  engine_batch.over_share = false;
  if (reads.empty()) return true;
  engine_batch.over_share = !holds && std::ranges::any_of(reads, [&](const ClientRequest* read) {
    return !pool.within_share(**read->read_account, read->total);
  });
  if (engine_batch.over_share) return false;
  const bool in_turn = in_turn_ == 0 || !large;
  boost::container::small_vector<net::Buffer, 4> buffers(reads.size());
  if (in_turn && pool.try_allocate(sizes, buffers)) {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      buffers[i].charge(*reads[i]->read_account);
      reads[i]->memory = std::move(buffers[i]);
    }
    return true;
  }
  // Waiting would not help a batch that needs more than the pool has; nor must it wait with the memory of a request.
  const bool alone = in_turn && pool.in_use().count() == 0;
  if (!alone && !holds) return false;
  for (ClientRequest* request : reads) request->memory = pool.try_allocate(request->total);
  refuse_without_memory(engine_batch);
  return true;
}

void DataPath::refuse_without_memory(EngineBatch& engine_batch) {
  for (const Request& scheduled : engine_batch.batch.requests)
    if (ClientRequest& request = *extent_of(scheduled).request; request.memory.data() == nullptr)
      request.fail(EAGAIN, "all read buffers of the node are in use");
}

void DataPath::retry_memory() {
  Effects effects;
  {
    Lock lock(mutex_);
    const TimePoint now = clock_.steady();
    in_turn_ = 0;
    for (auto& engine_batch : std::exchange(waiting_for_memory_, {})) {
      if (now >= engine_batch->waiting_since + dependencies_.memory_patience && !find_memory(*engine_batch))
        refuse_without_memory(*engine_batch);
      submit(std::move(engine_batch), effects);
    }
  }
  carry_out(effects);
}

}  // namespace tutti::node

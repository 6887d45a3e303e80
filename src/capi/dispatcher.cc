// SPDX-License-Identifier: Apache-2.0
#include "capi/dispatcher.h"

#include <csignal>

#include "capi/convert.h"

namespace tutti {
namespace {

// Blocks all signals while the dispatcher thread starts, so that signals are handled by the server's own threads.
template <typename Function>
std::thread thread_without_signals(Function function) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(function));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Dispatcher::Dispatcher(Scheduler& scheduler, DispatchedBatches& batches, const tutti_callbacks& callbacks)
    : scheduler_(scheduler),
      dispatched_(batches),
      callbacks_(callbacks),
      thread_(thread_without_signals([this] { run(); })) {}

Dispatcher::~Dispatcher() {
  thread_.join();
}

void Dispatcher::run() {
  id_ = std::this_thread::get_id();
  Scheduler::Dispatched batch;
  while (scheduler_.next(batch)) {
    if (callbacks_.explicit_completion && !batch.dropped)
      hand_over(batch);
    else
      serve(batch);
  }
  done_.count_down();
}

// The batch is complete when the callback returns.
void Dispatcher::serve(const Scheduler::Dispatched& batch) {
  requests_.clear();
  for (const Request& request : batch.requests) requests_.push_back(to_c(request));
  call(batch.dropped ? callbacks_.dropped : callbacks_.process, requests_);
  scheduler_.complete(batch);
}

// The batch is complete when the caller has completed each request. After an exception this function completes them.
void Dispatcher::hand_over(const Scheduler::Dispatched& batch) {
  const std::span<const tutti_request> requests = dispatched_.open(batch);
  requests_.assign(requests.begin(), requests.end());  // the memory of the batch may be freed during the call
  if (call(callbacks_.process, requests)) return;
  completed_.clear();
  dispatched_.complete(requests_, completed_);
  scheduler_.complete(completed_);
}

bool Dispatcher::call(Callback callback, std::span<const tutti_request> requests) {
  try {
    callback(requests.data(), requests.size(), callbacks_.arg);
    return true;
  } catch (...) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// A storage server in C++ that serves requests in the order of a policy.
// Two jobs write at the same time; with `window` the server finishes one job before it serves the other.
#include <tutti/sched.h>

#include <cstdio>
#include <thread>

using tutti::Scheduler;

namespace {

// A real server does its I/O here: one vectored operation for the whole batch.
void serve(const Scheduler::Dispatched& batch) {
  const tutti::Request& first = batch.requests.front();
  std::printf("job %u: file %lu, offset %lu, %zu requests\n", first.stamp.application,
              static_cast<unsigned long>(first.file), static_cast<unsigned long>(first.offset), batch.requests.size());
}

// The dispatcher: takes batches until the scheduler is stopped and empty.
void dispatch(Scheduler& scheduler) {
  Scheduler::Dispatched batch;
  while (scheduler.next(batch)) {
    serve(batch);
    scheduler.complete(batch);
  }
}

tutti::Request write_of(tutti::ApplicationId job, std::uint64_t piece) {
  tutti::Request request;
  request.id = job * 100 + piece;
  request.file = job;
  request.offset = piece << 20;
  request.length = tutti::Bytes(1 << 20);
  request.direction = tutti::Direction::kWrite;
  request.stamp.application = job;
  return request;
}

}  // namespace

int main() {
  auto scheduler = Scheduler::create({.policy = "window", .policy_options = {{"width", "1000ms"}}});
  if (!scheduler) {
    std::fprintf(stderr, "%s\n", scheduler.error().message.c_str());
    return 1;
  }

  // The requests of the two jobs arrive alternately.
  for (std::uint64_t piece = 0; piece < 3; ++piece) {
    for (const tutti::ApplicationId job : {2U, 1U}) {
      if (auto added = (*scheduler)->add(write_of(job, piece)); !added)
        std::fprintf(stderr, "%s\n", added.error().message.c_str());
    }
  }
  // Wrong input gives an error, never a crash.
  if (auto twice = (*scheduler)->add(write_of(1, 0)); !twice)
    std::printf("refused: %s\n", twice.error().message.c_str());

  std::thread dispatcher([&] { dispatch(**scheduler); });
  (*scheduler)->stop(Scheduler::Stop::kDrain);
  dispatcher.join();

  const Scheduler::Statistics statistics = (*scheduler)->statistics();
  std::printf("%lu requests served\n", static_cast<unsigned long>(statistics.all.completed));
  return 0;
}

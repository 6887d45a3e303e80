// SPDX-License-Identifier: Apache-2.0
#include "node/data_path.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "net/transport.h"

namespace tutti::node {
namespace {

Piece& piece_of(const Request& request) {
  return *reinterpret_cast<Piece*>(request.id);
}

Request request_of(Job& job, Piece& piece) {
  return {.id = reinterpret_cast<RequestId>(&piece),
          .file = job.file->id(),
          .offset = piece.offset,
          .length = Bytes(piece.length),
          .target = job.target,
          .direction = job.direction(),
          .stamp = job.stamp};
}

// Whether a read's bytes may go from the file to the socket without passing through our memory: it pays for large
// ones, and nobody wants to look at them here.
bool may_take_pages(const Job& job) {
  return job.kind == Job::Kind::kRead && !job.checksum && job.pieces.size() == 1 && job.total >= PagePipe::kLeast &&
         job.total <= PagePipe::kMost;
}

std::string text_of(int error) {
  return error == 0 ? std::string() : std::strerror(error);
}

}  // namespace

DataPath::DataPath(const Parts& parts) : parts_(parts), timer_([this] { watch_time(); }) {
  // Whoever gives memory back may hold locks of his own: leave the rest to our thread.
  parts_.read_memory->when_released([this] { wake_at(TimePoint::min()); });
}

DataPath::~DataPath() {
  parts_.read_memory->when_released({});
  {
    std::lock_guard lock(timer_mutex_);
    stopping_ = true;
  }
  timer_changed_.notify_one();
  timer_.join();
  assert(unanswered_ == 0);
}

// ---- arrival ----

void DataPath::admit(std::unique_ptr<Job> arrived) {
  Job* job = arrived.release();
  std::vector<Ordered*> ready;
  {
    std::lock_guard lock(mutex_);
    ++unanswered_;
    job->siblings->push_back(*job);
    FileOrder& order = orders_[job->file->id()];
    if (job->transfers()) {
      job->left = job->pieces.size();
      usage_.arrived(job->usage(), job->connection->peer().job);
      order.add(*job);
    } else {
      order.add(*job, job->kind == Job::Kind::kSync ? Barrier::kSync : Barrier::kExclusive);
    }
    ready = order.take_ready();
  }
  for (Ordered* entry : ready) start(static_cast<Job&>(*entry));
  pump();
}

void DataPath::start(Job& job) {
  if (job.transfers())
    schedule(job);
  else
    start_barrier(job);
}

// Once the last piece is added the job may be gone at any moment.
void DataPath::schedule(Job& job) {
  const std::size_t count = job.pieces.size();
  std::vector<Piece*> refused;
  Error reason;
  for (std::size_t i = 0; i < count; ++i) {
    Piece& piece = job.pieces[i];
    if (auto added = parts_.scheduler->add(request_of(job, piece)); !added) {
      refused.push_back(&piece);
      reason = added.error();
    }
  }
  if (refused.empty()) return;
  Effects effects;
  {
    std::lock_guard lock(mutex_);
    counts_.refused += refused.size();
    const bool stopped = reason.code == ErrorCode::kStopped;
    refused.front()->job->fail(stopped ? wire::kStopping : EAGAIN, reason.message);
    for (Piece* piece : refused) settle(*piece, effects);
  }
  carry_out(effects);
}

void DataPath::start_barrier(Job& job) {
  if (job.expired(net::steady_now())) {
    std::unique_lock lock(mutex_);
    job.fail(wire::kExpired, "the deadline passed before it was applied");
    Effects effects;
    ++counts_.refused;
    finish(job, effects);
    lock.unlock();
    return carry_out(effects);
  }
  if (job.kind == Job::Kind::kSync) {
    job.sync.kind = Operation::Kind::kSync;
    job.sync.file = job.file;
    job.sync.sink = this;
    job.sync.job = &job;
    return parts_.engine->submit(job.sync);
  }
  parts_.workers->post(std::make_shared<Workers::Strand>(), [this, &job] {
    auto done = parts_.root->truncate(*job.file, job.size);
    Effects effects;
    {
      std::lock_guard lock(mutex_);
      if (!done) job.fail(done.error().system, done.error().message);
      finish(job, effects);
    }
    carry_out(effects);
    pump();
  });
}

void DataPath::abandon(JobList& jobs) {
  Effects effects;
  {
    std::lock_guard lock(mutex_);
    // Settling the last piece takes the job out of the list.
    for (auto next = jobs.begin(); next != jobs.end();) {
      Job& job = *next++;
      if (!job.transfers()) continue;
      for (std::size_t i = 0, count = job.pieces.size(); i < count; ++i)
        if (parts_.scheduler->cancel(reinterpret_cast<RequestId>(&job.pieces[i]))) {
          job.fail(ECANCELED, "the connection is gone");
          const bool last = job.left == 1;
          settle(job.pieces[i], effects);
          if (last) break;
        }
    }
  }
  carry_out(effects);
  pump();
}

// ---- dispatch ----

// Any number of threads at once, each with what it got from the scheduler. Engines that complete inside submit() come
// back here from further down this very call: what they made ready is handed out once that is done.
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
  std::array<Scheduler::Dispatched, 16> batches;
  TimePoint again = TimePoint::max();
  while (const std::size_t count = parts_.scheduler->try_next(batches, again)) {
    Effects effects;
    {
      std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < count; ++i) {
        auto flight = std::make_unique<Flight>();
        flight->batch = batches[i];
        ++counts_.batches;
        counts_.batched_requests += batches[i].requests.size();
        launch(std::move(flight), effects);
      }
    }
    carry_out(effects);
  }
  if (again != TimePoint::max()) wake_at(again);
}

// Locked.
void DataPath::launch(std::unique_ptr<Flight> flight, Effects& effects) {
  if (!flight->batch.dropped && !find_memory(*flight)) {
    if (flight->starving_since == TimePoint{}) {
      flight->starving_since = real_clock().now();
      wake_at(flight->starving_since + parts_.memory_patience);
    }
    starved_.push_back(std::move(flight));
    return;
  }
  plan(*flight, effects);
  if (flight->running == 0)
    effects.landed.push_back(std::move(flight));
  else
    flights_.emplace(flight.get(), std::move(flight));
}

bool DataPath::find_memory(Flight& flight) {
  for (const Request& request : flight.batch.requests) {
    Job& job = *piece_of(request).job;
    if (job.kind != Job::Kind::kRead || job.memory.data() != nullptr || job.head.status != wire::kOk) continue;
    job.memory = parts_.read_memory->try_allocate(job.total);
    if (job.memory.data() == nullptr) return false;
  }
  return true;
}

// Fencing: a request whose deadline has passed is refused here, right before the engine would get it.
void DataPath::plan(Flight& flight, Effects& effects) {
  const TimePoint now = net::steady_now();
  for (const Request& request : flight.batch.requests) {
    Piece& piece = piece_of(request);
    Job& job = *piece.job;
    const wire::Timing timing{
        flight.batch.dispatched - flight.batch.arrived - flight.batch.held, flight.batch.held, {}};
    job.head.timing = timing;
    if (flight.batch.dropped)
      job.fail(wire::kStopping, "the node is shutting down and has not applied it");
    else if (job.expired(now))
      job.fail(wire::kExpired, "the deadline passed before it was applied");
    if (job.head.status != wire::kOk) {
      ++counts_.refused;
      settle(piece, effects);
    } else {
      append(flight, piece);
    }
  }
  flight.running = flight.runs.size();
  for (Run& run : flight.runs) effects.operations.push_back(&run);
}

// Joins the last run where it goes on, on the same descriptor.
void DataPath::append(Flight& flight, Piece& piece) {
  Job& job = *piece.job;
  const Piece* last = flight.runs.empty() ? nullptr : flight.runs.back().pieces.back();
  const bool adjoins = last && last->offset + last->length == piece.offset && flight.runs.back().file == job.file;
  if (!adjoins) {
    Run& run = flight.runs.emplace_back();
    run.kind = job.kind == Job::Kind::kRead ? Operation::Kind::kRead : Operation::Kind::kWrite;
    run.file = job.file;
    run.offset = piece.offset;
    run.sink = this;
    run.flight = &flight;
    if (may_take_pages(job)) run.pages = &job.pages;
    if (job.kind == Job::Kind::kWrite && job.pages.is_open()) run.pages = &job.pages;
    run.pages_at = job.pages_at;
  } else {
    flight.runs.back().pages = nullptr;
  }
  Run& run = flight.runs.back();
  run.memory.push_back({job.memory.data() + piece.at, piece.length});
  run.pieces.push_back(&piece);
}

// ---- completion ----

void DataPath::completed(std::span<Operation* const> operations) {
  Effects effects;
  {
    std::lock_guard lock(mutex_);
    const TimePoint now = real_clock().now();
    for (Operation* operation : operations) {
      if (operation->kind == Operation::Kind::kSync) {
        Job& job = *static_cast<Job::Sync*>(operation)->job;
        if (operation->error != 0) job.fail(operation->error, text_of(operation->error));
        finish(job, effects);
      } else {
        settle_run(static_cast<Run&>(*operation), now, effects);
      }
    }
  }
  carry_out(effects);
  pump();
}

void DataPath::settle_run(Run& run, TimePoint now, Effects& effects) {
  Flight& flight = *run.flight;
  std::uint64_t moved = run.transferred;
  for (std::size_t i = 0; i < run.pieces.size(); ++i) {
    Piece& piece = *run.pieces[i];
    const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(moved, piece.length));
    if (here < piece.length && run.error != 0 && run.pieces.size() > 1) {
      split(run, i, effects);  // the failure is somebody's alone: find out whose
      break;
    }
    moved -= here;
    piece.moved = here;
    Job& job = *piece.job;
    job.head.timing.engine = now - flight.batch.dispatched;
    if (here < piece.length && run.error != 0) job.fail(run.error, text_of(run.error));
    if (here < piece.length && run.error == 0 && job.kind == Job::Kind::kWrite) job.fail(EIO, "written in part only");
    settle(piece, effects);
  }
  if (--flight.running > 0) return;
  const auto landed = flights_.find(&flight);
  effects.landed.push_back(std::move(landed->second));
  flights_.erase(landed);
}

// What a failed run did not get to is tried again, each piece by itself.
void DataPath::split(Run& run, std::size_t from, Effects& effects) {
  for (std::size_t i = from; i < run.pieces.size(); ++i) {
    Piece& piece = *run.pieces[i];
    Run& single = run.flight->runs.emplace_back();
    single.kind = run.kind;
    single.file = run.file;
    single.offset = piece.offset;
    single.sink = this;
    single.flight = run.flight;
    single.memory.push_back({piece.job->memory.data() + piece.at, piece.length});
    single.pieces.push_back(&piece);
    ++run.flight->running;
    effects.operations.push_back(&single);
  }
}

void DataPath::settle(Piece& piece, Effects& effects) {
  assert(piece.job->left > 0);
  if (--piece.job->left == 0) finish(*piece.job, effects);
}

void DataPath::finish(Job& job, Effects& effects) {
  const auto order = orders_.find(job.file->id());
  if (job.transfers()) {
    std::uint64_t moved = 0;
    for (const Piece& piece : job.pieces) moved += piece.moved;
    usage_.finished(job.usage(), moved, job.head.timing);
    order->second.done(job);
  } else {
    order->second.barrier_done(job);
  }
  for (Ordered* ready : order->second.take_ready()) effects.ready.push_back(static_cast<Job*>(ready));
  if (order->second.idle()) orders_.erase(order);
  job.unlink();
  effects.answers.emplace_back(&job);
}

void DataPath::carry_out(Effects& effects) {
  gather_joined(effects.operations);
  if (!effects.operations.empty()) parts_.engine->submit(effects.operations);
  for (const auto& flight : effects.landed) parts_.scheduler->complete(flight->batch);
  for (const auto& job : effects.answers) reply(*job);
  for (Job* job : effects.ready) start(*job);
  if (effects.answers.empty()) return;
  const std::size_t answered = effects.answers.size();
  effects.answers.clear();
  std::lock_guard lock(mutex_);
  unanswered_ -= answered;
  if (unanswered_ == 0) idle_.notify_all();
}

// An operation has pages of one request only.
void DataPath::gather_joined(std::span<Operation* const> operations) {
  for (Operation* operation : operations) {
    const Run& run = static_cast<const Run&>(*operation);
    if (run.pieces.size() > 1)
      for (Piece* piece : run.pieces) piece->job->gather();
  }
}

// ---- memory, time, numbers ----

void DataPath::retry_starved() {
  Effects effects;
  {
    std::lock_guard lock(mutex_);
    const TimePoint now = real_clock().now();
    for (std::size_t count = starved_.size(); count > 0; --count) {
      auto flight = std::move(starved_.front());
      starved_.pop_front();
      if (now >= flight->starving_since + parts_.memory_patience)
        for (const Request& request : flight->batch.requests)
          if (Job& job = *piece_of(request).job; job.memory.data() == nullptr)
            job.fail(ENOMEM, "the node's buffers are all in use");
      launch(std::move(flight), effects);
    }
  }
  carry_out(effects);
}

void DataPath::wake_at(TimePoint when) {
  std::lock_guard lock(timer_mutex_);
  if (when >= wake_at_) return;
  wake_at_ = when;
  timer_changed_.notify_one();
}

void DataPath::watch_time() {
  std::unique_lock lock(timer_mutex_);
  while (!stopping_) {
    if (wake_at_ == TimePoint::max()) {
      timer_changed_.wait(lock);
    } else if (wake_at_ > real_clock().now()) {
      real_clock().wait(timer_changed_, lock, wake_at_);
    } else {
      wake_at_ = TimePoint::max();
      lock.unlock();
      retry_starved();
      pump();
      lock.lock();
    }
  }
}

bool DataPath::wait_until_idle(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, until, [this] { return unanswered_ == 0; });
}

std::vector<wire::Usage> DataPath::usage(std::size_t body) const {
  std::lock_guard lock(mutex_);
  return usage_.report(body);
}

DataPath::Counts DataPath::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.h"

#include <fmt/format.h>

#include <utility>

namespace tutti::trace {
namespace {

// The name of a file without a path. Letters instead of digits, because name_pattern() replaces digits.
std::string name_of_unnamed(FileId file) {
  std::string name = "unnamed-";
  for (int shift = 60; shift >= 0; shift -= 4) name += static_cast<char>('a' + ((file >> shift) & 15));
  return name;
}

}  // namespace

Recorder::Recorder(World& world, Workers& workers, std::unique_ptr<TraceOutput> output, Options options)
    : world_(world),
      workers_(workers),
      strand_(workers.make_strand(Workers::kProcess)),
      options_(std::move(options)),
      output_(std::move(output)) {
  header_.facts = options_.facts;
  timer_ = world_.make_timer([this] { tick(); });
}

Recorder::~Recorder() {
  timer_.reset();
}

void Recorder::arrived(std::span<const WaitingRequest> requests) {
  for (const WaitingRequest& waiting : requests) {
    const Request& request = waiting.request;
    RecordedEvent& event = ring_.next();
    event.id = request.id;
    event.when = waiting.arrived;
    event.ended = false;
    TracedArrival& arrival = event.arrival;
    arrival.file = request.file;
    arrival.application = request.stamp.application;
    arrival.offset = request.offset;
    arrival.length = request.length;
    arrival.target = request.target;
    arrival.direction = request.direction;
    // Clients begin to count operations at a random number in the upper half (client/core.h).
    arrival.process = static_cast<std::uint32_t>(request.stamp.operation >> 32);
    report();
  }
}

void Recorder::ended(std::span<const Request> requests, TimePoint when, bool served) {
  for (const Request& request : requests) {
    RecordedEvent& event = ring_.next();
    event.id = request.id;
    event.when = when;
    event.ended = true;
    event.served = served;
    report();
  }
}

void Recorder::report() {
  const bool much = ring_.push();
  if (!much && timer_runs_.load(std::memory_order_relaxed)) return;
  Lock lock(mutex_, kSpinFirst);
  if (!timer_runs_.load(std::memory_order_relaxed)) start_timer();
  if (much) drain();
  unlock_and_post(lock);
}

void Recorder::start_timer() {
  timer_runs_.store(true, std::memory_order_relaxed);
  idle_ = false;
  timer_->set(world_.clock().steady() + options_.flush_interval);
}

void Recorder::tick() {
  Lock lock(mutex_);
  const bool was_idle = std::exchange(idle_, !drain());
  end_block();
  if (!idle_) {
    start_timer();
  } else {
    timer_runs_.store(false, std::memory_order_relaxed);
    if (!was_idle) timer_->set(world_.clock().steady() + options_.flush_interval);
  }
  unlock_and_post(lock);
}

bool Recorder::drain() {
  return ring_.drain([this](const RecordedEvent& event) TUTTI_UNCHECKED {  // called under the lock
    event.ended ? end(event) : add(event);
  });
}

void Recorder::add(const RecordedEvent& event) {
  if (must_leave_out()) {
    ++left_out_;
    return;
  }
  count_left_out();
  if (!std::exchange(started_, true)) header_.start = event.when;
  TracedArrival arrival = event.arrival;
  arrival.time = event.when - header_.start;
  std::uint64_t number = 0;
  if (encoder_.knows(arrival.file)) {
    number = encoder_.add(arrival, {});
  } else {
    const auto named = names_.find(arrival.file);
    number = encoder_.add(arrival, named == names_.end() ? name_of_unnamed(arrival.file) : named->second);
  }
  unfinished_.add(event.id, number);
  ++in_block_;
  if (encoder_.full()) end_block();
}

void Recorder::end(const RecordedEvent& event) {
  const auto number = unfinished_.take(event.id);
  if (number && event.served && !must_leave_out()) {
    count_left_out();
    encoder_.complete(*number, event.when - header_.start);
  }
  if (encoder_.full()) end_block();
}

// Before the first event of a block: within a block, requests are numbered without gaps.
void Recorder::count_left_out() {
  if (left_out_ == 0) return;
  encoder_.skip(left_out_);
  lost_ += std::exchange(left_out_, 0);
}

void Recorder::named(FileId file, std::string_view path) {
  Lock lock(mutex_);
  drain();  // what happened under the name before
  path = path.substr(0, kMaxPathLength);
  if (names_.size() >= options_.most_names || name_bytes_ + path.size() > options_.most_name_bytes) {
    names_.clear();
    name_bytes_ = 0;
  }
  std::string& name = names_[file];
  name_bytes_ += path.size() - name.size();
  name = path;
}

void Recorder::flush() {
  Lock lock(mutex_);
  drain();
  end_block();
  unlock_and_post(lock);
}

void Recorder::end_block() {
  if (encoder_.empty()) return;
  waiting_.push_back({encoder_.take(), std::exchange(in_block_, 0)});
}

// Workers that have been stopped run the task at once, so the lock is released before.
void Recorder::unlock_and_post(Lock& lock) {
  const bool wanted = !waiting_.empty() && !std::exchange(posted_, true);
  lock.unlock();
  if (wanted) workers_.post(strand_, [this] { write(); });
}

void Recorder::write() {
  Lock writing(write_mutex_);
  Lock lock(mutex_);
  posted_ = false;
  const std::vector<EncodedBlock> blocks = std::exchange(waiting_, {});
  const FileHeader header = header_;
  lock.unlock();
  for (const EncodedBlock& block : blocks) {
    const auto written = output_->write(header, block.bytes);
    (written ? recorded_ : lost_) += block.requests;
    if (!written && options_.warn && failures_.allow(world_.clock().steady()))
      options_.warn(fmt::format("trace: {}; {} requests are not in the trace", written.error().message, lost_.load()));
  }
}

}  // namespace tutti::trace

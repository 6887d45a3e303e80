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
  timer_ = world_.make_timer([this] {
    Lock lock(mutex_);
    timer_set_ = false;
    end_block();
    unlock_and_post(lock);
  });
}

Recorder::~Recorder() {
  timer_.reset();
}

// Requests are left out from the end of a block until blocks have been written, so that a block has no gaps.
bool Recorder::must_leave_out() {
  return encoder_.empty() && waiting_.size() >= options_.most_waiting;
}

void Recorder::arrived(std::span<const WaitingRequest> requests) {
  Lock lock(mutex_, kSpinFirst);
  for (const WaitingRequest& waiting : requests) add(waiting.request, waiting.arrived);
  if (!std::exchange(timer_set_, true)) timer_->set(world_.clock().steady() + options_.flush_interval);
  if (!waiting_.empty()) unlock_and_post(lock);
}

void Recorder::add(const Request& request, TimePoint when) {
  if (must_leave_out()) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) {
    encoder_.skip(left_out_);
    lost_ += std::exchange(left_out_, 0);
  }
  if (!std::exchange(started_, true)) header_.start = when;
  const TracedArrival arrival{.time = when - header_.start,
                              .file = request.file,
                              .application = request.stamp.application,
                              .offset = request.offset,
                              .length = request.length,
                              .target = request.target,
                              .direction = request.direction,
                              // Clients begin to count operations at a random number in the upper half (client/core.h).
                              .process = static_cast<std::uint32_t>(request.stamp.operation >> 32)};
  std::uint64_t number = 0;
  if (encoder_.knows(request.file)) {
    number = encoder_.add(arrival, {});
  } else {
    const auto named = names_.find(request.file);
    number = encoder_.add(arrival, named == names_.end() ? name_of_unnamed(request.file) : named->second);
  }
  unfinished_.add(request.id, number);
  ++in_block_;
  if (encoder_.full()) end_block();
}

void Recorder::ended(std::span<const Request> requests, TimePoint when, bool served) {
  Lock lock(mutex_, kSpinFirst);
  for (const Request& request : requests) {
    const auto number = unfinished_.take(request.id);
    if (number && served && !must_leave_out()) encoder_.complete(*number, when - header_.start);
    if (encoder_.full()) end_block();
  }
  if (!encoder_.empty() && !std::exchange(timer_set_, true))
    timer_->set(world_.clock().steady() + options_.flush_interval);
  if (!waiting_.empty()) unlock_and_post(lock);
}

void Recorder::named(FileId file, std::string_view path) {
  Lock lock(mutex_);
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

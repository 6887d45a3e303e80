// SPDX-License-Identifier: Apache-2.0
#include "sched/feedback.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/prediction/predicting_policy.h"

namespace tutti {

void FeedbackPolicy::Queue::reset() {
  if (indexed) growing.clear(), ready.clear();
  indexed = held = listed = false;
  round = kFirstRound;
  runs = 0;
  sole = kNone;
}

Edge FeedbackPolicy::StartOf::operator()(Number run) const {
  const RequestRun& r = policy->runs_[run];
  return {r.file, r.start, r.direction};
}

Edge FeedbackPolicy::EndOf::operator()(Number run) const {
  const RequestRun& r = policy->runs_[run];
  return {r.file, r.end, r.direction};
}

FeedbackPolicy::FeedbackPolicy(const OptionValues& options)
    : QueuedPolicy(options.duration("patience")),
      limits_(options),
      place_(options),
      quantum_(options.bytes("quantum")),
      per_part_(options.text("growth") == "part"),
      wait_(options.duration("wait")),
      profile_({options.duration("latency"),
                static_cast<double>(std::max<std::uint64_t>(1, options.bytes("bandwidth").count()))}),
      starts_(StartOf{this}),
      ends_(EndOf{this}) {
  update_rounds();
}

std::vector<OptionInfo> FeedbackPolicy::option_infos() {
  using Kind = OptionInfo::Kind;
  return with_prediction_options(
      {{.name = "quantum",
        .kind = Kind::kBytes,
        .fallback = "64KiB",
        .help = "Each time a request is passed over, its quantum grows by the time that a request of this size takes"},
       {.name = "growth",
        .kind = Kind::kChoice,
        .fallback = "part",
        .help = "How the quantum of merged requests grows: once for each of them (part), or once (request, as in the "
                "paper)",
        .choices = {"part", "request"}},
       {.name = "wait",
        .kind = Kind::kDuration,
        .fallback = "0",
        .help =
            "How long to wait for an adjoining request, in files where one usually follows; once per batch; 0: never"},
       {.name = "latency",
        .kind = Kind::kDuration,
        .fallback = "100us",
        .help = "Latency of the device, until it has been measured from completions"},
       {.name = "bandwidth",
        .kind = Kind::kBytes,
        .fallback = "500MB",
        .help = "Bandwidth of the device per second, until it has been measured from completions"},
       max_requests_option(),
       max_bytes_option(),
       adjoin_option(),
       patience_option("10s")});
}

void FeedbackPolicy::completed(const Batch& batch, TimePoint dispatched, TimePoint now) {
  Bytes size;
  for (const Request& request : batch.requests) size += request.length;
  if (now >= dispatched && profile_.learn(size, now - dispatched)) update_rounds();
}

void FeedbackPolicy::update_rounds() {
  const auto gain = static_cast<double>(std::max<std::int64_t>(1, profile_.estimate(quantum_).count()));
  first_rounds_ = static_cast<double>(profile_.figures().latency.count()) / gain;
  rounds_per_byte_ = 1e9 / profile_.figures().bytes_per_second / gain;
}

void FeedbackPolicy::enqueue(Slot slot) {
  const Request& request = store_.request(slot);
  const FileQueueKey key{request.file, request.direction};
  const Number number = queues_.open(key);
  const std::uint64_t start = place_.start(request);
  if (Habit& habit = habit_of(key); habit.key == key && habit.end == start) habit.follows = true;

  Number run = ending(number, {request.file, start, request.direction});
  const Number after = starting(number, {request.file, start + request.length.count(), request.direction});
  if (run != kNone && admits(run, 1, request.length)) {
    append(run, slot);
    if (after != kNone && admits(run, runs_[after].count, size_of(after))) join(run, after);
  } else if (after != kNone && admits(after, 1, request.length)) {
    run = after;
    prepend(run, slot);
  } else {
    run = open_run(number, slot);
    index(run);
  }
  const auto round = static_cast<std::int64_t>(round_of(queues_[number]));
  if (per_part_ || runs_[run].count == 1) runs_[run].arrival_rounds += round - 1;  // else its quantum stays as it is
  store_.place(slot) = run;
  schedule(run);
  if (queues_[number].runs == 1 && runs_[run].count == 1)
    opened(number);
  else
    changed(number);
}

FeedbackPolicy::Number FeedbackPolicy::ending(Number queue, const Edge& edge) const {
  const Queue& q = queues_[queue];
  if (q.indexed) return ends_.find(edge);
  return q.sole != kNone && runs_[q.sole].end == edge.position ? q.sole : kNone;
}

FeedbackPolicy::Number FeedbackPolicy::starting(Number queue, const Edge& edge) const {
  const Queue& q = queues_[queue];
  if (q.indexed) return starts_.find(edge);
  return q.sole != kNone && runs_[q.sole].start == edge.position ? q.sole : kNone;
}

void FeedbackPolicy::append(Number run, Slot slot) {
  if (is_indexed(run)) ends_.erase(EndOf{this}(run), run);
  push_back(run, slot);
  if (is_indexed(run)) ends_.insert(EndOf{this}(run), run);
}

void FeedbackPolicy::prepend(Number run, Slot slot) {
  if (is_indexed(run)) starts_.erase(StartOf{this}(run), run);
  runs_[run].members.push_front(store_, slot);
  runs_[run].start -= store_.request(slot).length.count();
  ++runs_[run].count;
  if (is_indexed(run)) starts_.insert(StartOf{this}(run), run);
}

void FeedbackPolicy::dequeue(Slot slot) {
  const Number run = store_.place(slot);
  const Number number = runs_[run].queue;
  unindex(run);
  split(run, slot);
  Queue& queue = queues_[number];
  if (queue.runs == 0) return close_queue(number);
  const auto current = [this](const RunVersion& version) { return is_current(version); };
  queue.growing.prune(queue.runs, current);
  queue.ready.prune(queue.runs, current);
  changed(number);
}

FeedbackPolicy::Number FeedbackPolicy::open_run(Number queue, Slot slot) {
  if (queues_[queue].sole != kNone) index_sole(queue);
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<Number>(runs_.size()));
    runs_.emplace_back();
  }
  const Number number = free_runs_.back();
  free_runs_.pop_back();
  const Request& request = store_.request(slot);
  RequestRun& run = runs_[number];
  run.queue = queue;
  run.file = request.file;
  run.direction = request.direction;
  run.start = run.end = place_.start(request);
  push_back(number, slot);
  ++queues_[queue].runs;
  return number;
}

void FeedbackPolicy::push_back(Number run, Slot slot) {
  runs_[run].members.push_back(store_, slot);
  runs_[run].end += store_.request(slot).length.count();
  ++runs_[run].count;
}

void FeedbackPolicy::close_run(Number run) {
  Queue& queue = queues_[runs_[run].queue];
  --queue.runs;
  queue.sole = kNone;  // no longer, if it was
  const std::uint32_t generation = runs_[run].generation + 1;
  runs_[run] = RequestRun{};
  runs_[run].generation = generation;
  free_runs_.push_back(run);
}

void FeedbackPolicy::close_queue(Number number) {
  closing(number);
  queues_.close(number);
  constexpr std::size_t kKept = 16384;  // runs that an empty policy keeps
  if (queues_.size() > 0 || runs_.size() <= kKept) return;
  release(runs_);
  release(free_runs_);
}

void FeedbackPolicy::index_sole(Number number) {
  Queue& queue = queues_[number];
  const Number run = std::exchange(queue.sole, kNone);
  queue.indexed = true;
  index(run);
  schedule(run);
}

void FeedbackPolicy::index(Number run) {
  if (!is_indexed(run)) return;
  starts_.insert(StartOf{this}(run), run);
  ends_.insert(EndOf{this}(run), run);
}

void FeedbackPolicy::unindex(Number run) {
  if (!is_indexed(run)) return;
  starts_.erase(StartOf{this}(run), run);
  ends_.erase(EndOf{this}(run), run);
}

bool FeedbackPolicy::admits(Number run, std::size_t count, Bytes bytes) const {
  return runs_[run].count + count <= limits_.requests && size_of(run) + bytes <= limits_.bytes;
}

void FeedbackPolicy::join(Number run, Number other) {
  unindex(other);
  ends_.erase(EndOf{this}(run), run);
  for (Slot slot = runs_[other].members.front(); slot != kNoSlot; slot = store_.links(slot).next)
    store_.place(slot) = run;
  runs_[run].members.append(store_, runs_[other].members);
  runs_[run].end = runs_[other].end;
  runs_[run].count = runs_[run].count + runs_[other].count;
  runs_[run].arrival_rounds += runs_[other].arrival_rounds;
  if (!per_part_) runs_[run].arrival_rounds -= static_cast<std::int64_t>(round_of(queues_[runs_[run].queue])) - 1;
  runs_[run].waited |= runs_[other].waited;
  close_run(other);
  ends_.insert(EndOf{this}(run), run);
}

// Removes one request; the requests before and after it become two runs, each with its share of the quantum.
void FeedbackPolicy::split(Number run, Slot without) {
  const std::int64_t rounds = per_part_ ? runs_[run].arrival_rounds / runs_[run].count : runs_[run].arrival_rounds;
  const Number queue = runs_[run].queue;
  const bool waited = runs_[run].waited;
  SlotList rest = runs_[run].members;
  close_run(run);
  Number part = kNone;
  const auto finish_part = [&] {
    if (part != kNone) index(part), schedule(part);
    part = kNone;
  };
  while (!rest.empty()) {
    const Slot slot = rest.front();
    rest.remove(store_, slot);
    if (slot == without) {
      finish_part();
      continue;
    }
    if (part == kNone)
      part = open_run(queue, slot);
    else
      push_back(part, slot);
    if (per_part_ || runs_[part].count == 1) runs_[part].arrival_rounds += rounds;
    runs_[part].waited = waited;
    store_.place(slot) = part;
  }
  finish_part();
}

std::uint64_t FeedbackPolicy::ready_round(const RequestRun& run) const {
  const double rounds = first_rounds_ + rounds_per_byte_ * static_cast<double>(run.end - run.start);
  const auto needed = static_cast<std::uint64_t>(std::ceil(std::min(rounds, static_cast<double>(kMostRounds)) - 1e-9));
  // Passed over R - r_i times each, so the quantum is (count*R - sum r_i) gains; solve for the first R that suffices.
  const std::int64_t sum = static_cast<std::int64_t>(std::max<std::uint64_t>(needed, 1)) + run.arrival_rounds;
  const auto positive = static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0));
  return per_part_ && run.count > 1 ? (positive + run.count - 1) / run.count : positive;
}

void FeedbackPolicy::schedule(Number number) {
  RequestRun& run = runs_[number];
  Queue& queue = queues_[run.queue];
  const std::uint64_t ready = ready_round(run);
  const RunVersion version{number, ++run.generation};
  if (!queue.indexed) {
    queue.sole = number;
    queue.sole_ready = ready;
  } else if (ready <= round_of(queue)) {
    queue.ready.push(run.start, version);
  } else {
    queue.growing.push(ready, version);
  }
}

FeedbackPolicy::Number FeedbackPolicy::candidate(Number number) {
  Queue& queue = queues_[number];
  const std::uint64_t round = round_of(queue);
  if (!queue.indexed) return queue.sole_ready <= round ? queue.sole : kNone;
  const auto current = [this](const RunVersion& version) { return is_current(version); };
  while (const RunVersion* version = queue.growing.top(current)) {
    if (queue.growing.top_key() > round) break;
    queue.ready.push(runs_[version->run].start, *version);
    queue.growing.pop();
  }
  const RunVersion* version = queue.ready.top(current);
  return version ? version->run : kNone;
}

std::uint64_t FeedbackPolicy::next_ready_round(Number number) {
  Queue& queue = queues_[number];
  if (!queue.indexed) return queue.sole_ready;
  queue.growing.top([this](const RunVersion& version) { return is_current(version); });
  return queue.growing.top_key();
}

bool FeedbackPolicy::hold(Number run, TimePoint now) {
  Queue& queue = queues_[runs_[run].queue];
  Habit& habit = habit_of(queue.key);
  if (wait_ == Duration::zero() || runs_[run].waited || runs_[run].count >= limits_.requests) return false;
  const Duration too_soon = next_hold_ - now;  // past a pause, it counts for nothing: the clock jumped back
  if (!(habit.key == queue.key) || !habit.follows) return false;
  if (too_soon > Duration::zero() && too_soon <= kVainWait * wait_) return false;
  runs_[run].waited = true;
  queue.held = true;
  queue.held_from = now;
  queue.held_until = now + wait_;
  return true;
}

bool FeedbackPolicy::still_held(Number number, TimePoint now) {
  Queue& queue = queues_[number];
  if (!queue.held) return false;
  const Number run = candidate(number);
  const bool full = run != kNone && runs_[run].count >= limits_.requests;
  if (!full && now < queue.held_until && now >= queue.held_from) return true;
  end_hold(number, now);
  return false;
}

void FeedbackPolicy::end_hold(Number number, TimePoint now) {
  Queue& queue = queues_[number];
  queue.held = false;
  const Number run = candidate(number);
  Habit& habit = habit_of(queue.key);
  if (now < queue.held_until || run == kNone || !(habit.key == queue.key)) return;
  if (runs_[run].count > 1) return;
  habit.follows = false;
  next_hold_ = now + kVainWait * wait_;
}

void FeedbackPolicy::serve(Number run) {
  const Number number = runs_[run].queue;
  const FileQueueKey key = queues_[number].key;
  const std::uint64_t end = runs_[run].end;
  unindex(run);
  SlotList members = runs_[run].members;
  close_run(run);
  while (!members.empty()) {
    const Slot slot = members.front();
    members.remove(store_, slot);
    take(slot);
  }
  Habit& habit = habit_of(key);
  if (!(habit.key == key)) habit = Habit{.key = key};
  habit.end = end;
  if (queues_[number].runs == 0) return close_queue(number);
  changed(number);
}

}  // namespace tutti

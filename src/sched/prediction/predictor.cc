// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/predictor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti {
namespace {

std::size_t index_of(Direction direction) {
  return static_cast<std::size_t>(direction);
}

std::uint32_t microseconds_of(Duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, UINT32_MAX));
}

}  // namespace

Predictor::Predictor(Options options)
    : options_(std::move(options)), profiles_{first_profile(Direction::kRead), first_profile(Direction::kWrite)} {
  const Bytes length = options_.traces ? options_.traces->mean_length() : Bytes(65536);
  each_ = static_cast<double>(profiles_[0].estimate(length).count());
  for (std::size_t i = 0; i < models_.size(); ++i)
    models_[i].values = {.service = profiles_[i].figures(),
                         .overlap = 1,
                         .each = Duration(std::llround(each_)),
                         .limits = options_.limits,
                         .place = options_.place};
}

// What the traces show, so that the first decisions are right, too.
ServiceProfile Predictor::first_profile(Direction direction) const {
  if (!options_.traces) return ServiceProfile(options_.service);
  return ServiceProfile(options_.traces->service()[index_of(direction)].value_or(options_.service));
}

// ---- files and queues ----

std::uint32_t Predictor::pattern_number(std::string_view name) {
  if (const auto found = pattern_numbers_.find(name); found != pattern_numbers_.end()) return found->second;
  const std::uint32_t file = options_.traces ? options_.traces->find_file(name) : PredictedQueues::kNone;
  const bool wanted = file != PredictedQueues::kNone || (options_.learn && patterns_.size() < kMostFiles);
  full_ = full_ || (options_.learn && !wanted);
  if (!wanted) return kNone;
  const auto number = static_cast<std::uint32_t>(patterns_.size());
  patterns_.emplace_back().file = file;
  pattern_numbers_.emplace(name, number);
  return number;
}

Predictor::File& Predictor::open_file(FileId file) {
  const std::uint32_t known = files_.find(file);
  if (known != files_.kNone) return files_[known];
  if (files_.size() >= kMostFiles) files_.close(next_eviction_++ % kMostFiles);
  return files_[files_.open(file)];
}

void Predictor::name_file(FileId file, std::string_view pattern) {
  File& named = open_file(file);
  const std::uint32_t number = pattern_number(pattern);
  if (named.resolved && named.pattern == number) return;
  named.resolved = true;
  named.pattern = number;
  named.queue = {kNone, kNone};
}

std::uint32_t Predictor::queue_of(File& file, const Request& request) {
  if (!std::exchange(file.resolved, true)) file.pattern = pattern_number(unnamed_pattern(file.key));
  if (file.pattern == kNone) return kNone;
  const std::size_t way = index_of(request.direction);
  if (file.queue[way] != kNone && file.target[way] == request.target) return file.queue[way];
  file.target[way] = request.target;
  return file.queue[way] = open_queue({file.pattern, request.target, request.direction});
}

std::uint32_t Predictor::open_queue(const QueueKey& key) {
  if (const std::uint32_t known = queues_.find(key); known != queues_.kNone) return known;
  const std::uint32_t file = patterns_[key.pattern].file;
  const PredictedQueue* traced =
      file == PredictedQueues::kNone ? nullptr : options_.traces->find({file, key.target, key.direction});
  full_ = full_ || (options_.learn && queues_.size() >= kMostQueues);
  if (!traced && (!options_.learn || queues_.size() >= kMostQueues)) return kNone;
  const std::uint32_t number = queues_.open(key);
  queues_[number].chains.reset(traced);
  patterns_[key.pattern].queues.push_back(number);
  return number;
}

// ---- what happens ----

void Predictor::arrived(const Request& request, TimePoint now) {
  ++arrivals_;
  File& file = open_file(request.file);
  file.burst.arrived(now, request.offset, request.length);
  if (!options_.learn) return;
  if (const std::uint32_t queue = queue_of(file, request); queue != kNone) record(file, queue, request, now);
}

void Predictor::record(File& file, std::uint32_t queue, const Request& request, TimePoint now) {
  Pattern& pattern = patterns_[file.pattern];
  if (pattern.burst.arrived(now, request.offset, request.length)) {
    const auto same = [&](const PredictionSample& each) {
      return each.offset == request.offset && each.length == request.length.count();
    };
    const bool again = std::ranges::any_of(queues_[queue].recording, same);
    const bool full = pattern.recorded >= kMostPerFile;  // and nothing was repeated
    for (const std::uint32_t number : pattern.queues) {
      if (again)
        finish_recording(queues_[number]);
      else if (full)
        drop_recording(queues_[number]);
    }
    if (again || full) pattern.recorded = 0;
  }
  if (learned_ >= kMostLearned) make_room();
  if (pattern.recorded >= kMostPerFile || request.length > Bytes(UINT32_MAX)) return;
  ++pattern.recorded;
  ++learned_;
  queues_[queue].recording.push_back({.offset = request.offset,
                                      .length = static_cast<std::uint32_t>(request.length.count()),
                                      .time = microseconds_of(now - pattern.burst.start()),
                                      .number = arrivals_,
                                      .queue = 0});
}

// Forgets what was recorded and has not been repeated, else requests that never come again would end all learning. If
// that is little, forgets what was learned, too.
void Predictor::make_room() {
  for (const std::uint32_t number : queues_.numbers()) drop_recording(queues_[number]);
  for (Pattern& pattern : patterns_) pattern.recorded = 0;
  if (learned_ < kMostLearned / 2) return;
  for (const std::uint32_t number : queues_.numbers())
    if (queues_[number].learned)
      finish_recording(queues_[number]);  // nothing was recorded: it is not expected any more
}

void Predictor::start_over() {
  for (const std::uint32_t number : queues_.numbers()) queues_.close(number);
  for (const std::uint32_t number : files_.numbers()) files_.close(number);
  patterns_.clear();
  pattern_numbers_.clear();
  learned_ = 0;
  next_eviction_ = 0;
  full_ = false;
}

void Predictor::drop_recording(Queue& queue) {
  learned_ -= queue.recording.size();
  queue.recording.clear();
}

// What was recorded is expected from now on; times are means of it and of what was expected before.
void Predictor::finish_recording(Queue& queue) {
  const std::size_t recorded = queue.recording.size();
  const PredictedQueue* before = queue.chains.queue();
  for (std::size_t i = 0; before && i < recorded; ++i) {
    PredictionSample sample = queue.recording[i];
    const std::uint32_t old = before->find(sample.offset, Bytes(sample.length));
    if (old == PredictedQueue::kNone) continue;
    sample.time = (*before)[old].time;
    queue.recording.push_back(sample);
  }
  learned_ -= recorded + (queue.learned ? queue.learned->size() : 0);
  if (recorded > 0) {
    auto learned = std::make_unique<PredictedQueue>(queue.recording);
    queue.chains.reset(learned.get(), true);
    queue.learned = std::move(learned);
    learned_ += queue.learned->size();
  } else if (queue.learned) {
    queue.chains.reset(nullptr);  // not used in the last iteration
    queue.learned.reset();
  }
  queue.recording.clear();
}

void Predictor::completed(const Batch& batch, TimePoint dispatched, TimePoint now) {
  if (batch.requests.empty()) return;
  Bytes size;
  for (const Request& request : batch.requests) size += request.length;
  // While several batches are under way, a batch takes the time since the last one was done.
  const TimePoint began = last_completion_ <= now ? std::max(dispatched, last_completion_) : dispatched;
  last_completion_ = now;
  const Direction direction = batch.requests.front().direction;
  if (now < began) return;
  const auto requests = static_cast<double>(batch.requests.size());
  each_ += (static_cast<double>((now - began).count()) - requests * each_) / (32 + requests);
  if (profiles_[index_of(direction)].learn(size, now - began)) update_model(direction);
}

void Predictor::update_model(Direction direction) {
  Model& model = models_[index_of(direction)];
  const ServiceProfile::Figures& figures = profiles_[index_of(direction)].figures();
  // How the concurrency that is seen compares with the expected one.
  const double overlap = std::clamp((observed_overlap_ + 0.1) / (expected_overlap_ + 0.1), 0.0, 1.0);
  const auto changed = [](double before, double after) { return std::abs(after - before) > 0.2 * before; };
  const AggregationModel& old = model.values;
  const auto latency = [](const ServiceProfile::Figures& of) { return static_cast<double>(of.latency.count()); };
  if (!changed(latency(old.service), latency(figures)) && !changed(old.overlap, overlap) &&
      !changed(static_cast<double>(old.each.count()), each_))
    return;
  model.values.service = figures;
  model.values.overlap = overlap;
  model.values.each = Duration(std::llround(each_));
  ++model.version;
}

// ---- predictions ----

// Later in a burst, times may differ more: the whole burst may be faster than when it was traced.
Duration Predictor::tolerance(const PredictedRequest& expected, Duration actual) const {
  constexpr Duration kLeast = std::chrono::milliseconds(20);
  return kLeast + 4 * expected.spread() + 3 * std::max(expected.at(), actual) / 4;
}

Predictor::Match Predictor::find(const Request& request, TimePoint arrived) {
  const std::uint32_t known = files_.find(request.file);
  if (known == files_.kNone) return {};
  File& file = files_[known];
  const std::uint32_t queue = queue_of(file, request);
  if (queue == kNone) return {};
  const PredictedQueue* expected = queues_[queue].chains.queue();
  if (!expected || arrived < file.burst.start()) return {};
  const std::uint32_t number = expected->find(request.offset, request.length);
  if (number == PredictedQueue::kNone) return {};
  const Duration actual = arrived - file.burst.start();
  const Duration difference = std::chrono::abs(actual - (*expected)[number].at());
  if (difference > tolerance((*expected)[number], actual)) return {};
  return {queue, number};
}

Chains& Predictor::chains_of(const Match& match) {
  Queue& queue = queues_[match.queue];
  const Model& model = models_[index_of(queue.key.direction)];
  if (queue.model != model.version) queue.chains.outdate();
  queue.model = model.version;
  return queue.chains;
}

Aggregation Predictor::aggregation(const Match& match, const Request& request) {
  return chains_of(match).find(match.number, request, models_[index_of(request.direction)].values);
}

std::uint32_t Predictor::first_of(const Match& match, const Request& request) {
  return chains_of(match).first_of(match.number, request, models_[index_of(request.direction)].values);
}

bool Predictor::pays(const Match& match, TimePoint now) {
  Queue& queue = queues_[match.queue];
  const Duration unit = profiles_[index_of(queue.key.direction)].figures().latency;
  const bool all = gain_.allows(now, unit), its = queue.gain.allows(now, unit);
  return all && its;
}

void Predictor::waited(const Wait& wait, TimePoint now) {
  const Duration unit = profiles_[index_of(wait.direction)].figures().latency;
  const Duration saved(std::llround(wait.batches * static_cast<double>(unit.count())));
  queues_[wait.queue].gain.allows(now, unit);
  queues_[wait.queue].gain.add(saved, wait.idle, unit);
  gain_.add(saved, wait.idle, unit);
  if (wait.held <= Duration::zero()) return;
  const double busy = 1 - std::chrono::duration<double>(wait.idle) / std::chrono::duration<double>(wait.held);
  expected_overlap_ += (wait.alpha - expected_overlap_) / 32;
  observed_overlap_ += (std::clamp(busy, 0.0, 1.0) - observed_overlap_) / 32;
  update_model(wait.direction);
}

std::optional<TimePoint> Predictor::burst_start(FileId file) {
  const std::uint32_t known = files_.find(file);
  if (known == files_.kNone) return std::nullopt;
  return files_[known].burst.start();
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/predicting_policy.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kServed = 4096;  // aggregations that are remembered as partly served

}  // namespace

void PredictingPolicy::HeldBatch::reset() {
  members.clear();
  bytes = Bytes();
  joined = 0;
  over = false;
}

PredictingPolicy::PredictingPolicy(std::unique_ptr<Policy> inner, Options options)
    : inner_(std::move(inner)),
      patience_(options.patience),
      place_(options.predictor.place),
      limits_(options.predictor.limits),
      predictor_(std::move(options.predictor)),
      served_(kServed) {}

// ---- arrivals ----

bool PredictingPolicy::add(const Request& request, TimePoint now) {
  if (held_.size() == 0) {
    if (!inner_->add(request, now)) return false;
    if (predictor_.full()) predictor_.start_over();  // no held batch refers to its queues
    predictor_.arrived(request, now);
    return true;
  }
  if (waits(request.id)) return false;
  advance(now);
  predictor_.arrived(request, now);
  if (const auto match = predictor_.find(request, now)) {
    const Number number = held_.find({request.file, match.queue, predictor_.first_of(match, request)});
    if (number != held_.kNone && !held_[number].over) {
      join(number, {request, now}, now);
      ++held_[number].joined;
      return true;
    }
  }
  return inner_->add(request, now);
}

void PredictingPolicy::join(Number number, const WaitingRequest& waiting, TimePoint now) {
  HeldBatch& held = held_[number];
  held.members.push_back(waiting);
  held.bytes += waiting.request.length;
  ids_.insert(waiting.request.id, number);
  if (waiting.arrived < held.oldest) oldest_.set(number, held.oldest = waiting.arrived);
  if (held.bytes >= held.expected.bytes) ends_.set(number, now);
}

void PredictingPolicy::set_oldest(Number number) {
  const auto& members = held_[number].members;
  held_[number].oldest = std::ranges::min_element(members, {}, &WaitingRequest::arrived)->arrived;
  oldest_.set(number, held_[number].oldest);
}

// ---- time ----

// Accounts the time since the last call; a clock that went back ends all waits.
void PredictingPolicy::advance(TimePoint now) {
  if (now < now_) release_all();
  if (now > now_ && in_flight_ == 0 && held_.size() > 0)
    idle_ += (now - now_) / static_cast<std::int64_t>(held_.size());
  now_ = now;
}

void PredictingPolicy::release_all() {
  for (const Number number : held_.numbers()) ends_.set(number, TimePoint::min());
}

// ---- decisions ----

Decision PredictingPolicy::next(TimePoint now) {
  advance(now);
  const auto inner_overdue = inner_->overdue(now);
  const bool own_overdue = patience_ > Duration::zero() && !oldest_.empty() && now - oldest_.top_key() > patience_;
  if (own_overdue && (!inner_overdue || oldest_.top_key() < *inner_overdue)) return next_overdue(now);
  for (;;) {
    if (!inner_overdue && !ends_.empty() && ends_.top_key() <= now) return release_one(ends_.top(), now);
    const Decision decision = inner_->next(now);
    if (const auto* go = std::get_if<Dispatch>(&decision)) {
      if (!inner_overdue && hold(go->batch, now)) continue;
      ++in_flight_;
      return decision;
    }
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
      inner_wait_ = wait->at;
      return WaitUntil{ends_.empty() ? wait->at : std::min(wait->at, ends_.top_key())};
    }
    if (ends_.empty()) return Idle{};
    if (ends_.top_key() > now) return WaitUntil{ends_.top_key()};
  }
}

bool PredictingPolicy::hold(const Batch& batch, TimePoint now) {
  const bool waited = std::exchange(inner_wait_, TimePoint::max()) <= now;  // in the inner policy: not again
  Predictor::Match match;
  std::size_t matched = 0;
  for (; matched < batch.requests.size() && !match; ++matched)
    match = predictor_.find(batch.requests[matched], batch.arrived[matched]);
  if (!match) return false;
  const Request& request = batch.requests[matched - 1];
  const Aggregation expected = predictor_.aggregation(match, request);
  if (expected.count <= 1) return false;
  const HeldKey key{request.file, match.queue, expected.first};
  if (waited) return note_served(key, now), false;
  if (const Number number = held_.find(key); number != held_.kNone && !held_[number].over) {
    for (std::size_t i = 0; i < batch.requests.size(); ++i) join(number, {batch.requests[i], batch.arrived[i]}, now);
    ++held_[number].joined;
    return true;
  }
  Bytes bytes;
  for (const Request& each : batch.requests) bytes += each.length;
  const TimePoint oldest = *std::ranges::min_element(batch.arrived);
  TimePoint until = oldest + expected.wait;
  if (patience_ > Duration::zero()) until = std::min(until, oldest + patience_ / 2);
  const bool wait = bytes < expected.bytes && until > now && oldest <= now && !partly_served(key) &&
                    held_.find(key) == held_.kNone && predictor_.pays(match, now);
  if (!wait) return note_served(key, now), false;
  open(key, expected, batch, now);
  return true;
}

void PredictingPolicy::open(const HeldKey& key, const Aggregation& expected, const Batch& batch, TimePoint now) {
  const Number number = held_.open(key);
  HeldBatch& held = held_[number];
  held.expected = expected;
  held.from = now;
  held.idle_before = idle_;
  held.oldest = now;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    held.members.push_back({batch.requests[i], batch.arrived[i]});
    held.bytes += batch.requests[i].length;
    ids_.insert(batch.requests[i].id, number);
    held.oldest = std::min(held.oldest, batch.arrived[i]);
  }
  oldest_.set(number, held.oldest);
  Duration wait = expected.wait;
  if (patience_ > Duration::zero()) wait = std::min(wait, patience_ / 2);
  ends_.set(number, held.oldest + wait);
}

// The oldest held request, alone: one that is merged with it could overtake another that is overdue.
Decision PredictingPolicy::next_overdue(TimePoint now) {
  const Number number = oldest_.top();
  HeldBatch& held = held_[number];
  end_wait(held, now);
  const auto oldest = std::ranges::min_element(held.members, {}, &WaitingRequest::arrived);
  batch_.assign(1, oldest->request);
  arrived_.assign(1, oldest->arrived);
  ends_.set(number, now);
  remove(number, static_cast<std::size_t>(oldest - held.members.begin()));
  return dispatch();
}

// The held requests go: those that adjoin the first one now, the others with the next calls.
Decision PredictingPolicy::release_one(Number number, TimePoint now) {
  HeldBatch& held = held_[number];
  if (!held.over)
    std::ranges::sort(held.members, {},
                      [&](const WaitingRequest& each) { return std::pair(place_.start(each.request), each.arrived); });
  end_wait(held, now);
  batch_.clear();
  arrived_.clear();
  Bytes size;
  std::size_t count = 0;
  for (; count < held.members.size(); ++count) {
    const WaitingRequest& next = held.members[count];
    const bool adjoins = count == 0 || place_.start(next.request) == place_.end(batch_.back());
    if (!adjoins || (count > 0 && !limits_.admits(count, size, next.request.length))) break;
    batch_.push_back(next.request);
    arrived_.push_back(next.arrived);
    size += next.request.length;
    ids_.erase(next.request.id);
  }
  held.members.erase(held.members.begin(), held.members.begin() + static_cast<std::ptrdiff_t>(count));
  ends_.set(number, TimePoint::min());
  close_if_empty(number);
  return dispatch();
}

Decision PredictingPolicy::dispatch() {
  ++in_flight_;
  return Dispatch{Batch{batch_, arrived_}};
}

void PredictingPolicy::end_wait(HeldBatch& held, TimePoint now) {
  if (std::exchange(held.over, true)) return;
  note_served(held.key, now);
  const Direction direction = held.members.front().request.direction;
  const Duration waited = std::max(now - held.from, Duration::zero());
  // Without the wait, requests that arrived while an earlier one was being served would have been merged anyway.
  const Duration one =
      std::max(predictor_.time_to_process(direction, held.members.front().request.length), Duration(1));
  const auto rounds = static_cast<std::uint64_t>(std::max<std::int64_t>(1, waited / one));
  const auto batches = static_cast<double>(std::min<std::uint64_t>(held.joined, rounds));
  predictor_.waited({.queue = held.key.queue,
                     .direction = direction,
                     .held = waited,
                     .idle = idle_ - held.idle_before,
                     .alpha = held.expected.alpha,
                     .batches = batches},
                    now);
}

void PredictingPolicy::remove(Number number, std::size_t member) {
  auto& members = held_[number].members;
  ids_.erase(members[member].request.id);
  held_[number].bytes -= members[member].request.length;
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(member));
  close_if_empty(number);
}

void PredictingPolicy::close_if_empty(Number number) {
  if (!held_[number].members.empty()) return set_oldest(number);
  ends_.erase(number);
  oldest_.erase(number);
  held_.close(number);
}

void PredictingPolicy::note_served(const HeldKey& key, TimePoint now) {
  served_[hash_value(key) % kServed] = {key, now};
}

// In the burst that the file is in now.
bool PredictingPolicy::partly_served(const HeldKey& key) {
  const Served& served = served_[hash_value(key) % kServed];
  const auto burst = predictor_.burst_start(key.file);
  return served.key == key && burst && served.at >= *burst && served.at <= now_;
}

// ---- the rest of the contract ----

void PredictingPolicy::completed(const Batch& batch, TimePoint dispatched, TimePoint now) {
  advance(now);
  in_flight_ -= std::min<std::size_t>(in_flight_, 1);
  predictor_.completed(batch, dispatched, now);
  inner_->completed(batch, dispatched, now);
}

std::optional<Request> PredictingPolicy::cancel(RequestId id) {
  const Number number = ids_.find(id);
  if (number == IdIndex::kNone) return inner_->cancel(id);
  const auto& members = held_[number].members;
  const auto found = std::ranges::find(members, id, [](const WaitingRequest& each) { return each.request.id; });
  const Request request = found->request;
  remove(number, static_cast<std::size_t>(found - members.begin()));
  return request;
}

std::vector<WaitingRequest> PredictingPolicy::take_all() {
  std::vector<WaitingRequest> all = inner_->take_all();
  const std::size_t inner = all.size();
  for (const Number number : held_.numbers()) {
    for (const WaitingRequest& waiting : held_[number].members) {
      all.push_back(waiting);
      ids_.erase(waiting.request.id);
    }
    ends_.erase(number);
    oldest_.erase(number);
    held_.close(number);
  }
  if (all.size() > inner) std::ranges::stable_sort(all, {}, &WaitingRequest::arrived);
  return all;
}

// ---- the seam ----

std::vector<OptionInfo> with_prediction_options(std::vector<OptionInfo> options) {
  options.push_back({.name = "prediction",
                     .kind = OptionInfo::Kind::kChoice,
                     .fallback = "off",
                     .help =
                         "Wait for adjoining requests that are expected: from traces of earlier runs (traces), or also "
                         "from what has arrived so far (learn)",
                     .choices = {"off", "traces", "learn"}});
  return options;
}

std::unique_ptr<Policy> with_prediction(std::unique_ptr<Policy> inner, const OptionValues& options,
                                        std::shared_ptr<const PredictedQueues> predictions) {
  if (options.text("prediction") == "off") return inner;
  PredictingPolicy::Options how;
  how.predictor.traces = std::move(predictions);
  how.predictor.learn = options.text("prediction") == "learn";
  how.predictor.limits = MergeLimits(options);
  how.predictor.place = MergePlace(options);
  how.patience = options.duration("patience");
  return std::make_unique<PredictingPolicy>(std::move(inner), std::move(how));
}

}  // namespace tutti

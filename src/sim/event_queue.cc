// SPDX-License-Identifier: Apache-2.0
#include "sim/event_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti::sim {
namespace {

constexpr std::size_t kFew = 64;    // events that are sorted together
constexpr std::size_t kMost = 256;  // in the array; inserting into a longer one would take long

}  // namespace

// It was scheduled last, so that it comes after all events of its time.
void EventQueue::insert(const Event& event) {
  if (near_.size() >= kMost) {
    shorten();
    if (event.time > horizon_) {
      ++in_buckets_;
      return add_to_bucket(event);
    }
  }
  const auto earlier = [](std::int64_t time, const Event& other) { return time < other.time; };
  const auto first = near_.begin() + static_cast<std::ptrdiff_t>(first_);
  near_.insert(std::upper_bound(first, near_.end(), event.time, earlier), event);
}

// Of a time after the horizon.
EventQueue::Place EventQueue::place_of(std::int64_t time) const {
  const auto unsigned_time = static_cast<std::uint64_t>(time);
  const auto bits = static_cast<unsigned>(std::bit_width(unsigned_time ^ static_cast<std::uint64_t>(horizon_)));
  const unsigned level = (bits - 1) / kDigit;
  return {level, static_cast<unsigned>(unsigned_time >> (level * kDigit)) % kValues};
}

std::vector<Event>& EventQueue::bucket_at(Place place) {
  used_[place.level] |= static_cast<std::uint8_t>(1u << place.value);
  used_levels_ |= 1u << place.level;
  return buckets_[place.level][place.value];
}

// Moves the horizon on until the array has enough events, or all.
void EventQueue::extend() {
  if (first_ == near_.size()) near_.clear(), first_ = 0;
  while (used_levels_ != 0) {
    const auto level = static_cast<unsigned>(std::countr_zero(used_levels_));
    const auto value = static_cast<unsigned>(std::countr_zero(used_[level]));
    const std::size_t wanted = near_.size() - first_ + buckets_[level][value].size();
    if (wanted > kFew && near_.size() - first_ >= kAhead) return;
    used_[level] &= static_cast<std::uint8_t>(~(1u << value));
    if (used_[level] == 0) used_levels_ &= ~(1u << level);
    wanted <= kFew ? append({level, value}) : distribute({level, value});
  }
}

// All of the bucket comes after what is in the array, and before all other buckets.
void EventQueue::append(Place place) {
  std::vector<Event>& bucket = buckets_[place.level][place.value];
  const std::uint64_t range = std::uint64_t{1} << (place.level * kDigit);
  const auto before = static_cast<std::uint64_t>(horizon_) & ~(range * (kValues - 1));
  const std::uint64_t horizon = before | range * place.value | (range - 1);  // the last time of the bucket's range
  horizon_ = static_cast<std::int64_t>(horizon);
  std::sort(bucket.begin(), bucket.end());
  near_.insert(near_.end(), bucket.begin(), bucket.end());
  in_buckets_ -= bucket.size();
  bucket.clear();
}

// The first time of the bucket becomes the horizon, its events go into the array, and the others into lower buckets.
void EventQueue::distribute(Place place) {
  moving_.swap(buckets_[place.level][place.value]);
  horizon_ = std::ranges::min_element(moving_, {}, &Event::time)->time;
  for (const Event& event : moving_) {
    if (event.time > horizon_) {
      add_to_bucket(event);
      continue;
    }
    near_.push_back(event);  // in order: events of one time are always in one bucket, in the order of scheduling
    --in_buckets_;
  }
  moving_.clear();
}

// Moves the later part of a long array back into buckets. Events in buckets of digits below the highest one in which
// the horizon changes are together in one bucket then.
void EventQueue::shorten() {
  near_.erase(near_.begin(), near_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
  if (near_.size() < kMost / 2) return;
  const std::int64_t before = std::exchange(horizon_, near_[kFew].time);
  const auto later = [](std::int64_t time, const Event& event) { return time < event.time; };
  const auto end = std::upper_bound(near_.begin(), near_.end(), horizon_, later);
  if (before > horizon_) {
    const Place joined = place_of(before);
    for (unsigned level = 0; level < joined.level; ++level) {
      for (std::vector<Event>& bucket : buckets_[level]) {
        if (bucket.empty()) continue;
        std::vector<Event>& all = bucket_at(joined);
        all.insert(all.end(), bucket.begin(), bucket.end());
        bucket.clear();
      }
      used_[level] = 0;
      used_levels_ &= ~(1u << level);
    }
  }
  in_buckets_ += static_cast<std::size_t>(near_.end() - end);
  for (auto event = end; event != near_.end(); ++event) add_to_bucket(*event);
  near_.erase(end, near_.end());
}

}  // namespace tutti::sim

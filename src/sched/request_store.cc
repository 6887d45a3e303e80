// SPDX-License-Identifier: Apache-2.0
#include "sched/request_store.h"

#include <algorithm>
#include <cassert>

namespace tutti {

Slot RequestStore::add(const Request& request, TimePoint now) {
  if (free_ == kNoSlot) grow();
  const Slot slot = free_;
  Entry& entry = this->entry(slot);
  entry.request = request;
  if (!ids_.insert(slot)) return kNoSlot;
  free_ = entry.links.next;
  entry.arrived = now;
  ++entry.generation;
  note_arrival(slot);
  return slot;
}

void RequestStore::remove(Slot slot) {
  Entry& entry = this->entry(slot);
  assert(entry.generation % 2 == 1 && "the slot is in use");
  ids_.erase(slot);
  ++entry.generation;
  entry.links.next = free_;
  free_ = slot;
  if (ids_.empty()) shrink();
}

Slot RequestStore::oldest() {
  while (!arrivals_.empty() && !holds(arrivals_.front())) arrivals_.pop_front();
  return arrivals_.empty() ? kNoSlot : arrivals_.front().slot;
}

void RequestStore::grow() {
  const auto first = static_cast<Slot>(chunks_.size() * kChunk);
  chunks_.push_back(std::make_unique<Entry[]>(kChunk));
  for (std::size_t i = kChunk; i-- > 0;) {
    chunks_.back()[i].links.next = free_;
    free_ = first + static_cast<Slot>(i);
  }
}

void RequestStore::note_arrival(Slot slot) {
  if (arrivals_.full()) {
    const auto stale = [this](const SlotStamp& stamp) { return !holds(stamp); };
    arrivals_.erase(std::remove_if(arrivals_.begin(), arrivals_.end(), stale), arrivals_.end());
    // Room for as many again: the clean-up above then costs a constant per arrival.
    if (arrivals_.size() * 2 >= arrivals_.capacity()) arrivals_.set_capacity(std::max<std::size_t>(kChunk, arrivals_.capacity() * 2));
  }
  arrivals_.push_back(stamp(slot));
}

void RequestStore::shrink() {
  arrivals_.clear();
  if (chunks_.size() <= kKeptChunks) return;
  chunks_.clear();
  free_ = kNoSlot;
  arrivals_.set_capacity(0);
}

void SlotList::push_back(RequestStore& store, Slot slot) {
  store.links(slot) = {tail_, kNoSlot};
  (tail_ == kNoSlot ? head_ : store.links(tail_).next) = slot;
  tail_ = slot;
}

void SlotList::push_front(RequestStore& store, Slot slot) {
  store.links(slot) = {kNoSlot, head_};
  (head_ == kNoSlot ? tail_ : store.links(head_).previous) = slot;
  head_ = slot;
}

void SlotList::append(RequestStore& store, SlotList& other) {
  if (other.empty()) return;
  store.links(other.head_).previous = tail_;
  (tail_ == kNoSlot ? head_ : store.links(tail_).next) = other.head_;
  tail_ = other.tail_;
  other = SlotList();
}

void SlotList::remove(RequestStore& store, Slot slot) {
  const RequestStore::Links links = store.links(slot);
  (links.previous == kNoSlot ? head_ : store.links(links.previous).next) = links.next;
  (links.next == kNoSlot ? tail_ : store.links(links.next).previous) = links.previous;
}

}  // namespace tutti

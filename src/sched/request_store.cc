// SPDX-License-Identifier: Apache-2.0
#include "sched/request_store.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <new>

#include "base/huge_pages.h"

namespace tutti {

Slot RequestStore::add(const Request& request, TimePoint now) {
  if (free_ == kNoSlot) grow();
  const Slot slot = free_;
  Entry& entry = this->entry(slot);
  if (!caller_prefetches_) ids_.prefetch(request.id + 8);  // of those that will probably come soon
  if (!ids_.insert(request.id, slot)) return kNoSlot;
  entry.request = request;
  free_ = entry.links.next;
  entry.arrived = now;
  ++entry.generation;
  note_arrival(slot, now);
  return slot;
}

void RequestStore::remove(Slot slot) {
  Entry& entry = this->entry(slot);
  assert(entry.generation % 2 == 1 && "the slot is in use");
  ids_.erase(entry.request.id);
  ++entry.generation;
  entry.links.next = free_;
  free_ = slot;
  if (ids_.empty()) shrink();
}

Slot RequestStore::oldest() {
  while (!arrivals_.empty() && !holds(arrivals_.front().version)) arrivals_.pop_front();
  return arrivals_.empty() ? kNoSlot : arrivals_.front().version.slot;
}

namespace {

std::uint32_t milliseconds_of(TimePoint time) {
  return static_cast<std::uint32_t>(std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count());
}

}  // namespace

Slot RequestStore::overdue(TimePoint now, Duration patience) {
  if (arrivals_.empty()) return kNoSlot;
  const auto waited = static_cast<std::int32_t>(milliseconds_of(now) - arrivals_.front().milliseconds);
  if (std::chrono::milliseconds(waited + 1) < patience) return kNoSlot;
  const Slot slot = oldest();
  return slot != kNoSlot && now - arrived(slot) > patience ? slot : kNoSlot;
}

void RequestStore::grow() {
  const std::size_t first = chunks_.size();
  add_block(first < kChunksPerBlock ? 1 : kChunksPerBlock);
  for (std::size_t slot = chunks_.size() * kChunk; slot-- > first * kChunk;) {
    entry(static_cast<Slot>(slot)).links.next = free_;
    free_ = static_cast<Slot>(slot);
  }
}

void RequestStore::add_block(std::size_t chunks) {
  static_assert(kChunksPerBlock * kChunk * sizeof(Entry) == kHugePage);
  const bool huge = chunks == kChunksPerBlock;
  const std::size_t bytes = chunks * kChunk * sizeof(Entry);
  void* memory = huge ? map_huge_pages(bytes) : ::operator new(bytes, std::align_val_t(alignof(Entry)));
  auto* block = static_cast<Entry*>(memory);
  std::uninitialized_default_construct_n(block, chunks * kChunk);
  blocks_.emplace_back(block, FreeBlock{huge});
  for (std::size_t i = 0; i < chunks; ++i) chunks_.push_back(block + i * kChunk);
}

void RequestStore::FreeBlock::operator()(Entry* block) const {
  if (huge)
    unmap_huge_pages(block, kHugePage);  // entries are trivially destructible
  else
    ::operator delete(block, std::align_val_t(alignof(Entry)));
}

void RequestStore::note_arrival(Slot slot, TimePoint now) {
  if (arrivals_.full()) {
    const auto stale = [this](const Arrival& arrival) { return !holds(arrival.version); };
    arrivals_.erase(std::remove_if(arrivals_.begin(), arrivals_.end(), stale), arrivals_.end());
    // Room for as many again: the clean-up above then costs a constant per arrival.
    if (arrivals_.size() * 2 >= arrivals_.capacity())
      arrivals_.set_capacity(std::max<std::size_t>(64, arrivals_.capacity() * 2));
  }
  arrivals_.push_back({version(slot), milliseconds_of(now)});
}

void RequestStore::shrink() {
  arrivals_.clear();
  if (chunks_.size() <= kKeptChunks) return;
  chunks_.clear();
  blocks_.clear();
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

void SlotList::pop_front(RequestStore& store) {
  head_ = store.links(head_).next;
  if (head_ == kNoSlot) {
    tail_ = kNoSlot;
    return;
  }
  store.expect(store.links(head_).next);
}

void SlotList::remove(RequestStore& store, Slot slot) {
  if (slot == head_) return pop_front(store);
  const RequestStore::Links links = store.links(slot);
  store.links(links.previous).next = links.next;
  (slot == tail_ ? tail_ : store.links(links.next).previous) = links.previous;
}

}  // namespace tutti

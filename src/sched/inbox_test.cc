// SPDX-License-Identifier: Apache-2.0
#include "sched/inbox.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/prng.h"
#include "sched/event_count.h"
#include "sched/id_index.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using testing_support::make_request;

Result<void> add(Inbox& inbox, RequestId id) {
  bool crowded = false;
  return inbox.add(make_request(id), TimePoint{}, crowded);
}

TEST(Inbox, AnIdIsInUseFromItsArrivalToItsEnd) {
  constexpr RequestId kHighest = ~RequestId{0};
  for (const RequestId id : {RequestId{0}, RequestId{7}, kHighest}) {
    Inbox inbox({100, 100_B});
    ASSERT_TRUE(add(inbox, id));
    EXPECT_EQ(add(inbox, id).error().code, ErrorCode::kDuplicate);
    std::vector<WaitingRequest> collected;
    inbox.collect(collected);
    ASSERT_EQ(collected.size(), 1u);
    EXPECT_EQ(collected.front().request.id, id);
    inbox.left({1, 1_B});
    EXPECT_EQ(add(inbox, id).error().code, ErrorCode::kDuplicate) << "in flight";
    inbox.forget(std::span(&id, 1));
    EXPECT_TRUE(add(inbox, id));
  }
}

TEST(Inbox, RoomComesBackWhenRequestsLeaveTheQueue) {
  Inbox inbox({2, 100_B});
  ASSERT_TRUE(add(inbox, 1));
  ASSERT_TRUE(add(inbox, 2));
  EXPECT_EQ(add(inbox, 3).error().code, ErrorCode::kFull);
  inbox.left({1, 1_B});
  EXPECT_TRUE(add(inbox, 3));
  EXPECT_EQ(inbox.waiting().requests, 2u);
  inbox.close();
  EXPECT_EQ(add(inbox, 4).error().code, ErrorCode::kStopped);
}

TEST(Inbox, SaysWhenItShouldBeCollected) {
  Inbox inbox({100'000, Bytes(1 << 20)});
  bool crowded = false;
  RequestId id = 0;
  while (!crowded && id < 10'000) ASSERT_TRUE(inbox.add(make_request(++id), TimePoint{}, crowded));
  EXPECT_TRUE(crowded);
  std::vector<WaitingRequest> collected;
  inbox.collect(collected);
  EXPECT_EQ(collected.size(), id);
  ASSERT_TRUE(inbox.add(make_request(++id), TimePoint{}, crowded));
  EXPECT_FALSE(crowded);
}

TEST(IdSet, HoldsWhatWasInsertedAndNotErased) {
  IdSet ids;
  std::set<RequestId> model;
  Prng prng(1);
  for (int i = 0; i < 100'000; ++i) {
    const RequestId id = prng.below(5000) * (i % 2 ? 1 : 0x123456789abc);
    if (prng.below(2)) {
      EXPECT_EQ(ids.insert(id), model.insert(id).second);
    } else {
      ids.erase(id);
      model.erase(id);
    }
  }
}

TEST(IdIndex, FindsWhatWasInsertedAndNotErased) {
  IdIndex ids;
  std::map<RequestId, std::uint32_t> model;
  Prng prng(1);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const RequestId id = prng.below(5000) * (i % 2 ? 1 : 0x123456789abc);
    const auto known = model.find(id);
    EXPECT_EQ(ids.find(id), known == model.end() ? IdIndex::kNone : known->second);
    if (prng.below(2)) {
      EXPECT_EQ(ids.insert(id, i), model.emplace(id, i).second);
    } else if (known != model.end()) {
      ids.erase(id);
      model.erase(known);
    }
    EXPECT_EQ(ids.size(), model.size());
  }
}

TEST(EventCount, NewsBetweenTheLookAndTheWaitIsNotMissed) {
  EventCount bell;
  const EventCount::Ticket seen = bell.ticket();
  bell.notify_one();
  bell.wait(seen, real_clock(), TimePoint::max());  // would never return
  EXPECT_NE(bell.ticket(), seen);
}

TEST(EventCount, WakesOneOrAllOfThoseWhoSleep) {
  EventCount bell;
  std::atomic<int> left{3};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i)
    sleepers.emplace_back([&] {
      const EventCount::Ticket seen = bell.ticket();
      while (bell.ticket() == seen) bell.wait(seen, real_clock(), TimePoint::max());
      --left;
    });
  while (left > 0) {  // those that were late to look wait for the next time
    bell.notify_all();
    std::this_thread::yield();
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_FALSE(bell.has_sleepers());
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Tests of the node's state machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "base/prng.h"
#include "node/file_order.h"
#include "node/usage.h"

namespace tutti::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FileOrder, ChangesStartAtOnceWithoutBarriers) {
  FileOrder order;
  Ordered a, b;
  EXPECT_TRUE(order.add(a));
  EXPECT_TRUE(order.add(b));
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.done(b);
  order.done(a);
  EXPECT_TRUE(order.idle());
}

TEST(FileOrder, ASyncWaitsForEarlierChangesAndDelaysNone) {
  FileOrder order;
  Ordered before, sync, after, second;
  EXPECT_TRUE(order.add(before));
  order.add(sync, Barrier::kSync);
  EXPECT_TRUE(order.add(after));
  order.add(second, Barrier::kSync);
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.done(before);
  EXPECT_THAT(order.take_ready(), ElementsAre(&sync));
  order.done(after);
  EXPECT_THAT(order.take_ready(), ElementsAre(&second)) << "both may run at once: the engine joins them";
  order.barrier_done(second);
  order.barrier_done(sync);
  EXPECT_THAT(order.take_ready(), IsEmpty());
  EXPECT_TRUE(order.idle());
}

TEST(FileOrder, ATruncateDelaysLaterChanges) {
  FileOrder order;
  Ordered before, truncate, after, sync, truncate_again, last;
  EXPECT_TRUE(order.add(before));
  order.add(truncate, Barrier::kExclusive);
  EXPECT_FALSE(order.add(after));
  order.add(sync, Barrier::kSync);
  order.add(truncate_again, Barrier::kExclusive);
  EXPECT_FALSE(order.add(last));
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.done(before);
  EXPECT_THAT(order.take_ready(), ElementsAre(&truncate));
  order.barrier_done(truncate);
  EXPECT_THAT(order.take_ready(), ElementsAre(&after));
  order.done(after);
  EXPECT_THAT(order.take_ready(), ElementsAre(&sync));
  order.barrier_done(sync);
  EXPECT_THAT(order.take_ready(), ElementsAre(&truncate_again));
  order.barrier_done(truncate_again);
  EXPECT_THAT(order.take_ready(), ElementsAre(&last));
  order.done(last);
  EXPECT_TRUE(order.idle());
}

// A client that does not read its replies, or whose reads have reached a limit, must not delay the syncs of others.
TEST(FileOrder, NoBarrierWaitsForReads) {
  FileOrder order;
  Ordered read, sync, truncate, after;
  EXPECT_TRUE(order.add_read(read));
  order.add(sync, Barrier::kSync);
  EXPECT_THAT(order.take_ready(), ElementsAre(&sync));
  order.barrier_done(sync);
  order.add(truncate, Barrier::kExclusive);
  EXPECT_FALSE(order.add_read(after)) << "it arrived after the truncate";
  EXPECT_THAT(order.take_ready(), ElementsAre(&truncate));
  order.barrier_done(truncate);
  EXPECT_THAT(order.take_ready(), ElementsAre(&after));
  EXPECT_TRUE(order.idle());
}

// Thousands of processes sync one file behind a slow transfer. If each call looked at all of them, this would take
// hours.
TEST(FileOrder, AnyNumberOfSyncsMayWait) {
  constexpr std::size_t kSyncs = 1'000'000;
  FileOrder order;
  Ordered transfer;
  ASSERT_TRUE(order.add(transfer));
  std::vector<Ordered> syncs(kSyncs);
  for (Ordered& sync : syncs) {
    order.add(sync, Barrier::kSync);
    EXPECT_TRUE(order.take_ready().empty());
  }
  order.done(transfer);
  EXPECT_EQ(order.take_ready().size(), kSyncs);
  for (Ordered& sync : syncs) {
    order.barrier_done(sync);
    EXPECT_TRUE(order.take_ready().empty());
  }
  EXPECT_TRUE(order.idle());
}

// Random arrivals and completions: no entry starts before those it must wait for are done.
TEST(FileOrder, NoEntryStartsTooEarlyInRandomSequences) {
  enum class What { kRead, kChange, kSync, kExclusive };
  struct Entry : Ordered {
    What what;
    bool started = false, done = false;
  };
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    FileOrder order;
    std::deque<Entry> entries;
    std::vector<Entry*> running;
    const auto start = [&](Ordered* at_once) {
      auto all = order.take_ready();
      if (at_once) all.push_back(at_once);
      for (Ordered* ready : all) {
        auto* entry = static_cast<Entry*>(ready);
        ASSERT_FALSE(entry->started);
        entry->started = true;
        for (const Entry& earlier : entries) {
          if (&earlier == entry) break;
          const bool waits_for_change = entry->what == What::kSync || entry->what == What::kExclusive;
          const bool matters = earlier.what == What::kExclusive ||
                               (earlier.what == What::kChange && waits_for_change) ||
                               (earlier.what == What::kSync && entry->what == What::kExclusive);
          ASSERT_TRUE(!matters || earlier.done) << "seed " << seed;
        }
        running.push_back(entry);
      }
    };
    for (int step = 0; step < 200 || !running.empty(); ++step) {
      Ordered* at_once = nullptr;
      if (step < 200 && prng.chance(0.5)) {
        Entry& entry = entries.emplace_back();
        const double kind = prng.uniform();
        entry.what = kind < 0.3    ? What::kRead
                     : kind < 0.7  ? What::kChange
                     : kind < 0.85 ? What::kSync
                                   : What::kExclusive;
        if (entry.what == What::kRead)
          at_once = order.add_read(entry) ? &entry : nullptr;
        else if (entry.what == What::kChange)
          at_once = order.add(entry) ? &entry : nullptr;
        else
          order.add(entry, entry.what == What::kSync ? Barrier::kSync : Barrier::kExclusive);
      } else if (!running.empty()) {
        const std::size_t chosen = prng.below(running.size());
        Entry* entry = running[chosen];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(chosen));
        entry->done = true;
        if (entry->what == What::kChange)
          order.done(*entry);
        else if (entry->what != What::kRead)
          order.barrier_done(*entry);
      }
      start(at_once);
    }
    for (const Entry& entry : entries) EXPECT_TRUE(entry.done);
    EXPECT_TRUE(order.idle());
  }
}

TEST(UsageTable, CountsAndStaysBounded) {
  UsageTable table(10);
  table.arrived({.application = 1, .target = 2, .direction = Direction::kWrite, .bytes = 100}, "ior");
  auto report = table.page({}).rows;
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(report[0].waiting_bytes, 100U);
  EXPECT_EQ(report[0].job, "ior");
  for (ApplicationId id = 10; id < 100; ++id) {
    const UsageTable::Transfer transfer{.application = id, .target = 0, .direction = Direction::kRead, .bytes = 1};
    table.arrived(transfer, "");
    table.finished(transfer, 1, {});
  }
  EXPECT_LE(table.size(), 10U);
  table.finished({.application = 1, .target = 2, .direction = Direction::kWrite, .bytes = 100}, 100, {});
  report = table.page({}).rows;
  EXPECT_TRUE(std::any_of(report.begin(), report.end(), [](const wire::Usage& usage) {
    return usage.application == 1 && usage.written_bytes == 100 && usage.waiting == 0;
  })) << "rows with waiting requests are kept";
}

TEST(UsageTable, TheSameNumberOfTwoUsersIsTwoRows) {
  UsageTable table;
  table.arrived({.application = 4711, .user = 1001, .target = 0, .bytes = 1}, "ior");
  table.arrived({.application = 4711, .user = 1000, .target = 0, .bytes = 2}, "ior");
  const auto rows = table.page({}).rows;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].user, 1000U);
  EXPECT_EQ(rows[0].waiting_bytes, 2U);
  EXPECT_EQ(table.page(wire::usage_key(rows[0]).next()).rows.size(), 1U);
}

TEST(UsageTable, PagesAreCompleteAndAscend) {
  UsageTable table;
  const auto key_of = [](const wire::Usage& usage) { return wire::usage_key(usage); };
  for (ApplicationId id = 2000; id > 0; --id) table.arrived({.application = id * 7919, .target = id % 3}, "");
  table.arrived({.application = ~ApplicationId{0}, .target = ~TargetId{0}}, "");
  std::vector<wire::Usage> all;
  wire::UsageKey first;
  for (bool more = true; more;) {
    auto page = table.page(first);
    ASSERT_LE(page.rows.size(), wire::kMaxUsage);
    ASSERT_FALSE(page.rows.empty());
    all.insert(all.end(), page.rows.begin(), page.rows.end());
    first = key_of(all.back()).next();
    more = page.more;
  }
  EXPECT_EQ(all.size(), 2001U);
  EXPECT_TRUE(std::ranges::is_sorted(all, std::ranges::less{}, key_of));
}

TEST(UsageTable, SumsOfWaitingTimesSaturate) {
  UsageTable table;
  const UsageTable::Transfer transfer{.application = 1, .target = 0, .direction = Direction::kRead, .bytes = 1};
  for (int i = 0; i < 3; ++i) {
    table.arrived(transfer, "");
    table.finished(transfer, 1, {.queued = Duration::max() / 2, .waiting = {}, .engine = Duration::max() / 2});
  }
  EXPECT_EQ(table.page({}).rows[0].queued, Duration::max());
  EXPECT_EQ(table.page({}).rows[0].engine, Duration::max());
}

}  // namespace
}  // namespace tutti::node

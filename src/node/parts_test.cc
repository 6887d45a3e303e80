// SPDX-License-Identifier: Apache-2.0
// The node's state machines by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/prng.h"
#include "node/file_order.h"
#include "node/usage.h"
#include "node/workers.h"

namespace tutti::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FileOrder, TransfersGoAtOnce) {
  FileOrder order;
  Ordered a, b;
  order.add(a);
  order.add(b);
  EXPECT_THAT(order.take_ready(), ElementsAre(&a, &b));
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.done(b);
  order.done(a);
  EXPECT_TRUE(order.idle());
}

TEST(FileOrder, ASyncWaitsForWhatCameBeforeAndHoldsUpNothing) {
  FileOrder order;
  Ordered before, sync, after, second;
  order.add(before);
  order.add(sync, Barrier::kSync);
  order.add(after);
  order.add(second, Barrier::kSync);
  EXPECT_THAT(order.take_ready(), ElementsAre(&before, &after));
  order.done(before);
  EXPECT_THAT(order.take_ready(), ElementsAre(&sync));
  order.done(after);
  EXPECT_THAT(order.take_ready(), ElementsAre(&second)) << "both may run at once: the engine joins them";
  order.barrier_done(second);
  order.barrier_done(sync);
  EXPECT_THAT(order.take_ready(), IsEmpty());
  EXPECT_TRUE(order.idle());
}

TEST(FileOrder, ATruncateHoldsUpWhatComesLater) {
  FileOrder order;
  Ordered before, truncate, after, sync, truncate_again, last;
  order.add(before);
  order.add(truncate, Barrier::kExclusive);
  order.add(after);
  order.add(sync, Barrier::kSync);
  order.add(truncate_again, Barrier::kExclusive);
  order.add(last);
  EXPECT_THAT(order.take_ready(), ElementsAre(&before));
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

// Random arrivals and completions against the definition: nothing starts before what it must wait for is done.
TEST(FileOrder, KeepsItsPromiseOnRandomSequences) {
  enum class What { kTransfer, kSync, kExclusive };
  struct Entry : Ordered {
    What what;
    bool started = false, done = false;
  };
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    FileOrder order;
    std::deque<Entry> entries;
    std::vector<Entry*> running;
    const auto start = [&] {
      for (Ordered* ready : order.take_ready()) {
        auto* entry = static_cast<Entry*>(ready);
        ASSERT_FALSE(entry->started);
        entry->started = true;
        for (const Entry& earlier : entries) {
          if (&earlier == entry) break;
          const bool matters = entry->what != What::kTransfer
                                   ? earlier.what != What::kSync || entry->what == What::kExclusive
                                   : earlier.what == What::kExclusive;
          ASSERT_TRUE(!matters || earlier.done) << "seed " << seed;
        }
        running.push_back(entry);
      }
    };
    for (int step = 0; step < 200 || !running.empty(); ++step) {
      if (step < 200 && prng.chance(0.5)) {
        Entry& entry = entries.emplace_back();
        const double kind = prng.uniform();
        entry.what = kind < 0.7 ? What::kTransfer : kind < 0.85 ? What::kSync : What::kExclusive;
        if (entry.what == What::kTransfer)
          order.add(entry);
        else
          order.add(entry, entry.what == What::kSync ? Barrier::kSync : Barrier::kExclusive);
      } else if (!running.empty()) {
        const std::size_t chosen = prng.below(running.size());
        Entry* entry = running[chosen];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(chosen));
        entry->done = true;
        if (entry->what == What::kTransfer)
          order.done(*entry);
        else
          order.barrier_done(*entry);
      }
      start();
    }
    for (const Entry& entry : entries) EXPECT_TRUE(entry.done);
    EXPECT_TRUE(order.idle());
  }
}

TEST(UsageTable, CountsAndStaysBounded) {
  UsageTable table(10);
  table.arrived({.application = 1, .target = 2, .direction = Direction::kWrite, .bytes = 100}, "ior");
  auto report = table.report(10000);
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
  report = table.report(10000);
  EXPECT_TRUE(std::any_of(report.begin(), report.end(), [](const wire::Usage& usage) {
    return usage.application == 1 && usage.written_bytes == 100 && usage.waiting == 0;
  })) << "somebody who waits is not forgotten";
  EXPECT_LE(table.report(3 * sizeof(wire::Usage)).size(), 3U);
}

TEST(Workers, TasksOfAStrandRunInOrder) {
  std::vector<int> order;
  std::atomic<int> others = 0;
  {
    Workers workers(4);
    const auto strand = std::make_shared<Workers::Strand>();
    for (int i = 0; i < 1000; ++i) {
      workers.post(strand, [&order, i] { order.push_back(i); });
      workers.post(std::make_shared<Workers::Strand>(), [&others] { ++others; });
    }
  }
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(others, 1000);
}

}  // namespace
}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
#include "node/credits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/prng.h"
#include "base/testing.h"

namespace tutti::node {
namespace {

using namespace literals;

// What a client knows, and the messages to it and from it, in order.
struct CreditClient {
  struct Message {
    std::uint64_t bytes = 0, number = 0;
  };
  Credits::Holder holder{};
  std::deque<Message> messages{};
  std::deque<std::uint64_t> answers{};
  std::uint64_t credit = 0;
  bool open = false;
};

TEST(Credits, UsersHaveEqualSharesHoweverManyConnections) {
  const net::WriteMemory memory(64_MiB);
  Credits credits(memory, 32_MiB);
  std::deque<Credits::Holder> holders(5);
  const auto accept_all = [&] {
    for (Credits::Holder& holder : holders) credits.accepted(holder, holder.number);
  };
  credits.join(holders[0]);
  EXPECT_EQ(holders[0].granted, memory.with_writes.count());
  holders[4].user = 1;
  for (std::size_t i = 1; i < 5; ++i) {
    credits.join(holders[i]);
    accept_all();
  }
  credits.look();
  const std::uint64_t half = memory.with_writes.count() / 2;
  EXPECT_EQ(holders[4].granted, half);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(holders[i].granted, half / 4);
}

TEST(Credits, ACreditThatIsNotGivenUpCounts) {
  Credits credits(net::WriteMemory(64_MiB), 32_MiB);
  Credits::Holder silent, other;
  credits.join(silent);
  credits.join(other);
  EXPECT_EQ(silent.granted, (16_MiB).count());
  EXPECT_EQ(silent.reserved, (32_MiB).count());
  EXPECT_EQ(other.granted, 0u) << "the silent client may use all of it";
  credits.remove(silent);
  credits.look();
  EXPECT_EQ(other.granted, (32_MiB).count());
}

TEST(Credits, ConnectionsWithoutLargeWritesLoseTheirCreditUntilTheNextOne) {
  Credits credits(net::WriteMemory(64_MiB), 32_MiB);
  Credits::Holder idle, busy;
  credits.join(idle);
  credits.join(busy);
  for (int i = 0; i < 10; ++i) {
    busy.used = true;
    credits.look();
    credits.accepted(idle, idle.number);
  }
  EXPECT_EQ(idle.granted, 0u);
  EXPECT_EQ(busy.granted, (32_MiB).count());
  credits.join(idle);
  credits.accepted(busy, busy.number);
  EXPECT_EQ(idle.granted, (16_MiB).count());
}

// In any order of events, with messages that take any time: the clients together never have more than the memory.
TEST(Credits, TheSumOfAllCreditsStaysWithinTheMemory) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2})) {
    SCOPED_TRACE(seed);
    Prng random(seed);
    const net::WriteMemory memory(64_MiB);
    Credits credits(memory, 32_MiB);
    std::deque<CreditClient> clients(12);
    for (std::size_t i = 0; i < clients.size(); ++i) clients[i].holder.user = static_cast<std::uint32_t>(i % 3);
    const auto announce = [&](const Credits::Changes& changes) {
      for (CreditClient& client : clients)
        if (std::ranges::find(changes, &client.holder) != changes.end())
          client.messages.push_back({client.holder.granted, client.holder.number});
    };
    for (int step = 0; step < 20000; ++step) {
      CreditClient& client = clients[random() % clients.size()];
      const auto action = random() % 12;
      if (action == 0 && !client.open) {
        client.open = true;
        announce(credits.join(client.holder));
      } else if (action == 1 && client.open && random() % 4 == 0) {
        credits.remove(client.holder);
        client.holder.granted = client.credit = 0;
        client.messages.clear();
        client.answers.clear();
        client.open = false;
      } else if (action == 2 && client.open) {
        client.holder.used = true;
        announce(credits.join(client.holder));
      } else if (action == 3) {
        announce(credits.look());
      } else if (action < 8 && !client.messages.empty()) {
        client.credit = client.messages.front().bytes;
        client.answers.push_back(client.messages.front().number);
        client.messages.pop_front();
      } else if (!client.answers.empty()) {
        const std::uint64_t number = client.answers.front();
        client.answers.pop_front();
        announce(credits.accepted(client.holder, number));
      }
      std::uint64_t sum = 0;
      for (const CreditClient& one : clients) {
        ASSERT_LE(one.credit, one.holder.reserved);
        sum += one.holder.reserved;
      }
      ASSERT_LE(sum, memory.with_writes.count());
    }
  }
}

}  // namespace
}  // namespace tutti::node

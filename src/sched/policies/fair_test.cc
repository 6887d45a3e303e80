// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>

#include "base/prng.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

Request from(RequestId id, ApplicationId application, std::uint64_t length) {
  Request request = make_request(id);
  request.stamp.application = application;
  request.length = Bytes(length);
  return request;
}

TEST(Fair, SharesFollowWeightsWithinOnePercent) {
  auto policy = make("fair", {{"weights", "1=1, 2=2, 3=5"}});
  Prng prng(1);
  std::map<ApplicationId, double> served;
  RequestId id = 1;
  std::map<RequestId, ApplicationId> owner;
  const auto feed = [&](ApplicationId application) {
    owner[id] = application;
    policy->add(from(id++, application, 4096 * (1 + prng.below(64))), at_ms(0));
  };
  for (ApplicationId application : {1, 2, 3})
    for (int i = 0; i < 4; ++i) feed(application);
  double total = 0;
  for (int i = 0; i < 100'000; ++i) {
    const Decision decision = policy->next(at_ms(0));
    const Request request = std::get<Dispatch>(decision).batch.requests.front();
    served[request.stamp.application] += static_cast<double>(request.length.count());
    total += static_cast<double>(request.length.count());
    feed(request.stamp.application);
  }
  EXPECT_NEAR(served[1] / total, 1.0 / 8, 0.01 / 8);
  EXPECT_NEAR(served[2] / total, 2.0 / 8, 0.02 / 8);
  EXPECT_NEAR(served[3] / total, 5.0 / 8, 0.05 / 8);
}

// A user that states the number of another user's job neither uses its share nor gets its weight.
TEST(Fair, TheSameNumberOfTwoUsersIsTwoApplications) {
  auto policy = make("fair", {{"weights", "7@1000=3"}, {"limits", "8@1000=1MB/s"}});
  RequestId id = 1;
  for (UserId user : {1000, 1001})
    for (int i = 0; i < 100; ++i) {
      Request request = from(id++, 7, 1000);
      request.stamp.user = user;
      policy->add(request, at_ms(0));
    }
  int first = 0;
  for (int i = 0; i < 80; ++i) first += next_ids(*policy).front() <= 100;
  EXPECT_NEAR(first, 60, 1);
  EXPECT_FALSE(make_policy("fair", {{"weights", "7@=3"}}));
  EXPECT_FALSE(make_policy("fair", {{"weights", "@7=3"}}));
}

TEST(Fair, AnIdleApplicationCanNotSaveUp) {
  auto policy = make("fair");
  for (RequestId id = 1; id <= 100; ++id) policy->add(from(id, 1, 1000), at_ms(0));
  for (int i = 0; i < 50; ++i) next_ids(*policy);
  for (RequestId id = 101; id <= 150; ++id) policy->add(from(id, 2, 1000), at_ms(0));
  int second = 0;
  for (int i = 0; i < 40; ++i) second += next_ids(*policy).front() > 100;
  EXPECT_NEAR(second, 20, 1);
}

// Serves everything one application has, from t on, and says how long that took.
Duration time_to_drain(Policy& policy, TimePoint t) {
  const TimePoint start = t;
  while (policy.waiting() > 0) {
    const Decision decision = policy.next(t);
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) t = wait->at;
  }
  return t - start;
}

TEST(Fair, ALimitInBytesPerSecondHolds) {
  auto policy = make("fair", {{"limits", "7=1MB/s"}, {"burst", "10ms"}});
  for (RequestId id = 1; id <= 100; ++id) policy->add(from(id, 7, 100'000), at_ms(0));
  const Duration took = time_to_drain(*policy, at_ms(0));
  EXPECT_GE(took, 9700ms);  // 10 MB at 1 MB/s, the last request and a burst are free
  EXPECT_LE(took, 10000ms);
}

TEST(Fair, ALimitInRequestsPerSecondHoldsAndHarmsNobodyElse) {
  auto policy = make("fair", {{"limits", "7=100/s"}, {"burst", "0"}});
  for (RequestId id = 1; id <= 50; ++id) policy->add(from(id, 7, 1), at_ms(0));
  for (RequestId id = 101; id <= 200; ++id) policy->add(from(id, 8, 1), at_ms(0));
  int limited = 0;
  for (int i = 0; i < 100; ++i) limited += next_ids(*policy, at_ms(0)).front() <= 50;
  EXPECT_EQ(limited, 1);
  EXPECT_NEAR(std::chrono::duration<double>(time_to_drain(*policy, at_ms(0))).count(), 0.49, 0.02);
}

// Three jobs of user 1000 have 1 MB/s together, a job of user 1001 has its own.
TEST(Fair, ALimitOfAUserHoldsForItsJobsTogether) {
  auto policy = make("fair", {{"limits", "user:1000=1MB/s, user:*=2MB/s"}, {"burst", "0"}});
  RequestId id = 1;
  std::map<RequestId, UserId> users;
  for (ApplicationId application : {1, 2, 3, 4})
    for (int i = 0; i < 1000; ++i) {
      Request request = from(id, application, 1000);
      request.stamp.user = users[id++] = application == 4 ? 1001 : 1000;
      policy->add(request, at_ms(0));
    }
  std::map<UserId, double> served;
  for (int ms = 0; ms < 1000; ++ms)
    for (Decision decision = policy->next(at_ms(ms)); std::holds_alternative<Dispatch>(decision);
         decision = policy->next(at_ms(ms)))
      served[users[std::get<Dispatch>(decision).batch.requests.front().id]] += 1000;
  EXPECT_NEAR(served[1000], 1e6, 2000);
  EXPECT_NEAR(served[1001], 1e6, 2000);  // it has no more
}

TEST(Fair, LimitsOfUsersAndNamesThatAreWrongAreRefused) {
  for (const char* limits : {"user:=1MB/s", "user:bob=1MB/s", "name:=1MB/s", "user:1000=1MB", "name:x"})
    EXPECT_FALSE(make_policy("fair", {{"limits", limits}})) << limits;
  EXPECT_FALSE(make_policy("fair", {{"weights", "user:1000=2"}}));
  EXPECT_TRUE(make_policy("fair", {{"limits", "user:1000=1MB/s, name:a b=5/s, 7=1MB/s"}}));
}

TEST(Fair, AClockThatJumpsBackDoesNotFreezeALimitedApplication) {
  auto policy = make("fair", {{"limits", "*=1MB/s"}});
  const TimePoint noon{12h};
  for (RequestId id = 1; id <= 10; ++id) policy->add(from(id, 1, 1'000'000), noon);
  next_ids(*policy, noon);
  next_ids(*policy, noon - 11h);
  EXPECT_LE(time_to_drain(*policy, noon - 11h), 10s);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "sched/service_accounts.h"

#include <gmock/gmock.h>

#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace testing_support;

Request served_request(ApplicationId application, PhaseNumber phase, Bytes length) {
  Request request = make_request(1);
  request.length = length;
  request.stamp.application = application;
  request.stamp.phase = phase;
  return request;
}

// The request arrives and is served; others may wait.
std::uint64_t serve(ServiceAccounts& accounts, const Request& request, TimePoint now, bool empty = false) {
  const auto account = accounts.arrived(request, now, empty);
  const std::uint64_t before = accounts.of(account).before;
  accounts.served(account, request, now);
  return before;
}

TEST(ServiceAccounts, PhasesThatFollowEachOtherAtOnceCountAsOne) {
  ServiceAccounts accounts(false);
  for (PhaseNumber phase = 1; phase <= 10; ++phase)
    EXPECT_EQ(serve(accounts, served_request(1, phase, 4_MiB), at_ms(phase)), (phase - 1) * (4_MiB).count());
}

TEST(ServiceAccounts, APauseIsForgivenAsManyBytesAsOthersWereServed) {
  ServiceAccounts accounts(false);
  serve(accounts, served_request(1, 1, 64_MiB), at_ms(0));
  serve(accounts, served_request(2, 1, 32_MiB), at_ms(1));
  EXPECT_EQ(serve(accounts, served_request(1, 2, 1_MiB), at_ms(2)), (48_MiB).count()) << "16 MiB are no pause";
  serve(accounts, served_request(2, 1, 128_MiB), at_ms(3));
  EXPECT_EQ(serve(accounts, served_request(1, 3, 1_MiB), at_ms(4)), 0u);
}

TEST(ServiceAccounts, WaitingIsNoPause) {
  ServiceAccounts accounts(false);
  serve(accounts, served_request(1, 1, 64_MiB), at_ms(0));
  accounts.arrived(served_request(1, 2, 1_MiB), at_ms(0), false);  // waits from now on
  serve(accounts, served_request(2, 1, 512_MiB), at_ms(1));
  EXPECT_EQ(serve(accounts, served_request(1, 3, 1_MiB), at_ms(2)), (64_MiB).count());
}

TEST(ServiceAccounts, AnIdleServerForgivesAtItsRate) {
  ServiceAccounts accounts(false);
  serve(accounts, served_request(1, 1, 50_MiB), at_ms(0), true);
  serve(accounts, served_request(1, 1, 50_MiB), at_ms(1000));  // 100 MiB/s
  EXPECT_EQ(serve(accounts, served_request(1, 2, 1_MiB), at_ms(1500), true), (66_MiB).count());
  serve(accounts, served_request(1, 2, 99_MiB), at_ms(2500));
  EXPECT_EQ(serve(accounts, served_request(1, 3, 1_MiB), at_ms(9000), true), 0u);
}

TEST(ServiceAccounts, AClockThatJumpsBackForgivesNothing) {
  ServiceAccounts accounts(false);
  serve(accounts, served_request(1, 1, 64_MiB), at_ms(1000));
  EXPECT_EQ(serve(accounts, served_request(1, 2, 1_MiB), at_ms(0), true), (64_MiB).count());
}

TEST(ServiceAccounts, ManyApplicationsDoNotGrowTheTableForEver) {
  ServiceAccounts accounts(false);
  for (ApplicationId application = 1; application <= 100'000; ++application)
    serve(accounts, served_request(application, 1, 1_MiB), at_ms(application));
  EXPECT_LT(accounts.size(), 20'000u);
}

}  // namespace
}  // namespace tutti

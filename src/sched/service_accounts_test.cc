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
double serve(ServiceAccounts& accounts, const Request& request, TimePoint now, bool empty = false) {
  const auto account = accounts.arrived(request, now, empty);
  const std::uint64_t before = accounts.of(account).before;
  accounts.served(account, request, now);
  return static_cast<double>(before);
}

constexpr double kMiB = 1 << 20;

// Alone, an account is forgiven two fifths of what it is served.
TEST(ServiceAccounts, PhasesThatFollowEachOtherAtOnceCountAsOne) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  for (PhaseNumber phase = 1; phase <= 10; ++phase)
    EXPECT_NEAR(serve(accounts, served_request(1, phase, 5_MiB), at_ms(phase)), (phase - 1) * 3 * kMiB, kMiB / 100);
}

TEST(ServiceAccounts, TwoFifthsOfAnEqualShareAreForgiven) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  for (ApplicationId other = 2; other <= 5; ++other) accounts.arrived(served_request(other, 1, 1_GiB), at_ms(0), false);
  for (PhaseNumber phase = 1; phase <= 10; ++phase)  // with 5 accounts: 8% of the service
    EXPECT_NEAR(serve(accounts, served_request(1, phase, 25_MiB), at_ms(phase)), (phase - 1) * 23 * kMiB, kMiB / 100);
  // Also while an account waits:
  const auto waiting = accounts.arrived(served_request(6, 1, 100_MiB), at_ms(20), false);
  serve(accounts, served_request(7, 1, 600_MiB), at_ms(21));  // with 6 accounts
  accounts.served(waiting, served_request(6, 1, 100_MiB), at_ms(22));
  EXPECT_NEAR(serve(accounts, served_request(6, 2, 20_MiB), at_ms(23)), (100 - 40 - 8) * kMiB, kMiB / 100);
}

TEST(ServiceAccounts, APauseIsForgivenAsManyBytesAsOthersWereServed) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  serve(accounts, served_request(1, 1, 100_MiB), at_ms(0));
  serve(accounts, served_request(2, 1, 32_MiB), at_ms(1));
  const double left = 100 - 0.4 * 132 - (32 - 16);  // 16 MiB are no pause
  EXPECT_NEAR(serve(accounts, served_request(1, 2, 1_MiB), at_ms(2)), left * kMiB, kMiB / 100);
  serve(accounts, served_request(2, 1, 128_MiB), at_ms(3));
  EXPECT_EQ(serve(accounts, served_request(1, 3, 1_MiB), at_ms(4)), 0u);
}

TEST(ServiceAccounts, WaitingIsNoPause) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  serve(accounts, served_request(1, 1, 100_MiB), at_ms(0));
  accounts.arrived(served_request(1, 2, 1_MiB), at_ms(0), false);  // waits from now on
  serve(accounts, served_request(2, 1, 200_MiB), at_ms(1));
  EXPECT_NEAR(serve(accounts, served_request(1, 3, 1_MiB), at_ms(2)), (60 - 0.2 * 200) * kMiB, kMiB / 100);
}

TEST(ServiceAccounts, AnIdleServerForgivesAtItsRate) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  serve(accounts, served_request(1, 1, 50_MiB), at_ms(0), true);
  serve(accounts, served_request(1, 1, 50_MiB), at_ms(1000));  // 100 MiB/s
  EXPECT_NEAR(serve(accounts, served_request(1, 2, 1_MiB), at_ms(1500), true), (60 - 34) * kMiB, kMiB / 100);
  serve(accounts, served_request(1, 2, 99_MiB), at_ms(2500));
  EXPECT_EQ(serve(accounts, served_request(1, 3, 1_MiB), at_ms(9000), true), 0u);
}

TEST(ServiceAccounts, UnprovenApplicationsOfAUserShareAnAccount) {
  const auto charge = [](ServiceAccounts::Of whose, bool proven, UserId last) {
    ServiceAccounts accounts(whose);
    for (ApplicationId application = 1; application <= 11; ++application) {
      Request request = served_request(application, 1, 5_MiB);
      request.job_proven = proven;
      request.stamp.user = application == 11 ? last : 1000;
      if (application == 11) return serve(accounts, request, at_ms(0));
      serve(accounts, request, at_ms(0));
    }
    return 0.0;
  };
  using Of = ServiceAccounts::Of;
  EXPECT_EQ(charge(Of::kAuto, true, 1000), 0);
  EXPECT_NEAR(charge(Of::kAuto, false, 1000), 30 * kMiB, kMiB / 100);
  EXPECT_EQ(charge(Of::kAuto, false, 1001), 0) << "another user";
  EXPECT_EQ(charge(Of::kJob, false, 1000), 0);
  EXPECT_NEAR(charge(Of::kUser, true, 1000), 30 * kMiB, kMiB / 100);
}

TEST(ServiceAccounts, AClockThatJumpsBackForgivesNothing) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  serve(accounts, served_request(1, 1, 64_MiB), at_ms(1000));
  EXPECT_NEAR(serve(accounts, served_request(1, 2, 1_MiB), at_ms(0), true), 0.6 * 64 * kMiB, kMiB / 100);
}

TEST(ServiceAccounts, ManyApplicationsDoNotGrowTheTableForEver) {
  ServiceAccounts accounts(ServiceAccounts::Of::kAuto);
  for (ApplicationId application = 1; application <= 100'000; ++application)
    serve(accounts, served_request(application, 1, 1_MiB), at_ms(application));
  EXPECT_LT(accounts.size(), 20'000u);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <set>

#include "base/prng.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace testing_support;
using testing::ElementsAre;

Request issued(RequestId id, ApplicationId application, std::int64_t milliseconds) {
  Request request = make_request(id);
  request.stamp.application = application;
  request.stamp.issued = at_ms(milliseconds);
  return request;
}

// Figure 2: three applications, four servers, one piece of each application on each server except where the figure
// leaves a gap: A has work for two time units on each server, B and C for one. All servers serve in one order.
TEST(Window, Figure2CommonOrderBringsTheMeanFrom4To3) {
  // Each server's own order of arrival, left part of the figure: every application ends last somewhere.
  const std::vector<std::vector<ApplicationId>> arrivals = {{1, 1, 2, 3}, {2, 3, 1, 1}, {3, 1, 1, 2}, {1, 2, 3, 1}};
  std::map<ApplicationId, int> uncoordinated, coordinated;
  for (const auto& order : arrivals) {
    auto fifo = make("fifo"), window = make("window");
    for (std::size_t i = 0; i < order.size(); ++i) {
      fifo->add(issued(i + 1, order[i], 0), at_ms(0));
      window->add(issued(i + 1, order[i], 0), at_ms(0));
    }
    for (int t = 1; t <= 4; ++t) {
      uncoordinated[order[next_ids(*fifo).front() - 1]] =
          std::max(uncoordinated[order[static_cast<std::size_t>(t) - 1]], t);
      const ApplicationId served = order[next_ids(*window).front() - 1];
      coordinated[served] = std::max(coordinated[served], t);
    }
  }
  EXPECT_THAT(uncoordinated, testing::ElementsAre(testing::Pair(1, 4), testing::Pair(2, 4), testing::Pair(3, 4)));
  EXPECT_THAT(coordinated, testing::ElementsAre(testing::Pair(1, 2), testing::Pair(2, 3), testing::Pair(3, 4)));
}

// Figure 4: requests are split into windows by issue time and ordered by application inside each.
TEST(Window, Figure4WindowsFirstThenApplications) {
  auto policy = make("window", {{"width", "1000ms"}, {"slack", "10s"}});
  const std::vector<Request> arrivals = {issued(1, 3, 1100), issued(2, 2, 900),  issued(3, 1, 1900), issued(4, 3, 100),
                                         issued(5, 1, 999),  issued(6, 2, 1000), issued(7, 1, 0),    issued(8, 2, 5)};
  for (const Request& request : arrivals) policy->add(request, at_ms(2000));
  EXPECT_THAT(drain(*policy, at_ms(2000)), ElementsAre(5, 7, 2, 8, 4, 3, 6, 1));
}

// A client cannot put itself before the others by stamps of an earlier window, nor fall behind by a clock that is
// ahead.
TEST(Window, AClockThatIsOffGainsNoMoreThanTheSlack) {
  auto policy = make("window", {{"width", "1000ms"}, {"slack", "100ms"}});
  policy->add(issued(1, 1, 5500), at_ms(5500));
  policy->add(issued(2, 2, -3'600'000), at_ms(5500));  // an hour behind
  policy->add(issued(3, 0, 3'600'000), at_ms(5500));   // an hour ahead
  EXPECT_THAT(drain(*policy, at_ms(5500)), ElementsAre(3, 1, 2));
  policy->add(issued(4, 1, 6050), at_ms(6050));
  policy->add(issued(5, 2, -3'600'000), at_ms(6050));  // as if 100 ms behind: in the window before
  EXPECT_THAT(drain(*policy, at_ms(6050)), ElementsAre(5, 4));
}

// Servers that were idle all begin with the application that goes first, whose request was not the first one here.
TEST(Window, AServerThatWasIdleGathers) {
  auto policy = make("window", {{"gather", "10ms"}});
  const auto waits_until = [&](std::int64_t now) { return std::get<WaitUntil>(policy->next(at_ms(now))).at; };
  policy->add(issued(1, 2, 0), at_ms(0));
  EXPECT_EQ(waits_until(0), at_ms(10));
  policy->add(issued(2, 1, 0), at_ms(9));
  EXPECT_EQ(waits_until(9), at_ms(10));
  EXPECT_THAT(next_ids(*policy, at_ms(10)), ElementsAre(2));
  policy->add(issued(3, 1, 0), at_ms(11));  // it is busy now
  EXPECT_THAT(next_ids(*policy, at_ms(11)), ElementsAre(3));
  EXPECT_THAT(next_ids(*policy, at_ms(11)), ElementsAre(1));
  policy->add(issued(4, 1, 0), at_ms(20));
  EXPECT_EQ(waits_until(25), at_ms(30));
  EXPECT_THAT(next_ids(*policy, at_ms(30)), ElementsAre(4));
}

TEST(Window, TheOrderIdGoesBeforeTheApplicationAndDoesNotMixTwoThatShareIt) {
  auto policy = make("window");
  const auto add = [&](RequestId id, ApplicationId application, OrderId order) {
    Request request = issued(id, application, 0);
    request.stamp.order = order;
    policy->add(request, at_ms(0));
  };
  add(1, 1, 32767);
  add(2, 7, 5);
  add(3, 3, 5);
  add(4, 7, 5);
  add(5, 3, 5);
  add(6, 4000000000, 0);
  EXPECT_THAT(drain(*policy), ElementsAre(6, 3, 5, 2, 4, 1));
}

TEST(Window, TheDefaultWidthDependsOnTheDevice) {
  const auto goes_first = [](std::string_view device_class, PolicyOptions options) {
    auto policy = std::move(*make_policy("window", std::move(options), device_class));
    policy->add(issued(1, 9, 0), at_ms(0));
    policy->add(issued(2, 1, 300), at_ms(300));  // a later window only if windows are short
    return next_ids(*policy, at_ms(900)).front();
  };
  EXPECT_EQ(goes_first("hdd", {}), 2u);
  EXPECT_EQ(goes_first("", {}), 2u);
  EXPECT_EQ(goes_first("ssd", {}), 1u);
  EXPECT_EQ(goes_first("nvme", {}), 1u);
  EXPECT_EQ(goes_first("nvme", {{"width", "1000ms"}}), 2u) << "what is given counts";
}

TEST(Window, AnEarlierWindowGoesFirstWhateverTheApplication) {
  auto policy = make("window", {{"width", "250ms"}, {"slack", "100ms"}});
  policy->add(issued(1, 0, 250), at_ms(300));
  policy->add(issued(2, 32767, 249), at_ms(300));
  EXPECT_THAT(drain(*policy, at_ms(300)), ElementsAre(2, 1));
}

TEST(Window, AnEmptyQueueServesAtOnce) {
  auto policy = make("window");
  policy->add(issued(1, 9, 123456), at_ms(123456));
  EXPECT_THAT(next_ids(*policy, at_ms(123456)), ElementsAre(1));
}

TEST(Window, TimesBefore1970AreWindowsToo) {
  auto policy = make("window", {{"width", "1000ms"}, {"patience", "0"}});
  policy->add(issued(1, 1, 500), at_ms(0));
  policy->add(issued(2, 2, -500), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 1));
}

Request placed(RequestId id, ApplicationId application, std::uint64_t offset) {
  Request request = issued(id, application, 0);
  request.file = application;
  request.offset = offset;
  return request;
}

// Upwards from where the last one was, then from the lowest again; another application's only afterwards.
TEST(Window, OrderByOffsetSweepsOverAnApplicationsRequests) {
  auto policy = make("window", {{"order", "offset"}});
  for (const RequestId id : {4, 2, 6, 3}) policy->add(placed(id, 1, id * 10), at_ms(0));
  policy->add(placed(9, 2, 0), at_ms(0));
  EXPECT_THAT(next_ids(*policy), ElementsAre(2));
  EXPECT_THAT(next_ids(*policy), ElementsAre(3));
  policy->add(placed(1, 1, 10), at_ms(0));  // behind the head: waits for the next sweep
  policy->add(placed(5, 1, 50), at_ms(0));  // before it
  EXPECT_THAT(drain(*policy), ElementsAre(4, 5, 6, 1, 9));
}

TEST(Window, OrderByOffsetKeepsWindowsAndApplicationsFirst) {
  auto policy = make("window", {{"order", "offset"}});
  Request late = placed(1, 1, 0);
  late.stamp.issued = at_ms(1000);
  policy->add(late, at_ms(1000));
  policy->add(placed(2, 2, 10), at_ms(1000));
  policy->add(placed(3, 1, 20), at_ms(1000));
  EXPECT_THAT(drain(*policy, at_ms(1000)), ElementsAre(3, 2, 1));
}

TEST(Window, OrderByOffsetLosesNothingWhenRequestsAreCancelledOrOverdue) {
  auto policy = make("window", {{"order", "offset"}, {"patience", "20ms"}});
  Prng prng(7);
  std::set<RequestId> waiting;
  RequestId id = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto dice = prng.below(100);
    if (dice < 50) {
      ++id;
      policy->add(placed(id, static_cast<ApplicationId>(prng.below(3)), prng.below(1000)), at_ms(step));
      waiting.insert(id);
    } else if (dice < 75) {
      const RequestId victim = id - std::min<RequestId>(id, prng.below(50));
      EXPECT_EQ(policy->cancel(victim).has_value(), waiting.erase(victim) == 1);
    } else {
      for (const RequestId served : next_ids(*policy, at_ms(step))) EXPECT_EQ(waiting.erase(served), 1u);
    }
    ASSERT_EQ(policy->waiting(), waiting.size());
  }
  EXPECT_EQ(drain(*policy, at_ms(20000)).size(), waiting.size());
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <set>

#include "sched/testing.h"

namespace tutti {
namespace {

using namespace testing_support;
using testing::ElementsAre;

Request to_target(RequestId id, TargetId target) {
  Request request = make_request(id);
  request.target = target;
  return request;
}

// While there are no more nodes than targets, no two nodes are on one target in the same window.
TEST(Twins, NodesThatShareAClockAreOnDifferentTargets) {
  constexpr int kTargets = 8;
  for (int nodes = 1; nodes <= kTargets; ++nodes) {
    std::vector<std::unique_ptr<Policy>> policies;
    for (int node = 0; node < nodes; ++node) {
      policies.push_back(
          make("twins", {{"width", "10ms"}, {"node", std::to_string(node)}, {"targets", "8"}, {"mode", "strict"}}));
      for (TargetId target = 0; target < kTargets; ++target)
        for (RequestId i = 0; i < 100; ++i) policies.back()->add(to_target(target * 1000 + i, target), at_ms(0));
    }
    for (int window = 0; window < 20; ++window) {
      std::set<RequestId> targets;
      for (auto& policy : policies) targets.insert(next_ids(*policy, at_ms(window * 10 + 3)).front() / 1000);
      EXPECT_EQ(targets.size(), policies.size()) << "window " << window;
    }
  }
}

TEST(Twins, ANodeStaysOnItsTargetForTheWholeWindowThenMovesOn) {
  auto policy = make("twins", {{"width", "10ms"}, {"targets", "3"}});
  for (RequestId id = 0; id < 30; ++id) policy->add(to_target(id, static_cast<TargetId>(id % 3)), at_ms(0));
  std::vector<RequestId> targets;
  for (const int ms : {0, 4, 9, 10, 19, 20, 29, 30}) targets.push_back(next_ids(*policy, at_ms(ms)).front() % 3);
  EXPECT_THAT(targets, ElementsAre(0, 0, 0, 1, 1, 2, 2, 0));
}

TEST(Twins, StrictIdlesUntilTheTargetsWindow) {
  auto policy = make("twins", {{"width", "10ms"}, {"targets", "4"}, {"mode", "strict"}});
  policy->add(to_target(1, 3), at_ms(0));
  const Decision decision = policy->next(at_ms(12));  // window 1 belongs to target 1
  ASSERT_TRUE(std::holds_alternative<WaitUntil>(decision));
  EXPECT_EQ(std::get<WaitUntil>(decision).at, at_ms(30));
  EXPECT_THAT(next_ids(*policy, at_ms(30)), ElementsAre(1));
}

TEST(Twins, ATargetsRequestsGoInOffsetOrderAndThoseThatAdjoinAsOne) {
  auto policy = make("twins", {{"width", "10ms"}, {"targets", "2"}, {"max_requests", "3"}});
  for (const RequestId id : {6, 2, 1, 4, 3}) {  // 6 lies apart; on target 0 like the others
    Request request = to_target(id, 0);
    request.file = 1;
    request.offset = id * 65536;
    request.length = Bytes(65536);
    policy->add(request, at_ms(0));
  }
  Request elsewhere = to_target(5, 1);
  elsewhere.file = 1;
  elsewhere.offset = 5 * 65536;
  elsewhere.length = Bytes(65536);
  policy->add(elsewhere, at_ms(0));
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(4));
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(6));
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(5));
}

TEST(Twins, LendServesAnotherTargetUntilItsOwnHasWork) {
  auto policy = make("twins", {{"width", "10ms"}, {"targets", "4"}});
  policy->add(to_target(1, 3), at_ms(0));
  policy->add(to_target(2, 3), at_ms(0));
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(1));
  policy->add(to_target(3, 0), at_ms(1));
  EXPECT_THAT(next_ids(*policy, at_ms(1)), ElementsAre(3));
  EXPECT_THAT(next_ids(*policy, at_ms(1)), ElementsAre(2));
}

TEST(Twins, LendGoesWhereLeastIsUnderWayAndThenToTheLowestOffset) {
  auto policy = make("twins", {{"width", "10ms"}, {"targets", "4"}});  // the window belongs to target 0
  const auto add = [&](RequestId id, TargetId target, std::uint64_t offset) {
    Request request = to_target(id, target);
    request.file = 1;
    request.offset = offset;
    policy->add(request, at_ms(0));
    return request;
  };
  const Request first = add(1, 1, 700);
  add(2, 1, 800), add(3, 2, 300), add(4, 3, 100);
  EXPECT_THAT(next_ids(*policy), ElementsAre(1));  // nothing is under way anywhere
  EXPECT_THAT(next_ids(*policy), ElementsAre(4));  // nothing at targets 2 and 3
  policy->completed(Batch{std::span(&first, 1)}, at_ms(0), at_ms(1));
  EXPECT_THAT(next_ids(*policy), ElementsAre(3));  // nothing at targets 1 and 2
  EXPECT_THAT(next_ids(*policy), ElementsAre(2));
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "collective/adaptive_choice.h"

#include <gtest/gtest.h>

#include <functional>

namespace tutti::collective {
namespace {

constexpr PlanKind kAlone = PlanKind::kIndependent, kTwo = PlanKind::kTwoPhase, kAgents = PlanKind::kResonant;
constexpr CallPattern kBlocks{.interleaved = true, .bytes = 16 << 20, .extents = 16, .ranks = 4};

constexpr Machine kMachine{.network_bandwidth = 4e9, .agents = 1};

// Of a call, by method.
using Times = std::function<CallTime(const Method&)>;

class AdaptiveChoices : public ::testing::Test {
 protected:
  // A disk: resonant is best by estimate.
  void learn(const CallPattern& pattern = kBlocks) {
    choice_.learn(pattern, {{kAgents, 0.2}, {kAlone, 0.3}, {kTwo, 0.5}}, kMachine);
  }
  // Calls on a machine; returns how they were carried out.
  std::vector<Method> run(unsigned calls, const Times& machine, const CallPattern& pattern = kBlocks,
                          bool mpi_allowed = true) {
    std::vector<Method> methods;
    for (unsigned i = 0; i < calls; ++i) {
      methods.push_back(choice_.choose(pattern, mpi_allowed));
      choice_.measured(pattern, methods.back(), machine(methods.back()));
    }
    return methods;
  }
  static std::size_t count(const std::vector<Method>& methods, const Method& method) {
    return static_cast<std::size_t>(std::count(methods.begin(), methods.end(), method));
  }

  AdaptiveChoice choice_;
};

// The data is in the page cache; independent is the fastest.
CallTime page_cache(const Method& method) {
  if (!method) return {0.03, 0.03};
  return *method == kAlone ? CallTime{0.005, 0.005} : CallTime{*method == kTwo ? 0.012 : 0.06, 0.004};
}

TEST_F(AdaptiveChoices, TheFirstCallUsesTheEstimates) {
  EXPECT_FALSE(choice_.knows(kBlocks));
  learn();
  EXPECT_TRUE(choice_.knows(kBlocks));
  EXPECT_EQ(choice_.choose(kBlocks, true), kAgents);
}

TEST_F(AdaptiveChoices, DataInMemoryIsNoticedInTheFirstCall) {
  learn();
  const auto methods = run(200, page_cache);
  EXPECT_EQ(methods[0], kAgents);
  EXPECT_EQ(methods[1], kAlone);
  EXPECT_GE(count(methods, kAlone), 196u);
}

TEST_F(AdaptiveChoices, DataThatIsKnownToBeInMemoryNeedsNoTrial) {
  choice_.learn(kBlocks, {{kAgents, 0.2}, {kAlone, 0.3}, {kTwo, 0.5}}, {4e9, 1, true});
  EXPECT_EQ(count(run(100, page_cache), kAlone), 100u);
}

TEST_F(AdaptiveChoices, DisksKeepThePlanThatIsBestByEstimate) {
  learn();
  const auto methods = run(1000, [](const Method& method) {
    const double seconds = method == kAgents ? 0.25 : 0.6;  // a quarter slower than estimated
    return CallTime{seconds, seconds};
  });
  EXPECT_GE(count(methods, kAgents), 990u);
}

TEST_F(AdaptiveChoices, AWrongEstimateIsCorrectedByMeasuring) {
  choice_.learn(kBlocks, {{kAgents, 0.2}, {kAlone, 0.25}}, kMachine);
  const auto methods = run(100, [](const Method& method) {
    const double seconds = method == kAlone ? 0.2 : 0.5;
    return CallTime{seconds, seconds};
  });
  EXPECT_GE(count(methods, kAlone), 95u);
}

TEST_F(AdaptiveChoices, ASingleSlowCallDoesNotChangeTheChoice) {
  learn();
  run(20, page_cache);
  choice_.measured(kBlocks, kAlone, {0.05, 0.05});
  EXPECT_EQ(count(run(20, page_cache), kAlone), 20u);
}

TEST_F(AdaptiveChoices, ReturnsToTheDeviceIfTheDataIsNotInMemoryAnyMore) {
  learn();
  run(20, page_cache);
  const auto methods = run(40, [](const Method& method) {
    const double seconds = method == kAgents ? 0.2 : 0.5;
    return CallTime{seconds, seconds};
  });
  EXPECT_GE(count(methods, kAgents), 30u);
  EXPECT_EQ(methods.back(), kAgents);
}

// Plans are much slower than they should be even in memory; the MPI library is not.
TEST_F(AdaptiveChoices, TheMpiLibraryIsTriedIfAllPlansAreSlow) {
  learn();
  const Times slow = [](const Method& method) { return method ? CallTime{0.1, 0.002} : CallTime{0.01, 0.01}; };
  const auto methods = run(100, slow);
  EXPECT_GE(count(methods, std::nullopt), 90u);
  AdaptiveChoice other;
  std::swap(choice_, other);
  learn();
  EXPECT_EQ(count(run(100, slow, kBlocks, false), std::nullopt), 0u);
}

TEST_F(AdaptiveChoices, SmallCallsOfManyMicrosecondsAreNotSlow) {
  const CallPattern small{.bytes = 40000, .extents = 2, .ranks = 2};
  choice_.learn(small, {{kAlone, 1e-4}}, kMachine);
  const auto methods = run(
      500,
      [](const Method&) {
        return CallTime{3e-4, 2e-5};
      },
      small);
  EXPECT_EQ(count(methods, kAlone), 500u);
}

TEST_F(AdaptiveChoices, OneSlowCallIsNoReasonToTryTheMpiLibrary) {
  choice_.learn(kBlocks, {{kAlone, 0.01}}, kMachine);
  EXPECT_EQ(count(run(1, [](const Method&) { return CallTime{5, 0.001}; }), kAlone), 1u);
  EXPECT_EQ(choice_.choose(kBlocks, true), kAlone);
}

TEST_F(AdaptiveChoices, TheMpiLibraryIsNotTriedWherePlansTakeTheirTime) {
  learn();
  EXPECT_EQ(count(run(500, [](const Method&) { return CallTime{0.3, 0.3}; }), std::nullopt), 0u);
}

TEST_F(AdaptiveChoices, PatternsAreChosenForSeparately) {
  const CallPattern pieces{.interleaved = true, .bytes = 16 << 20, .extents = 4096, .ranks = 4};
  learn();
  learn(pieces);
  run(10, page_cache);
  const auto methods = run(
      50,
      [](const Method& method) {
        return method == kTwo ? CallTime{0.006, 0.003} : CallTime{0.04, 0.03};
      },
      pieces);
  EXPECT_GE(count(methods, kTwo), 45u);
  EXPECT_EQ(choice_.choose(kBlocks, true), kAlone);
}

TEST_F(AdaptiveChoices, BeginAtOnceAfterTwoIndependentCallsInMemory) {
  learn();
  EXPECT_FALSE(choice_.begin_at_once());
  run(2, page_cache);
  EXPECT_FALSE(choice_.begin_at_once());
  run(1, page_cache);
  EXPECT_TRUE(choice_.begin_at_once());
  // Another pattern came: the next time it takes longer to expect the same again.
  const CallPattern small{.interleaved = true, .bytes = 4096, .extents = 4, .ranks = 4};
  choice_.measured(small, kAlone, {1e-5, 1e-5});
  EXPECT_FALSE(choice_.begin_at_once());
  run(3, page_cache);
  EXPECT_FALSE(choice_.begin_at_once());
  run(1, page_cache);
  EXPECT_TRUE(choice_.begin_at_once());
}

TEST_F(AdaptiveChoices, DoNotBeginAtOnceOnDisks) {
  choice_.learn(kBlocks, {{kAlone, 0.2}, {kAgents, 0.4}}, kMachine);
  run(20, [](const Method&) { return CallTime{0.2, 0.2}; });
  EXPECT_FALSE(choice_.begin_at_once());
}

TEST_F(AdaptiveChoices, AnyNumberOfPatternsIsKnownOneAfterTheOther) {
  for (unsigned i = 0; i < 1000; ++i) {
    const CallPattern pattern{.interleaved = i % 2 == 0, .bytes = 1ull << (i % 40), .extents = 1ull << (i % 17)};
    if (!choice_.knows(pattern)) learn(pattern);
    EXPECT_TRUE(choice_.knows(pattern));
    run(1, page_cache, pattern);
  }
}

}  // namespace
}  // namespace tutti::collective

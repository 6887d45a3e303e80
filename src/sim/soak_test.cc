// SPDX-License-Identifier: Apache-2.0
#include "sim/soak.h"

#include <gmock/gmock.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kMiB = 1 << 20;

TEST(Soak, OneDayLeavesNothingBehind) {
  spdlog::set_level(spdlog::level::warn);
  const auto heap = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<std::uint64_t>(info.uordblks + info.hblkhd);
  };
  const SoakOutcome outcome = run_soak({.days = 1, .jobs = 700, .heap = heap});
  EXPECT_THAT(outcome.violations, IsEmpty());
  EXPECT_GT(outcome.jobs, 500u);
  EXPECT_GT(outcome.killed_jobs, 0u);
  EXPECT_GT(outcome.operations, 10'000u);
}

TEST(Soak, AHeapThatGrowsIsReported) {
  const auto sample = [](std::uint64_t jobs, std::uint64_t heap) { return SoakSample{.jobs = jobs, .heap = heap}; };
  EXPECT_THAT(check_heap({sample(0, 10 * kMiB), sample(100, 14 * kMiB)}), IsEmpty());
  EXPECT_THAT(check_heap({sample(0, 10 * kMiB), sample(100, 18 * kMiB)}), ElementsAre(HasSubstr("per job")));
  EXPECT_THAT(check_heap({sample(0, 10 * kMiB), sample(12'000, 100 * kMiB), sample(20'000, 109 * kMiB)}), IsEmpty());
  EXPECT_THAT(check_heap({sample(0, 10 * kMiB), sample(12'000, 100 * kMiB), sample(20'000, 111 * kMiB)}),
              ElementsAre(HasSubstr("until the tables were full")));
}

}  // namespace
}  // namespace tutti::sim

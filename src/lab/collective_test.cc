// SPDX-License-Identifier: Apache-2.0
// The simulated execution of collective plans.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lab/collective_patterns.h"

namespace tutti::lab {
namespace {

using collective::PlanKind;

ProgramTime run(const CollectiveProgram& program, const CollectiveMethod& method,
                const ClusterFigures& figures = paper_cluster(), std::uint64_t seed = 1) {
  const auto times = run_programs(figures, {{program, method, paper_layout(figures.targets)}}, seed);
  EXPECT_TRUE(times) << times.error().message;
  return times ? times->front() : ProgramTime{};
}

const PatternSize kSmall{.most_bytes = 8 << 20};

TEST(CollectiveProgram, EndsWithAllBytesInEveryPlan) {
  for (const Direction direction : {Direction::kRead, Direction::kWrite})
    for (const auto& program :
         {demonstration_program({.segment = 40'000, .direction = direction, .most_bytes = 4 << 20}),
          mpi_io_test({.ranks = 7, .segment = 100'000, .direction = direction, .most_bytes = 4 << 20}),
          noncontig({.segment = 10'000, .direction = direction, .most_bytes = 16 << 20})}) {
      double bytes = 0;
      for (unsigned call = 0; call < program.calls; ++call)
        for (const auto& list : program.call(call).lists) bytes += static_cast<double>(collective::bytes_of(list));
      for (const PlanKind kind : {PlanKind::kIndependent, PlanKind::kTwoPhase, PlanKind::kResonant, PlanKind::kTimed,
                                  PlanKind::kPaper, PlanKind::kAuto})
        for (const bool nonblocking : {false, true})
          for (const auto form : {collective::ReadForm::kExchange, collective::ReadForm::kDirect}) {
            SCOPED_TRACE(fmt::format("{} {} {}", program.name, name_of(kind), nonblocking));
            CollectiveMethod method{.options = {.kind = kind, .read_form = form, .nonblocking = nonblocking}};
            method.options.buffer = Bytes(1 << 20);  // several rounds
            const ProgramTime time = run(program, method);
            EXPECT_EQ(time.bytes, bytes);
            EXPECT_LT(time.megabytes_per_second(), 4 * 58) << "more than the disks have";
            EXPECT_GT(time.megabytes_per_second(), 0.1);
          }
    }
}

TEST(CollectiveProgram, EqualSeedsGiveEqualRuns) {
  const auto program = demonstration_program(kSmall);
  EXPECT_EQ(run(program, romio()).seconds, run(program, romio()).seconds);
  EXPECT_NE(run(program, romio()).seconds, run(program, romio(), paper_cluster(), 2).seconds);
}

// Figure 3: the same data; only the order of requests at the targets differs.
TEST(CollectiveProgram, ResonatesOnDisksOnly) {
  const auto program = demonstration_program(kSmall);
  const auto two_phase = full_design(PlanKind::kTwoPhase, paper_cluster());
  const auto resonant = full_design(PlanKind::kResonant, paper_cluster());
  EXPECT_GT(run(program, resonant).megabytes_per_second(), 2 * run(program, two_phase).megabytes_per_second());
  ClusterFigures even = paper_cluster();
  even.device = FixedFigures{.latency = {}, .bandwidth = 58e6};
  EXPECT_LT(run(program, resonant, even).megabytes_per_second(),
            1.7 * run(program, two_phase, even).megabytes_per_second());
}

TEST(CollectiveProgram, StopsWithTheFirstProgram) {
  auto endless = mpi_io_test({.most_bytes = std::uint64_t{1} << 40});
  const auto both = run_programs(
      paper_cluster(), {{demonstration_program(kSmall), romio(), paper_layout()}, {endless, romio(), paper_layout()}},
      1, true);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->front().bytes, 8 << 20);
  EXPECT_GT(both->back().bytes, 0);
  EXPECT_LT(both->front().megabytes_per_second(), run(demonstration_program(kSmall), romio()).megabytes_per_second());
}

TEST(CollectiveProgram, ReportsWrongOptions) {
  CollectiveMethod wrong = romio();
  wrong.options.list_io = 0;
  EXPECT_FALSE(run_programs(paper_cluster(), {{demonstration_program(kSmall), wrong, paper_layout()}}, 1));
}

TEST(Patterns, HaveTheSizesOfThePaper) {
  EXPECT_EQ(collective::bytes_of(noncontig({.segment = 16384 * 4}).call(0).lists[3]), 4u << 20);
  EXPECT_EQ(collective::bytes_of(hpio({.segment = 2048}).call(0).lists[0]), 8u << 20);
  const auto blocks = coll_perf(64, Direction::kRead).call(0);
  std::uint64_t bytes = 0;
  for (const auto& list : blocks.lists) bytes += collective::bytes_of(list);
  EXPECT_EQ(bytes, 64u * 64 * 64 * 4);
  EXPECT_TRUE(collective::non_overlap_condition(mpi_io_test({}).call(5)));
  EXPECT_FALSE(collective::non_overlap_condition(demonstration_program({}).call(5)));
}

TEST(Reproduced, HasABandOnBothSides) {
  EXPECT_EQ(reproduced("a", "b", "x", 100, {119}).holds(), true);
  EXPECT_EQ(reproduced("a", "b", "x", 100, {81}).holds(), true);
  EXPECT_EQ(reproduced("a", "b", "x", 100, {121}).holds(), false);
  EXPECT_EQ(reproduced("a", "b", "x", 100, {79}).holds(), false);
}

}  // namespace
}  // namespace tutti::lab

// SPDX-License-Identifier: Apache-2.0
#include "job/spread.h"

#include <gtest/gtest.h>

#include <map>

#include "base/prng.h"

namespace tutti::job {
namespace {

using namespace literals;

std::shared_ptr<const Layout> striped_over(Bytes stripe, std::vector<TargetId> targets) {
  const auto count = static_cast<std::uint32_t>(targets.size());
  return std::make_shared<const Layout>(
      Layout{.stripe_size = stripe, .stripe_count = count, .object_size = {}, .targets = std::move(targets)});
}

Spread of(std::vector<std::shared_ptr<const Layout>> layouts, const Spread::FileUse& use = {}) {
  return Spread::over(layouts, use);
}

TEST(Spread, AFileOnOneOfEightTargetsPutsAllOfItThere) {
  EXPECT_EQ(of({striped_over(1_MiB, {3})}, {.processes = 64, .targets = 8}).busiest(1_GiB), 1_GiB);
  EXPECT_EQ(of({striped_over(1_MiB, {0, 1, 2, 3, 4, 5, 6, 7})}, {.targets = 8}).busiest(1_GiB), 128_MiB);
  EXPECT_EQ(of({striped_over(1_MiB, {0, 1, 2, 3, 4, 5, 6, 7})}, {.targets = 8}).busiest(512_KiB), 512_KiB);
}

TEST(Spread, BytesOfSeveralFilesOnATargetAddUp) {
  EXPECT_EQ(of({striped_over(1_MiB, {0}), striped_over(1_MiB, {1})}).busiest(100_MiB), 50_MiB);
  EXPECT_EQ(of({striped_over(1_MiB, {0}), striped_over(1_MiB, {0, 1, 2})}).busiest(100_MiB), 50_MiB);
  EXPECT_EQ(of({striped_over(1_MiB, {5, 5})}).busiest(100_MiB), 100_MiB);
}

TEST(Spread, BytesAreDistributedEvenlyOverOpenFiles) {
  const auto wide = striped_over(1_MiB, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(of({wide, wide}).busiest(8_MiB), 1_MiB) << "the same file, opened twice";
  std::vector<std::shared_ptr<const Layout>> narrow;
  for (TargetId i = 0; i < 800; ++i) narrow.push_back(striped_over(1_MiB, {i % 8}));
  EXPECT_EQ(of(narrow).busiest(80_MiB), 10_MiB) << "a tenth of a stripe in each";
  EXPECT_EQ(of({narrow[0], wide}).busiest(72_MiB), 16_MiB) << "two of nine columns on one target";
}

TEST(Spread, OneFilePerProcess) {
  const auto one = [](std::uint32_t processes, std::uint32_t targets, std::vector<TargetId> stripes) {
    return of({striped_over(1_MiB, std::move(stripes))},
              {.processes = processes, .targets = targets, .files = PhaseFiles::kOnePerProcess});
  };
  EXPECT_EQ(one(4, 8, {2}).busiest(400_MiB), 100_MiB) << "one process per target";
  EXPECT_EQ(one(64, 8, {2}).busiest(64_GiB), 8_GiB) << "eight processes per target";
  EXPECT_EQ(one(64, 8, {0, 1, 2, 3, 4, 5, 6, 7}).busiest(64_GiB), 8_GiB);
  EXPECT_EQ(one(2, 1, {0, 1, 2}).busiest(6_MiB), 2_MiB) << "more targets than the cluster has: at most all processes";
  EXPECT_EQ(one(0, 0, {0}).busiest(6_MiB), 6_MiB);
}

TEST(Spread, WithoutALayoutAllBytesAreOnOneTarget) {
  EXPECT_FALSE(Spread().known());
  EXPECT_EQ(Spread().busiest(7_MiB), 7_MiB);
  EXPECT_FALSE(of({striped_over(Bytes(0), {1})}).known()) << "a layout that is not valid";
}

TEST(Spread, NoLayoutCausesAnOverflow) {
  const auto wide = std::make_shared<const Layout>(Layout{.stripe_size = Bytes(std::uint64_t{1} << 40),
                                                          .stripe_count = 4294967295,
                                                          .object_size = Bytes(std::uint64_t{1} << 63),
                                                          .targets = {1, 2, 3}});
  const Spread spread = of({wide, wide}, {.processes = 4294967295, .targets = 1, .files = PhaseFiles::kOnePerProcess});
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{1} << 30, ~std::uint64_t{0}})
    EXPECT_LE(spread.busiest(Bytes(total)).count(), total);
}

// Compares with the result of split() for the same bytes.
TEST(Spread, AgreesWithStripingForAnyLayout) {
  Prng random(7);
  for (int i = 0; i < 300; ++i) {
    std::vector<TargetId> targets;
    const auto count = 1 + random.below(12);
    for (std::uint64_t t = 0; t < count; ++t) targets.push_back(static_cast<TargetId>(t * 3 + random.below(3)));
    const auto layout = striped_over(Bytes(1 + random.below(1 << 16)), targets);
    const Bytes total(1 + random.below(1 << 21));
    std::map<TargetId, Bytes> load;
    for (const Piece& piece : split(*layout, 0, total)) load[piece.target] += piece.length;
    Bytes truth{};
    for (const auto& [target, bytes] : load) truth = std::max(truth, bytes);
    ASSERT_EQ(of({layout}).busiest(total), truth) << count << " columns, " << total.count() << " bytes";
  }
}

}  // namespace
}  // namespace tutti::job

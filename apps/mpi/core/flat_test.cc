// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/flat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mpi/core/memory.h"
#include "mpi/core/view.h"

namespace tutti::mpi {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A datatype whose extent is the end of its last block.
Flat made(const Construction& construction) {
  Flat flat = *combine(construction);
  if (construction.combiner != Combiner::kResized)
    flat.extent = flat.blocks.empty() ? 0 : flat.blocks.back().offset + flat.blocks.back().length;
  return flat;
}

TEST(Flat, JoinsBlocksThatAdjoin) {
  const Flat integer = Flat::bytes(4);
  EXPECT_THAT(made({Combiner::kContiguous, {5}, {integer}}).blocks, ElementsAre(Block{0, 20}));
  EXPECT_THAT(made({Combiner::kVector, {3, 2, 2}, {integer}}).blocks, ElementsAre(Block{0, 24}));
  EXPECT_THAT(made({Combiner::kVector, {2, 2, 3}, {integer}}).blocks, ElementsAre(Block{0, 8}, Block{12, 8}));
}

TEST(Flat, KeepsTheOrderOfTheTypeMap) {
  const Flat integer = Flat::bytes(4);
  EXPECT_THAT(made({Combiner::kIndexed, {2, 1, 1, 5, 0}, {integer}}).blocks, ElementsAre(Block{20, 4}, Block{0, 4}));
  EXPECT_THAT(made({Combiner::kStruct, {2, 1, 1, 8, 2}, {integer, Flat::bytes(2)}}).blocks,
              ElementsAre(Block{8, 4}, Block{2, 2}));
}

TEST(Flat, DistributesArraysCyclically) {
  // Process 1 of 2, ten elements in blocks of 2.
  const auto cyclic = static_cast<std::int64_t>(Distribution::kCyclic);
  EXPECT_THAT(made({Combiner::kDarray, {2, 1, 1, 10, cyclic, 2, 2, kOrderC}, {Flat::bytes(1)}}).blocks,
              ElementsAre(Block{2, 2}, Block{6, 2}));
}

TEST(Flat, RefusesMalformedContents) {
  const Flat byte = Flat::bytes(1);
  EXPECT_EQ(combine({Combiner::kVector, {3}, {byte}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(combine({Combiner::kContiguous, {-1}, {byte}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(combine({Combiner::kIndexed, {3, 1, 1, 1, 0}, {byte}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(combine({Combiner::kStruct, {2, 1, 1, 0, 8}, {byte}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(combine({Combiner::kDarray, {2, 1, 1, 10, 0, 2, 0, kOrderC}, {byte}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(combine({Combiner::kContiguous, {1}, {}}).error().code, ErrorCode::kInvalid);
}

TEST(Flat, RefusesMoreBlocksThanItsLimit) {
  EXPECT_EQ(combine({Combiner::kVector, {1 << 27, 1, 2}, {Flat::bytes(1)}}).error().code, ErrorCode::kFull);
}

TEST(View, FindsBytesInTheMiddleOfABlock) {
  Flat type = made({Combiner::kVector, {2, 4, 6}, {Flat::bytes(1)}});
  type.extent = 12;
  const FileView view(100, 1, type);
  EXPECT_THAT(*view.extents({2, 8}), ElementsAre(Extent{102, 2}, Extent{106, 4}, Extent{112, 2}));
  EXPECT_THAT(*view.extents({8, 0}), IsEmpty());
  EXPECT_EQ(bytes_before(*view.extents({2, 8}), 108), 4u);
}

TEST(View, RefusesBytesOutsideOfAFile) {
  EXPECT_FALSE(FileView().extents({-1, 4}));
  EXPECT_FALSE(FileView().extents({INT64_MAX, 4}));
  EXPECT_FALSE(FileView(INT64_MAX - 8, 1, Flat::bytes(1)).extents({0, 10}));
  EXPECT_FALSE(FileView(-8, 1, Flat::bytes(1)).extents({0, 1}));
  EXPECT_FALSE(FileView(0, 1, Flat{{{-8, 4}}, 4, -8, 12}).extents({0, 1}));
  EXPECT_FALSE(FileView(0, 1, Flat{}).extents({0, 1}));
}

TEST(View, FindsOverlaps) {
  EXPECT_TRUE(FileView(0, 1, Flat{{{0, 4}, {2, 4}}, 8, 0, 8}).overlaps());
  EXPECT_TRUE(FileView(0, 1, Flat{{{8, 4}, {0, 4}, {9, 1}}, 9, 0, 12}).overlaps());
  EXPECT_FALSE(FileView(0, 1, Flat{{{8, 4}, {0, 4}}, 8, 0, 12}).overlaps());
}

TEST(Memory, GathersAndScattersWithGaps) {
  std::vector<std::byte> bytes(24);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  const Memory memory(bytes.data(), Flat{{{4, 2}, {0, 1}}, 3, 0, 8}, 3);
  ASSERT_EQ(memory.size(), 9u);
  EXPECT_EQ(memory.contiguous(), nullptr);
  std::vector<std::byte> packed(5);
  memory.gather(1, packed);
  EXPECT_THAT(packed, ElementsAre(std::byte{5}, std::byte{0}, std::byte{12}, std::byte{13}, std::byte{8}));
  const std::vector<std::byte> changed(2, std::byte{99});
  memory.scatter(2, changed);
  EXPECT_EQ(bytes[0], std::byte{99});
  EXPECT_EQ(bytes[12], std::byte{99});
  EXPECT_EQ(bytes[13], std::byte{13});
}

}  // namespace
}  // namespace tutti::mpi

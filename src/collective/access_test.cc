// SPDX-License-Identifier: Apache-2.0
#include "collective/access.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <set>

#include "base/prng.h"
#include "base/testing.h"

namespace tutti::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;

TEST(Compress, MakesOneRunOfAVector) {
  std::vector<Extent> vector;
  for (std::uint64_t i = 0; i < 1000; ++i) vector.push_back({100 + i * 64, 16});
  EXPECT_THAT(compress(vector), ElementsAre(collective::ExtentRun{100, 16, 64, 1000}));
  EXPECT_EQ(expand(compress(vector)), vector);
}

TEST(Compress, JoinsAdjoiningExtentsAndDropsEmptyOnes) {
  const std::vector<Extent> extents = {{0, 10}, {10, 5}, {40, 0}, {20, 5}};
  EXPECT_THAT(expand(compress(extents)), ElementsAre(Extent{0, 15}, Extent{20, 5}));
}

TEST(Compress, KeepsTheOrderOfAnyList) {
  const std::vector<Extent> extents = {{500, 10}, {0, 10}, {100, 10}, {200, 10}, {150, 3}, {150, 3}};
  EXPECT_EQ(expand(compress(extents)), extents);
}

TEST(Check, RefusesWhatIsBeyondTheEndOfAnyFile) {
  EXPECT_TRUE(check({{kEnd - 1, 1, 0, 1}}));
  EXPECT_TRUE(check({{kEnd - 10, 0, 100, 100}})) << "it has no bytes";
  EXPECT_FALSE(check({{kEnd, 1, 0, 1}}));
  EXPECT_FALSE(check({{std::numeric_limits<std::uint64_t>::max(), 2, 0, 1}}));
  EXPECT_FALSE(check({{0, 1, kEnd, 2}}));
  EXPECT_FALSE(check({{0, 1, kEnd / 2, 4}})) << "offsets that wrap around";
  EXPECT_FALSE(check({{0, kEnd / 2, 0, 3}})) << "bytes that wrap around";
  const auto wrong = check({{0, 1, 0, 1}, {7, 1, 2, std::uint64_t{1} << 32}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(wrong.error().message, HasSubstr("run 1"));
}

TEST(Sorted, UnitesOverlapsAndKnowsTheOrder) {
  const AccessList list = {{50, 10, 0, 1}, {0, 20, 10, 3}};
  EXPECT_FALSE(ascending(list));
  EXPECT_THAT(expand(sorted(list)), ElementsAre(Extent{0, 40}, Extent{50, 10}));
  EXPECT_EQ(bytes_of(list), 70u);
  EXPECT_TRUE(ascending({{0, 10, 10, 3}, {30, 1, 0, 1}}));
  EXPECT_FALSE(ascending({{0, 10, 20, 3}, {30, 1, 0, 1}})) << "inside the run before it";
}

std::vector<PackedMemory::Part> find(const PackedMemory& memory, const Extent& extent) {
  std::vector<PackedMemory::Part> parts;
  memory.find(extent, parts);
  return parts;
}

TEST(PackedMemory, FindsBytesOfAStridedList) {
  const PackedMemory memory({{100, 10, 100, 5}});
  const auto parts = find(memory, {205, 200});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].position, 15u);
  EXPECT_EQ(parts[0].length, 5u);
  EXPECT_EQ(parts[2].offset, 400u);
  EXPECT_EQ(parts[2].length, 5u);
  EXPECT_TRUE(find(memory, {510, 1000}).empty());
  EXPECT_TRUE(find(memory, {0, 100}).empty());
}

// Random lists: every byte is found at every position that has it.
TEST(PackedMemory, AgreesWithAByteModel) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2, 3})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng random(seed);
    for (int round = 0; round < 200; ++round) {
      AccessList list;
      for (std::uint64_t i = random.below(5); i > 0; --i)
        list.push_back({random.below(200), random.below(20), random.below(30), random.below(6)});
      if (random.chance(0.5)) list = sorted(list);
      std::multimap<std::uint64_t, std::uint64_t> expected, found;  // offset -> position
      std::uint64_t position = 0;
      for (const collective::ExtentRun& run : list)
        for (std::uint64_t i = 0; i < run.count; ++i)
          for (std::uint64_t k = 0; k < run.length; ++k) expected.emplace(run.at(i).offset + k, position++);
      const PackedMemory memory(list);
      EXPECT_EQ(memory.size(), position);
      for (std::uint64_t offset = 0; offset < 400;) {
        const std::uint64_t length = 1 + random.below(60);
        for (const auto& part : find(memory, {offset, length}))
          for (std::uint64_t i = 0; i < part.length; ++i) found.emplace(part.offset + i, part.position + i);
        offset += length;
      }
      const std::multiset<std::pair<std::uint64_t, std::uint64_t>> one(expected.begin(), expected.end());
      const std::multiset<std::pair<std::uint64_t, std::uint64_t>> other(found.begin(), found.end());
      ASSERT_EQ(one, other);
    }
  }
}

}  // namespace
}  // namespace tutti::collective

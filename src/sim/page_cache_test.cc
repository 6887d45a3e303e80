// SPDX-License-Identifier: Apache-2.0
#include "sim/page_cache.h"

#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using namespace literals;
using Location = PageCache::Location;

TEST(PageCache, ReadsAheadInStreamsButNotAfterAJump) {
  PageCache cache(128_KiB);
  EXPECT_EQ(cache.read(1, {0, 8192}, 5).length, 8192u);
  EXPECT_EQ(cache.read(1, {0, 8192}, 6).location, Location::kUnderWay);
  EXPECT_EQ(cache.read(1, {0, 8192}, 6).ticket, 5u);
  cache.arrived(1, 5);
  EXPECT_EQ(cache.read(1, {0, 8192}, 6).location, Location::kMemory);
  const auto next = cache.read(1, {8192, 8192}, 7);
  EXPECT_EQ(next.location, Location::kDevice);
  EXPECT_EQ(next.length, 131072u);
  cache.arrived(1, 7);
  EXPECT_EQ(cache.read(1, {8192 + 131072 - 8192, 8192}, 8).location, Location::kMemory);
  EXPECT_EQ(cache.read(1, {1 << 20, 8192}, 9).length, 8192u);
  EXPECT_EQ(cache.read(2, {8192, 8192}, 10).length, 8192u) << "another file";
}

}  // namespace
}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/kept_memory.h"

#include <gtest/gtest.h>

namespace tutti::mpi {
namespace {

TEST(KeptMemories, SmallerCallsUseTheSameMemory) {
  KeptMemory memory;
  EXPECT_EQ(memory.get(0), nullptr);
  std::byte* const first = memory.get(1000);
  EXPECT_EQ(memory.get(500), first);
  EXPECT_EQ(memory.get(1000), first);
  EXPECT_EQ(memory.get(0), nullptr);
  EXPECT_NE(memory.get(2000), nullptr);
  EXPECT_EQ(memory.size(), 2000u);
}

TEST(KeptMemories, UnusuallyLargeMemoryIsReleased) {
  CallMemory memory;
  memory.buffer.get(100);
  memory.messages.get(1000);
  memory.keep_at_most(100);
  EXPECT_EQ(memory.buffer.size(), 100u);
  EXPECT_EQ(memory.messages.size(), 0u);
}

}  // namespace
}  // namespace tutti::mpi

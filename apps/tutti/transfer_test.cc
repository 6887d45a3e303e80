// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transfer_ends.h"

namespace tutti::cli {
namespace {

using namespace std::chrono_literals;
using testing::StartsWith;

FileStatus some_file() {
  return {.inode = 17,
          .mode = 0100644,
          .links = 1,
          .uid = 1000,
          .gid = 100,
          .size = 4096,
          .modified = TimePoint(100s + 5ns),
          .changed = TimePoint(100s + 7ns)};
}

TEST(SameFile, EverythingIsEqual) {
  EXPECT_TRUE(same_file(some_file(), some_file(), some_file()));
}

TEST(SameFile, AnInodeNumberThatIsEqualByChanceIsNotEnough) {
  FileStatus other = some_file();
  other.changed += 1ns;
  EXPECT_FALSE(same_file(some_file(), other, some_file()));
  other = some_file();
  other.modified -= 1ns;
  EXPECT_FALSE(same_file(some_file(), other, some_file()));
  other = some_file();
  other.size = 4097;
  EXPECT_FALSE(same_file(some_file(), other, some_file()));
  other = some_file();
  other.inode = 18;
  EXPECT_FALSE(same_file(some_file(), other, some_file()));
}

TEST(SameFile, DeviceNumbersOfTwoMachinesDiffer) {
  FileStatus other = some_file();
  other.device = 2049;
  EXPECT_TRUE(same_file(some_file(), other, some_file()));
}

TEST(SameFile, ItMayBeWrittenToWhileItIsLookedAt) {
  FileStatus other = some_file(), after = some_file();
  other.size += 10, other.modified += 1s, other.changed += 1s;
  after.size += 20, after.modified += 2s, after.changed += 2s;
  EXPECT_TRUE(same_file(some_file(), other, after));
  EXPECT_FALSE(same_file(some_file(), after, other));
}

TEST(TemporaryName, IsUniqueAndFitsIntoADirectory) {
  EXPECT_THAT(temporary_name("big.dat"), StartsWith("big.dat.tutti-tmp."));
  EXPECT_NE(temporary_name("big.dat"), temporary_name("big.dat"));
  EXPECT_LE(temporary_name(std::string(255, 'x')).size(), 255U);
  std::string umlauts;
  while (umlauts.size() < 254) umlauts += "\xc3\xa4";
  const std::string cut = temporary_name(umlauts);
  EXPECT_LE(cut.size(), 255U);
  EXPECT_EQ(cut.find(".tutti-tmp.") % 2, 0U) << "not in the middle of a character";
}

TEST(BaseName, IgnoresSlashesAtTheEnd) {
  EXPECT_EQ(base_name("a/b"), "b");
  EXPECT_EQ(base_name("b"), "b");
  EXPECT_EQ(base_name("/a/b//"), "b");
  EXPECT_EQ(base_name("/"), "");
  EXPECT_EQ(base_name(""), "");
}

}  // namespace
}  // namespace tutti::cli

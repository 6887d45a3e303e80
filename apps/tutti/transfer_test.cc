// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"
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

class LocalSourceTest : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  // Another time of modification than that of the file that was opened.
  void touch() { std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now() + 10s); }
  std::unique_ptr<Source> open() {
    auto source = open_local_source(path_, signals_);
    EXPECT_TRUE(source);
    return std::move(*source);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "f";
  const StopSignals signals_;
};

TEST_F(LocalSourceTest, AFileThatDoesNotChangeOrGrowsIsFine) {
  write("content");
  const auto source = open();
  EXPECT_TRUE(source->check_end(7));
  write("content and more");
  touch();
  EXPECT_TRUE(source->check_end(7));
  EXPECT_TRUE(source->check_end(16));
}

TEST_F(LocalSourceTest, AFileThatIsTruncatedHasChanged) {
  write("content");
  const auto source = open();
  write("new");
  touch();
  EXPECT_FALSE(source->check_end(3)) << "as long as the new content";
  EXPECT_FALSE(source->check_end(7)) << "as long as the old content";
}

TEST_F(LocalSourceTest, AFileThatIsTruncatedAndWrittenAgainHasChanged) {
  write("content");
  const auto source = open();
  write("changed");
  touch();
  EXPECT_FALSE(source->check_end(3)) << "its end was seen while it was shorter";
}

TEST_F(LocalSourceTest, AFileThatGrewAndIsEmptyAgainHasChanged) {
  write("");
  const auto source = open();
  touch();
  EXPECT_FALSE(source->check_end(7));
}

TEST(LocalSource, FilesOfProcHaveMoreThanTheirSize) {
  const StopSignals signals;
  const auto source = open_local_source("/proc/self/status", signals);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->opened().size, 0u);
  EXPECT_TRUE((*source)->check_end(1000));
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

// SPDX-License-Identifier: Apache-2.0
#include "base/replace_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/temporary_directory.h"

namespace tutti {
namespace {

class ReplaceFile : public testing::Test {
 protected:
  static std::string content(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(base_.path()), {}); }

  const TemporaryDirectory base_;
  const std::string path_ = base_ / "file";
};

TEST_F(ReplaceFile, WritesTheWholeTextAndLeavesNoOtherFile) {
  ASSERT_TRUE(replace_file(path_, "first", 0600));
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_TRUE(replace_file(path_, "second"));
  EXPECT_EQ(content(path_), "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(ReplaceFile, ALinkStaysAndItsFileIsReplaced) {
  ASSERT_TRUE(replace_file(path_, "first"));
  std::filesystem::create_symlink("file", base_ / "link");
  ASSERT_TRUE(replace_file(base_ / "link", "second"));
  EXPECT_TRUE(std::filesystem::is_symlink(base_ / "link"));
  EXPECT_EQ(content(path_), "second");
}

TEST_F(ReplaceFile, ADeviceIsWrittenToAndStaysADevice) {
  std::filesystem::create_symlink("/dev/null", base_ / "device");
  ASSERT_TRUE(replace_file(base_ / "device", "text"));
  EXPECT_TRUE(std::filesystem::is_symlink(base_ / "device"));
  EXPECT_EQ(files(), 1);
}

TEST_F(ReplaceFile, AFailureNamesThePathAndKeepsTheFile) {
  const auto missing = replace_file(base_ / "none/file", "text");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, testing::HasSubstr(base_ / "none/file"));
  const auto directory = replace_file(base_.path(), "text");
  ASSERT_FALSE(directory);
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace tutti

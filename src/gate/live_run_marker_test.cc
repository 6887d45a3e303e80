// SPDX-License-Identifier: Apache-2.0
#include "gate/live_run_marker.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/temporary_directory.h"

namespace tutti::gate {
namespace {

using namespace std::chrono_literals;

class RunMarkerTest : public testing::Test {
 protected:
  // What a gate that starts now finds.
  std::optional<Duration> found() const {
    const auto marker = RunMarker::open(path_);
    EXPECT_TRUE(marker) << marker.error().message;
    return marker ? marker->left_behind() : std::nullopt;
  }
  // Starts a gate and kills it.
  void start(Duration lease) const {
    auto marker = RunMarker::open(path_);
    ASSERT_TRUE(marker && marker->set_running(lease));
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "gate.state";
};

TEST_F(RunMarkerTest, ReportsHowThePreviousGateEnded) {
  EXPECT_EQ(found(), std::nullopt) << "no previous gate";
  EXPECT_FALSE(RunMarker::open(path_)->idle()) << "an empty file says nothing";
  start(10s);
  EXPECT_EQ(found(), Duration(10s));
  auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker && marker->set_idle());
  marker = fail(ErrorCode::kStopped, "ended");
  EXPECT_EQ(found(), std::nullopt);
  EXPECT_TRUE(RunMarker::open(path_)->idle());
}

TEST_F(RunMarkerTest, AGateThatDiesEarlyKeepsTheLongerLeaseOfThePreviousGate) {
  start(10s);
  start(1s);
  EXPECT_EQ(found(), Duration(10s));
}

// A gate may be killed at any moment, so the file must always have either the old text or the new one.
TEST_F(RunMarkerTest, IsOverwrittenWithTheSameSize) {
  start(123456789s);
  const std::size_t size = text().size();
  auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker && marker->set_idle());
  EXPECT_EQ(text().size(), size) << "overwritten, not truncated";
}

TEST_F(RunMarkerTest, ThereIsOneGatePerFile) {
  const auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker);
  EXPECT_EQ(RunMarker::open(path_).error().code, ErrorCode::kDuplicate);
}

TEST_F(RunMarkerTest, AFileThatIsNotAStateFileIsNotChanged) {
  std::ofstream(path_) << "precious";
  const auto marker = RunMarker::open(path_);
  ASSERT_FALSE(marker);
  EXPECT_THAT(marker.error().message, testing::HasSubstr("--state"));
  EXPECT_EQ(text(), "precious");
}

}  // namespace
}  // namespace tutti::gate

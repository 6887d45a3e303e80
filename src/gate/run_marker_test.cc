// SPDX-License-Identifier: Apache-2.0
#include "gate/run_marker.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/temporary_directory.h"

namespace tutti::gate {
namespace {

using namespace std::chrono_literals;

class Marker : public testing::Test {
 protected:
  // What a gate finds that starts now.
  std::optional<Duration> found() const {
    const auto marker = RunMarker::open(path_);
    EXPECT_TRUE(marker) << marker.error().message;
    return marker ? marker->left_behind() : std::nullopt;
  }
  // A gate that starts, and is killed.
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

TEST_F(Marker, TellsWhetherThePredecessorEndedWell) {
  EXPECT_EQ(found(), std::nullopt) << "there was none";
  start(10s);
  EXPECT_EQ(found(), Duration(10s));
  auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker && marker->set_idle());
  marker = fail(ErrorCode::kStopped, "ended");
  EXPECT_EQ(found(), std::nullopt);
}

TEST_F(Marker, AGateThatDiesEarlyLeavesTheLongerLeaseOfItsPredecessor) {
  start(10s);
  start(1s);
  EXPECT_EQ(found(), Duration(10s));
}

// A gate may be killed at any moment: there must be none at which the file says neither the old nor the new.
TEST_F(Marker, IsNeverShorterThanBefore) {
  start(123456789s);
  const std::size_t size = text().size();
  auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker && marker->set_idle());
  EXPECT_EQ(text().size(), size) << "written over, not truncated";
}

TEST_F(Marker, ThereIsOneGatePerFile) {
  const auto marker = RunMarker::open(path_);
  ASSERT_TRUE(marker);
  EXPECT_EQ(RunMarker::open(path_).error().code, ErrorCode::kDuplicate);
}

TEST_F(Marker, AFileOfSomethingElseIsLeftAlone) {
  std::ofstream(path_) << "precious";
  const auto marker = RunMarker::open(path_);
  ASSERT_FALSE(marker);
  EXPECT_THAT(marker.error().message, testing::HasSubstr("--state"));
  EXPECT_EQ(text(), "precious");
}

}  // namespace
}  // namespace tutti::gate

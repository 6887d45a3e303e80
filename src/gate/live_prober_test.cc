// SPDX-License-Identifier: Apache-2.0
#include "gate/live_prober.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/gate.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gate/live_coordinator.h"
#include "gate/test_gate.h"

namespace tutti::gate {
namespace {

namespace fs = std::filesystem;
using namespace literals;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ProberTest : public testing::Test {
 protected:
  ProberOptions options(double threshold = 0) {
    fs::create_directories(directory_ / "scratch");
    ProberOptions options{.directory = directory_ / "scratch"};
    options.backoff = {.data_size = 64_KiB, .max_count = 4, .priming = 4_KiB, .probes = 2};
    options.threshold = threshold;
    options.state_directory = directory_ / "state";
    options.seed = 1;
    options.sleep = [this](Duration time) { sleeps_.push_back(time); };
    return options;
  }
  static std::size_t files_in(const std::string& directory) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  }
  TemporaryDirectory directory_;
  std::vector<Duration> sleeps_;
};

TEST_F(ProberTest, AQuietFileSystemPassesAndProbeFilesAreRemoved) {
  const auto report = probe(options(1.0));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->quiet);
  EXPECT_EQ(report->rounds, 1u);
  EXPECT_EQ(report->written, 64_KiB * 2 + 4_KiB);
  EXPECT_GT(report->rate, 0);
  EXPECT_EQ(files_in(directory_ / "scratch"), 0u);
}

TEST_F(ProberTest, BacksOffFromABusyFileSystemUntilMaxCount) {
  const auto report = probe(options(1e15));
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->quiet);
  EXPECT_EQ(report->rounds, 4u);
  EXPECT_EQ(sleeps_.size(), 4u + 3u);  // pauses between the two probes of each round, and three backoffs
  EXPECT_EQ(files_in(directory_ / "scratch"), 0u);
}

TEST_F(ProberTest, TheThresholdIsLearnedAndSavedPerFileSystem) {
  EXPECT_EQ(probe(options())->threshold, 0);
  const auto second = probe(options());
  EXPECT_GT(second->threshold, 0);
  EXPECT_EQ(files_in(directory_ / "state"), 1u);
  ProberOptions larger = options();
  larger.backoff.data_size = 128_KiB;  // rates of another size are separate
  EXPECT_EQ(probe(larger)->threshold, 0);
  EXPECT_EQ(files_in(directory_ / "state"), 2u);
}

TEST_F(ProberTest, EachTargetHasItsOwnDirectory) {
  ProberOptions striped = options(1.0);
  striped.directory = directory_ / "ost%t";
  striped.targets = {0, 3};
  fs::create_directories(directory_ / "ost0");
  const auto missing = probe(striped);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("ost3"));
  fs::create_directories(directory_ / "ost3");
  EXPECT_EQ(probe(striped)->written, 64_KiB * 4 + 4_KiB * 2);
}

TEST_F(ProberTest, ProbeFilesOfDeadProcessesAreRemovedAndThoseOfLiveOnesKept) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const auto name = [&](const std::string& owner, pid_t process) {
    return directory_ / (".tutti-probe-" + owner + "-" + std::to_string(process) + "-0123");
  };
  for (const std::string& file : {name(host, dead), name(host, getpid()), name("elsewhere", dead)})
    std::ofstream(file) << "x";
  EXPECT_EQ(remove_stale_probe_files(directory_.path()), 1u);
  EXPECT_FALSE(fs::exists(name(host, dead)));
  EXPECT_TRUE(fs::exists(name(host, getpid())));
  EXPECT_TRUE(fs::exists(name("elsewhere", dead)));
}

TEST_F(ProberTest, ProbesWithRealData) {
  const std::string path = directory_ / "checkpoint";
  net::Socket file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  std::vector<std::byte> data(1 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 / 3);
  const auto check = [&](Bytes written) {
    std::vector<std::byte> back(written.count());
    ASSERT_EQ(pread(file.file(), back.data(), back.size(), 100), static_cast<ssize_t>(back.size()));
    EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin()));
  };
  const auto quiet = probe_with({file.file(), 100, data}, options(1.0));
  ASSERT_TRUE(quiet);
  EXPECT_TRUE(quiet->quiet);
  EXPECT_EQ(quiet->written, 64_KiB);
  check(quiet->written);
  const auto busy = probe_with({file.file(), 100, data}, options(1e15));
  EXPECT_FALSE(busy->quiet);
  EXPECT_EQ(busy->written, 64_KiB * 4);
  check(busy->written);
  const auto little = probe_with({file.file(), 100, std::span(data).first(1000)}, options(1e15));
  EXPECT_EQ(little->written, 0_B) << "less than one probe: the caller writes all data";
  EXPECT_EQ(files_in(directory_.path()), 3u) << "no dummy files: checkpoint, scratch, state";
}

TEST_F(ProberTest, ProbesWithTheWriteFunctionOfTheCaller) {
  std::vector<Bytes> writes;
  const auto busy = probe_through(
      [&](const Backoff::Write& write) { return writes.push_back(write.bytes), Result<void>{}; }, options(1e18));
  ASSERT_TRUE(busy);
  EXPECT_FALSE(busy->quiet);
  EXPECT_EQ(writes.size(), 4u * 3u);  // four rounds of priming and two probes
  EXPECT_EQ(writes[0], 4_KiB);
  EXPECT_EQ(writes[1], 64_KiB);
  const auto failed = probe_through([](const Backoff::Write&) { return fail(ErrorCode::kIo, "no"); }, options(1));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no");
}

TEST_F(ProberTest, ADirectoryThatCannotBeWrittenIsAnError) {
  ProberOptions nowhere = options();
  nowhere.directory = directory_ / "nowhere";
  EXPECT_EQ(probe(nowhere).error().code, ErrorCode::kIo);
}

class CoordinatorTest : public ProberTest {
 protected:
  TurnResult turn(const std::string& address, ProbeWhen when) {
    CoordinatorOptions all{.client = {.address = address, .job = "test"}, .prober = options(1.0), .probe_when = when};
    auto coordinator = Coordinator::create(all);
    EXPECT_TRUE(coordinator);
    const TurnResult turn = (*coordinator)->begin(TargetList::everything(), {});
    (*coordinator)->end();
    return turn;
  }
};

TEST_F(CoordinatorTest, AsksForATurnThenProbesAsConfigured) {
  TestGate gate(directory_, {});
  EXPECT_FALSE(turn(gate.address(), ProbeWhen::kFallback).probe);
  const TurnResult stacked = turn(gate.address(), ProbeWhen::kAlways);
  EXPECT_EQ(stacked.outcome, GateOutcome::kGranted);
  ASSERT_TRUE(stacked.probe);
  EXPECT_TRUE(stacked.probe->quiet);
}

TEST_F(CoordinatorTest, WithoutATurnTheJobProbes) {
  EXPECT_TRUE(turn(directory_ / "none.sock", ProbeWhen::kFallback).probe);
  EXPECT_TRUE(turn("off", ProbeWhen::kFallback).probe);
  EXPECT_FALSE(turn("off", ProbeWhen::kNever).probe);
}

TEST_F(CoordinatorTest, TheEnvironmentIsCheckedAndExplained) {
  setenv("TUTTI_GATE_ANSWER", "soon", 1);
  EXPECT_THAT(CoordinatorOptions::from_environment().error().message, testing::HasSubstr("TUTTI_GATE_ANSWER"));
  setenv("TUTTI_GATE_ANSWER", "150ms", 1);
  setenv("TUTTI_PROBE_OPTIONS", "data-size=1MB,max-count=4", 1);
  EXPECT_EQ(CoordinatorOptions::from_environment()->client.answer_bound, milliseconds(150));
  EXPECT_EQ(CoordinatorOptions::from_environment()->prober.backoff.max_count, 4u);
  setenv("TUTTI_PROBE_OPTIONS", "size=1MB", 1);
  EXPECT_THAT(CoordinatorOptions::from_environment().error().message, testing::HasSubstr("data-size"));
  setenv("TUTTI_PROBE_WHEN", "sometimes", 1);
  unsetenv("TUTTI_PROBE_OPTIONS");
  EXPECT_THAT(CoordinatorOptions::from_environment().error().message, testing::HasSubstr("fallback"));
  unsetenv("TUTTI_PROBE_WHEN");
  unsetenv("TUTTI_GATE_ANSWER");
}

TEST_F(CoordinatorTest, TheCInterface) {
  TestGate gate(directory_, {.targets = 4});
  setenv("TUTTI_GATE", gate.address().c_str(), 1);
  setenv("TUTTI_STATE_DIR", (directory_ / "state").c_str(), 1);
  setenv("TUTTI_PROBE_OPTIONS", "data-size=4KiB,probes=1,priming=0", 1);
  EXPECT_EQ(tutti_phase_end(), -EINVAL);
  EXPECT_EQ(tutti_phase_begin("two", 0), -EINVAL);
  EXPECT_EQ(tutti_phase_begin("0-1", 1 << 20), TUTTI_TURN);
  EXPECT_EQ(tutti_phase_holds(), 1);
#ifndef __SANITIZE_THREAD__  // does not support threads in a forked child
  // A forked child is another job: it has no phase, and its exit does not end the phase of the parent.
  const pid_t child = fork();
  if (child == 0)
    _exit(tutti_phase_holds() == 0 && tutti_phase_begin("2", 0) == TUTTI_TURN && tutti_phase_end() == 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
#endif
  EXPECT_EQ(tutti_phase_holds(), 1);
  EXPECT_EQ(tutti_phase_end(), 0);
  EXPECT_EQ(tutti_phase_holds(), 0);
  EXPECT_EQ(tutti_probe(directory_.path().c_str()), TUTTI_TURN);
  EXPECT_LT(tutti_probe("/nowhere/at/all"), 0);
  setenv("TUTTI_STATE_DIR", (directory_ / "fresh").c_str(), 1);
  const std::string path = directory_ / "data";
  net::Socket file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const std::vector<char> data(10'000);
  EXPECT_EQ(tutti_probe_data(file.file(), data.data(), data.size(), 0), 4096);
  unsetenv("TUTTI_PROBE_OPTIONS");
  unsetenv("TUTTI_STATE_DIR");
  unsetenv("TUTTI_GATE");
}

}  // namespace
}  // namespace tutti::gate

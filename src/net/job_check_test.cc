// SPDX-License-Identifier: Apache-2.0
// The job numbers of clients are checked against cgroups and the batch system.
#include "net/job_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr UserId kUser = 1000;
constexpr LocalJob::value_type kNoJob{};

// Job n belongs to user n / 10.
class FakeBatch final : public BatchSystem {
 public:
  Result<bool> owns(UserId user, ApplicationId job) override {
    ++asked;
    if (silent) return fail(ErrorCode::kTimeout, "no answer");
    return job / 10 == user;
  }
  int asked = 0;
  bool silent = false;
};

class JobChecks : public testing::Test {
 protected:
  Result<std::optional<ApplicationId>> bind(UserId user, const JobClaim& claim, const LocalJob& local = kNoJob,
                                            wire::Method method = wire::Method::kMunge) {
    return check_.bind({.identity = {.uid = user}, .method = method}, claim, local);
  }
  std::string refusal(UserId user, const JobClaim& claim, const LocalJob& local = kNoJob) {
    const auto bound = bind(user, claim, local);
    if (bound) return "";
    EXPECT_EQ(bound.error().code, ErrorCode::kDenied);
    return bound.error().message;
  }

  TimePoint now_{1h};
  std::shared_ptr<FakeBatch> batch_ = std::make_shared<FakeBatch>();
  JobCheck check_{{.batch = batch_, .own_user = 77, .now = [this] { return now_; }}};
};

TEST_F(JobChecks, AJobOfTheUserIsBoundAndAskedAboutOnce) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(*bind(kUser, {10001, true}), 10001u);
  EXPECT_EQ(batch_->asked, 1);
  now_ += 2h;
  EXPECT_EQ(*bind(kUser, {10001, true}), 10001u);
  EXPECT_EQ(batch_->asked, 2);
}

TEST_F(JobChecks, AJobOfAnotherUserIsRefusedWithAdvice) {
  EXPECT_EQ(refusal(kUser, {20000, true}),
            "job 20000 is not a running job of user 1000. Unset TUTTI_APP, or run the program in job 20000 (the number "
            "is from TUTTI_APP or SLURM_JOB_ID).");
  now_ += 11s;
  EXPECT_NE(refusal(kUser, {20000, true}), "");
  EXPECT_EQ(batch_->asked, 2) << "it may have started meanwhile";
}

TEST_F(JobChecks, WhatIsNotProvenCountsAsOneJobOfTheUser) {
  EXPECT_EQ(*bind(kUser, {20000, false}), 0u) << "the client states no job";
  batch_->silent = true;
  EXPECT_EQ(*bind(kUser, {10001, true}), 0u);
  EXPECT_EQ(*bind(kUser, {10002, true}), 0u);
  EXPECT_EQ(batch_->asked, 1) << "a batch system that does not answer is left alone for a while";
  batch_->silent = false;
  now_ += 11s;
  EXPECT_EQ(*bind(kUser, {10001, true}), 10001u);
}

TEST_F(JobChecks, UsersThatMayActForOthersAreNotBound) {
  EXPECT_EQ(*bind(0, {20000, true}), std::nullopt);
  EXPECT_EQ(*bind(77, {20000, true}), std::nullopt);
  EXPECT_EQ(*bind(kUser, {20000, true}, kNoJob, wire::Method::kKey), std::nullopt);
  EXPECT_EQ(batch_->asked, 0);
}

TEST_F(JobChecks, ANumberIsProvenIfItIsBoundOrItsUserMayActForOthers) {
  const auto proven = [&](UserId user, std::optional<ApplicationId> bound, wire::Method method = wire::Method::kPeer) {
    return check_.proves({.identity = {.uid = user}, .method = method, .application = bound});
  };
  EXPECT_TRUE(proven(kUser, 10001));
  EXPECT_TRUE(proven(kUser, 0)) << "all that is not proven counts as this job already";
  EXPECT_FALSE(proven(kUser, std::nullopt));
  EXPECT_FALSE(proven(kUser, std::nullopt, wire::Method::kKey));
  EXPECT_TRUE(proven(0, std::nullopt));
  EXPECT_TRUE(proven(77, std::nullopt));
}

TEST_F(JobChecks, TheCgroupDecidesWhereThereIsOne) {
  const LocalJob local = std::optional<ApplicationId>(10001);
  EXPECT_EQ(*bind(kUser, {10001, true}, local), 10001u);
  EXPECT_EQ(*bind(kUser, {5, false}, local), 10001u);
  EXPECT_NE(refusal(kUser, {10002, true}, local).find("states job 10002, but runs in job 10001"), std::string::npos);
  EXPECT_NE(refusal(kUser, {10002, true}, LocalJob(fail(ErrorCode::kDenied, "it has ended"))), "");
  EXPECT_EQ(batch_->asked, 0);
}

TEST_F(JobChecks, AUserThatGuessesNumbersIsRefusedWithoutAsking) {
  for (ApplicationId guess = 1; guess <= 100; ++guess) EXPECT_NE(refusal(kUser, {guess, true}), "");
  EXPECT_EQ(batch_->asked, 16);
  EXPECT_EQ(*bind(3000, {30001, true}), 30001u) << "other users are not affected";
  now_ += 2min;
  EXPECT_EQ(*bind(kUser, {10001, true}), 10001u);
}

TEST_F(JobChecks, TheHandshakeRefusesAWrongNumberAndTellsTheClient) {
  ListenOptions listen{.jobs = std::make_shared<JobCheck>(
                           JobCheck::Options{.batch = batch_, .own_user = 77, .now = [this] { return now_; }})};
  listen.now = [this] { return now_; };
  const auto connect = [&](const JobClaim& claim) {
    const ConnectOptions options{.claimed_job = claim};
    ClientHandshake client(options, wire::Identity{.uid = 0});
    NodeHandshake node(listen, wire::Identity{.uid = kUser});
    const auto frame_of = [](const std::vector<std::byte>& bytes) {
      return std::pair(*wire::decode_header(std::span(bytes).first<wire::kHeaderSize>()),
                       std::span(bytes).subspan(wire::kHeaderSize));
    };
    const auto hello = *client.hello();
    const auto [header, body] = frame_of(hello);
    EXPECT_TRUE(node.blocks(header)) << "the batch system must not be asked on the event loop";
    const auto step = node.receive(header, body);
    const auto [reply, reply_body] = frame_of(step.answer);
    const auto received = client.receive(reply, reply_body);
    EXPECT_EQ(received.has_value(), step.state == NodeHandshake::Step::State::kAccepted);
    return std::pair(node.peer().application, received ? "" : received.error().message);
  };
  EXPECT_EQ(connect({10001, true}).first, 10001u);
  EXPECT_EQ(connect({123, false}).first, 0u);
  EXPECT_NE(connect({20000, true}).second.find("refused the connection: job 20000 is not a running job of user 1000"),
            std::string::npos);
}

TEST(Cgroups, OnlyThoseOfTheBatchSystemNameAJob) {
  EXPECT_EQ(job_of_cgroup("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", kUser), 4711u);
  EXPECT_EQ(job_of_cgroup("0::/system.slice/node3_slurmstepd.scope/job_4711\n", kUser), 4711u);
  EXPECT_EQ(job_of_cgroup("9:cpuset:/\n4:freezer:/slurm/uid_1000/job_4711/step_batch\n", kUser), 4711u);
  EXPECT_EQ(job_of_cgroup("4:memory:/slurm_node3/uid_1000/job_4711\n", kUser), 4711u);
  EXPECT_EQ(job_of_cgroup("4:memory:/slurm/uid_1001/job_4711\n", kUser), std::nullopt) << "of another user";
  EXPECT_EQ(job_of_cgroup("0::/user.slice/user-1000.slice/user@1000.service/job_4711/step_0\n", kUser), std::nullopt)
      << "users may create such directories";
  EXPECT_EQ(job_of_cgroup("0::/user.slice/system.slice/slurmstepd.scope/job_4711\n", kUser), std::nullopt);
  for (const char* text : {"", ":", "::", "0::", "0::/", "0::/system.slice/slurmstepd.scope/job_", "x\n\n:/job_1",
                           "0::/system.slice/slurmstepd.scope/job_99999999999999999999", "0::/../../job_1"})
    EXPECT_EQ(job_of_cgroup(text, kUser), std::nullopt) << text;
}

class BatchCommands : public testing::Test {
 protected:
  std::shared_ptr<BatchSystem> program(const std::string& script, Duration timeout = 10s) {
    const std::string path = *directory_ / "squeue";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return make_batch_command(path + " --jobs", timeout);
  }
  std::unique_ptr<TemporaryDirectory> directory_ = std::make_unique<TemporaryDirectory>();
};

TEST_F(BatchCommands, PrintTheUserOfAJob) {
  auto batch = program("test \"$1 $2\" = '--jobs 4711' && echo 1000");
  EXPECT_TRUE(*batch->owns(1000, 4711));
  EXPECT_FALSE(*batch->owns(100, 4711));
  EXPECT_FALSE(program("exit 0")->owns(1000, 4711).value()) << "it has ended";
  EXPECT_FALSE(program("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")->owns(1, 1).value());
}

TEST_F(BatchCommands, ThatFailOrHangAreErrors) {
  EXPECT_FALSE(program("echo 'Unable to contact slurm controller' >&2; exit 1")->owns(1000, 1));
  EXPECT_FALSE(make_batch_command("/does/not/exist", 1s)->owns(1000, 1));
  const auto begin = std::chrono::steady_clock::now();
  const std::string marker = *directory_ / "late";
  EXPECT_FALSE(program(fmt::format("(sleep 2; touch {}) & sleep 60", marker), 200ms)->owns(1000, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_FALSE(program("yes 1", 200ms)->owns(1000, 1));
  ::sleep(2);
  EXPECT_FALSE(std::filesystem::exists(marker)) << "its children are killed, too";
}

// A process that has ended stays visible until its parent waits for it. The kernel then no longer shows its cgroup of
// version 1, so it would count as a process outside of all jobs.
TEST(Cgroups, OfProcessesThatHaveEndedAreNotKnown) {
  const TemporaryDirectory directory;
  Endpoint endpoint{Endpoint::Kind::kUnix, directory / "socket", 0};
  const auto listening = listen_on(endpoint);
  ASSERT_TRUE(listening);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(connect_to(endpoint, steady_now() + 10s) ? 0 : 1);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const Socket socket(::accept4(listening->file(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_GE(socket.file(), 0);
  const auto job = job_of_peer(socket.file(), ::geteuid());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(job);
}

// A process of another user in a job's cgroup, connected to this process. Needs root.
class PeersInCgroups : public testing::Test {
 protected:
  void SetUp() override {
    std::error_code error;
    std::filesystem::create_directories(job_, error);
    if (::geteuid() != 0 || error) GTEST_SKIP() << "needs root and a freezer hierarchy of cgroups";
  }
  void TearDown() override {
    for (std::filesystem::path path = job_; path.filename() != "freezer"; path = path.parent_path())
      ::rmdir(path.c_str());
  }

  // Connects from a child process, which then ends at once or when `release_` is closed.
  int connect_from_job(bool stay) {
    int release[2];
    EXPECT_EQ(::pipe(release), 0);
    Endpoint endpoint{Endpoint::Kind::kUnix, *directory_ / "socket", 0};
    ::chmod(directory_->path().c_str(), 0755);
    auto listening = listen_on(endpoint);
    EXPECT_TRUE(listening);
    child_ = ::fork();
    if (child_ == 0) {
      std::ofstream(job_ / "cgroup.procs") << ::getpid() << std::flush;
      if (::setresuid(kUser, kUser, kUser) != 0) ::_exit(1);
      const auto socket = connect_to(endpoint, steady_now() + 10s);
      char byte = 0;
      ::close(release[1]);
      if (stay) (void)!::read(release[0], &byte, 1);
      ::_exit(socket ? 0 : 1);
    }
    ::close(release[0]);
    release_ = Socket(release[1]);
    for (const TimePoint until = steady_now() + 10s; steady_now() < until;) {
      const int socket = ::accept4(listening->file(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) return socket;
      ::usleep(1000);
    }
    return -1;
  }
  void end() {
    release_ = Socket();
    int status = 0;
    ASSERT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }

  const std::filesystem::path job_ =
      fmt::format("/sys/fs/cgroup/freezer/slurm_test_{}/uid_{}/job_4711", ::getpid(), kUser);
  std::unique_ptr<TemporaryDirectory> directory_ = std::make_unique<TemporaryDirectory>();
  pid_t child_ = -1;
  Socket release_;
};

TEST_F(PeersInCgroups, AreFoundByTheKernel) {
  const Socket socket(connect_from_job(true));
  ASSERT_GE(socket.file(), 0);
  const auto job = job_of_peer(socket.file(), peer_identity(socket.file())->uid);
  end();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(*job, 4711u);
}

TEST_F(PeersInCgroups, ThatHaveEndedAreRefused) {
  const Socket socket(connect_from_job(false));
  ASSERT_GE(socket.file(), 0);
  end();
  EXPECT_FALSE(job_of_peer(socket.file(), kUser)) << "its number may be another process's by now";
}

// A process that has ended stays visible until its parent waits for it, but its cgroup does not.
TEST_F(PeersInCgroups, ThatHaveEndedAreRefusedBeforeTheirParentHasWaited) {
  const Socket socket(connect_from_job(false));
  ASSERT_GE(socket.file(), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT), 0);
  const auto job = job_of_peer(socket.file(), kUser);
  end();
  EXPECT_FALSE(job) << "it would count as a process outside of all jobs";
}

}  // namespace
}  // namespace tutti::net

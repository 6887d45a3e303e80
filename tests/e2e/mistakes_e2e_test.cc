// SPDX-License-Identifier: Apache-2.0
// Commands under conditions in which they once did harm: other users' locks, no threads, closed descriptors, ignored
// signals, outputs that are inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/client.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/temporary_directory.h"
#include "node/pid_file.h"
#include "processes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace e2e;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MistakesTest : public testing::Test {
 protected:
  void SetUp() override {
    chmod(base_.path().c_str(), 0755);
    for (const char* name : {"TUTTI_CLUSTER", "TUTTI_GATE", "TUTTI_PROCESSES"}) unsetenv(name);
  }
  void TearDown() override {
    if (fs::exists(directory_ + "/cluster.toml")) shell("$T down --cluster $D --now --timeout 2s");
  }
  // With T: the program, B: a directory for this test, D: that of the cluster, OTHER: a prefix for another user.
  Outcome shell(const std::string& script) {
    return run({"env", "T=" TUTTI_BINARY, "B=" + base_.path(), "D=" + directory_,
                "OTHER=setpriv --reuid=65534 --regid=65534 --clear-groups", "bash", "-c", script});
  }
  void up(const std::string& more = "--nodes 2") {
    const Outcome started = shell("$T up --cluster $D " + more);
    ASSERT_EQ(started.status, 0) << started.output;
  }
  pid_t process_of(const std::string& node) { return PidFile::holder(directory_ + "/run/" + node + ".pid").process; }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "cluster";
};

TEST_F(MistakesTest, AnotherUserCannotLockThePidFileOfANode) {
  up();
  const std::string pid_file = directory_ + "/run/node0.pid";
  EXPECT_EQ(fs::status(pid_file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const Outcome locked = shell("$OTHER flock -n $D/run/node0.pid true");
  EXPECT_NE(locked.status, 0);
  EXPECT_THAT(locked.output, HasSubstr("ermission denied"));
}

// Such as one of another user, or while no descriptor is free.
TEST_F(MistakesTest, ANodeWhosePidFileCannotBeOpenedMayBeRunning) {
  fs::create_symlink("loop", base_ / "loop");  // also root cannot open it
  const PidFile::Holder holder = PidFile::holder(base_ / "loop");
  EXPECT_TRUE(holder.held);
  EXPECT_THAT(holder.not_here, HasSubstr("symbolic links"));
  EXPECT_FALSE(PidFile::holder(base_ / "none").held);
}

TEST_F(MistakesTest, ARestartStartsTheNodesThatItHasStopped) {
  up("--nodes 3");
  // The third node belongs to root, and the cluster to another user, who may not stop it.
  ASSERT_EQ(shell("$T down --cluster $D && chown -R 65534:65534 $D && chmod 777 $D/run").status, 0);
  ASSERT_EQ(shell("$OTHER $T up --cluster $D && $OTHER $T down --cluster $D").status, 0);
  Child node({"bash", "-c",
              "exec " TUTTI_BINARY " node --cluster " + directory_ + "/cluster.toml --name node2 --pid-file " +
                  directory_ + "/run/node2.pid > " + (base_ / "log") + " 2>&1"});
  ASSERT_TRUE(wait_until(20s, [&] { return process_of("node2") > 0; })) << content(base_ / "log");
  ASSERT_EQ(shell("$OTHER $T up --cluster $D").status, 0);
  const Outcome restarted = shell("$OTHER $T restart --cluster $D node0 node1 node2");
  EXPECT_EQ(restarted.status, 1) << restarted.output;
  EXPECT_THAT(restarted.output, HasSubstr("node2 may still run"));
  EXPECT_THAT(restarted.output, HasSubstr("node0 restarted"));
  EXPECT_THAT(restarted.output, HasSubstr("node1 restarted"));
  EXPECT_EQ(shell("$T down --cluster $D --now").status, 0);
}

TEST_F(MistakesTest, AStartThatFailsKeepsTheDescription) {
  up("--nodes 1");
  ASSERT_EQ(shell("$T down --cluster $D").status, 0);
  const std::string before = content(directory_ + "/cluster.toml");
  fs::remove_all(directory_ + "/files");
  fs::create_symlink("/does/not/exist", directory_ + "/files");
  const Outcome failed = shell("$T up --cluster $D --policy fifo --nodes 3");
  EXPECT_EQ(failed.status, 1) << failed.output;
  EXPECT_EQ(content(directory_ + "/cluster.toml"), before);
}

TEST_F(MistakesTest, CopiesDoTheirWorkWithFewThreads) {
  if (TUTTI_PATIENCE > 1) GTEST_SKIP() << "sanitizers need threads of their own";
  up("--nodes 2");
  ASSERT_EQ(shell("mkdir -m 777 $B/out; cd $B; head -c 60000000 /dev/zero > large; mkdir many;"
                  "for i in $(seq 40); do echo $i > many/s$i; done; $T put --cluster $D large")
                .status,
            0);
  for (int threads = 1; threads <= 14; ++threads) {
    const std::string limit = "cd $B/out; ulimit -u " + std::to_string(threads) + "; ";
    for (const char* command :
         {"$T get --cluster $D large got", "$T put --cluster $D ../large copied", "$T put --cluster $D ../many/s* ."}) {
      const Outcome done = shell("$OTHER bash -c '" + limit + "exec " + command + "'");
      EXPECT_LE(done.status, 2) << threads << " threads: " << command << ": " << done.output;
      EXPECT_THAT(done.output, Not(HasSubstr("terminate called"))) << threads << " threads: " << command;
    }
  }
  EXPECT_EQ(shell("find $B/out $D/files -name '*.tutti-tmp.*' | grep .").status, 1) << "temporary files stay";
}

TEST_F(MistakesTest, AGateWithClosedDescriptorsKeepsItsStateFile) {
  for (const char* closed : {"0<&-", "1>&-", "2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"}) {
    const std::string state = base_ / "state";
    Child gate({"bash", "-c",
                std::string("exec ") + closed + "; exec " TUTTI_BINARY " gate --listen " + (base_ / "gate.sock") +
                    " --state " + state});
    ASSERT_TRUE(wait_until(20s, [&] { return fs::exists(base_ / "gate.sock") && !content(state).empty(); }));
    EXPECT_THAT(content(state), StartsWith("running lease=")) << closed;
    kill(gate.id(), SIGKILL);
    gate.wait(20s);
    fs::remove(base_ / "gate.sock");
  }
}

TEST_F(MistakesTest, ACommandUnderTurnIgnoresWhatItsCallerIgnores) {
  const Outcome done = shell(
      "trap '' HUP; $T turn --gate off -- bash -c \"trap 'echo got HUP; exit 3' HUP; touch $B/begun; "
      "while [ ! -e $B/end ]; do sleep 0.02; done; echo finished\" & "
      "until [ -e $B/begun ]; do sleep 0.02; done; kill -HUP $!; touch $B/end; wait $!");
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("finished"));
}

TEST_F(MistakesTest, NamesOfFilesDoNotControlTheTerminal) {
  up("--nodes 1");
  std::ofstream(directory_ + "/files/evil\033[31m\nrow") << "x";
  const Outcome listed = shell("$T ls --cluster $D");
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.output, HasSubstr("evil?[31m?row"));
  EXPECT_THAT(listed.output, Not(HasSubstr("\033")));
}

TEST_F(MistakesTest, AReportDoesNotReplaceItsInput) {
  up("--nodes 1 --trace $B/traces");
  ASSERT_EQ(shell("cd $B; head -c 300000 /dev/zero > f; $T put --cluster $D f; $T down --cluster $D; "
                  "$T trace merge traces --output one.trace")
                .status,
            0);
  const std::string before = content(base_ / "one.trace");
  EXPECT_EQ(shell("cd $B; $T trace replay one.trace --policies fifo --device nvme --html one.trace").status, 2);
  EXPECT_EQ(content(base_ / "one.trace"), before);
  EXPECT_EQ(shell("cd $B; $T trace merge traces --output traces/all.trace").status, 2);
  EXPECT_EQ(shell("cd $B; $T trace export traces --output traces/all.csv").status, 0);
  const Outcome again = shell("cd $B; $T trace export traces --output traces/all.csv");
  EXPECT_EQ(again.status, 0) << again.output;
  std::ofstream(base_ / "scenario.toml") << content(TUTTI_SCENARIOS "/fast/unequal.toml");
  EXPECT_EQ(shell("cd $B; $T sim run scenario.toml --html scenario.toml").status, 2);
}

// What a node did before it was stopped for a moment is not what it did in the interval.
TEST_F(MistakesTest, TopDoesNotCountThePastOfANodeThatAnswersAgain) {
  up("--nodes 2 --fence-time 60s --stripe-size 64KiB");
  ASSERT_EQ(shell("cd $B; head -c 30000000 /dev/zero > f; $T put --cluster $D f").status, 0);
  const pid_t node = process_of("node0");
  ASSERT_GT(node, 0);
  const std::string output = base_ / "top";
  Child top(
      {"bash", "-c", "exec " TUTTI_BINARY " top --json --interval 100ms --cluster " + directory_ + " > " + output});
  const auto last = [&] {
    std::string text = content(output);
    if (text.empty() || text.back() != '\n') return Json();
    text.pop_back();
    const auto line = parse_json(text.substr(text.rfind('\n') + 1));
    return line ? *line : Json();
  };
  const auto nodes_up = [&](std::uint64_t count) {
    return wait_until(30s, [&] {
      const Json document = last();
      return document["nodes"].count() == 2 && document["nodes_up"].count() == count;
    });
  };
  ASSERT_TRUE(nodes_up(2));
  kill(node, SIGSTOP);
  EXPECT_TRUE(nodes_up(1));
  kill(node, SIGCONT);
  EXPECT_TRUE(nodes_up(2));
  EXPECT_THAT(content(output), HasSubstr("\"rows\":[]"));
  EXPECT_THAT(content(output), Not(HasSubstr("written_bytes_per_second"))) << "nothing was written meanwhile";
}

}  // namespace
}  // namespace tutti

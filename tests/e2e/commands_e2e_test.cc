// SPDX-License-Identifier: Apache-2.0
// The commands of an administrator's first day: starting, stopping, restarting, settings, messages, and what is left
// behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tutti/client.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/temporary_directory.h"
#include "node/control.h"
#include "node/pid_file.h"
#include "processes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace e2e;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Also true for a process that its parent has not waited for yet.
bool has_ended(pid_t process) {
  const std::string status = content("/proc/" + std::to_string(process) + "/status");
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

class CommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    chmod(base_.path().c_str(), 0755);
    for (const char* name : {"TUTTI_CLUSTER", "TUTTI_GATE", "TUTTI_PROCESSES"}) unsetenv(name);
  }
  void TearDown() override {
    if (fs::exists(directory_ + "/cluster.toml")) tutti({"down", "--cluster", directory_, "--now", "--timeout", "2s"});
  }

  static Outcome tutti(std::vector<std::string> words) {
    words.insert(words.begin(), TUTTI_BINARY);
    return run(std::move(words));
  }
  // With --cluster DIRECTORY.
  Outcome on_cluster(std::vector<std::string> words) {
    words.insert(words.end(), {"--cluster", directory_});
    return tutti(std::move(words));
  }
  Outcome as_nobody(std::vector<std::string> words) {
    words.insert(words.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TUTTI_BINARY});
    words.insert(words.end(), {"--cluster", directory_});
    return run(std::move(words));
  }
  void up(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"up", "--nodes", "2"});
    const Outcome outcome = on_cluster(more);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }
  pid_t process_of(const std::string& node) { return PidFile::holder(directory_ + "/run/" + node + ".pid").process; }
  void kill_node(const std::string& node) {
    kill(process_of(node), SIGKILL);
    ASSERT_TRUE(wait_until(20s, [&] { return process_of(node) == -1; }));
  }
  // What all applications did at all nodes.
  wire::Usage usage() {
    wire::Usage sum;
    const auto cluster = load_cluster(directory_);
    EXPECT_TRUE(cluster);
    for (const NodeAddress& node : cluster->nodes) {
      const auto control = Control::connect({.endpoint = node.endpoint, .node = node.name});
      EXPECT_TRUE(control) << control.error().message;
      const auto statistics = (*control)->statistics();
      EXPECT_TRUE(statistics);
      for (const wire::Usage& one : statistics->usage) {
        sum.requests += one.requests;
        sum.read_bytes += one.read_bytes;
        sum.written_bytes += one.written_bytes;
      }
    }
    return sum;
  }
  // A cluster.toml of one node on TCP with a key, and its process without a pid file.
  Child tcp_node() {
    fs::create_directories(directory_ + "/files");
    write_key("key", 'k');
    Cluster cluster;
    cluster.nodes = {{"node0", "tcp:127.0.0.1:" + std::to_string(free_port()), {0}}};
    cluster.key_file = directory_ + "/key";
    EXPECT_TRUE(save_cluster(cluster, directory_ + "/cluster.toml"));
    Child node({"sh", "-c",
                std::string("exec ") + TUTTI_BINARY + " node --cluster " + directory_ + " --dir " + directory_ +
                    "/files > " + directory_ + "/log 2>&1"});
    EXPECT_TRUE(wait_until(20s, [&] { return on_cluster({"status"}).status == 0; }));
    return node;
  }
  void write_key(const std::string& name, char fill) {
    { std::ofstream(directory_ + "/" + name) << std::string(64, fill); }
    chmod((directory_ + "/" + name).c_str(), 0600);
  }
  static std::uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof address;
    bind(socket, reinterpret_cast<sockaddr*>(&address), length);
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
    close(socket);
    return ntohs(address.sin_port);
  }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "cluster";
};

TEST_F(CommandsTest, DownNamesNodesThatItMayNotStop) {
  if (geteuid() != 0 || run({"setpriv", "--reuid=65534", TUTTI_BINARY, "--version"}).status != 0)
    GTEST_SKIP() << "needs root, and a program that all users can run";
  up();
  const Outcome down = as_nobody({"down", "--timeout", "1s"});
  EXPECT_EQ(down.status, 1);
  EXPECT_THAT(down.output, AllOf(HasSubstr("node0 may still run: only the node's own user and root may"),
                                 HasSubstr("0 of 2 nodes stopped")));
  EXPECT_NE(process_of("node0"), -1);
  EXPECT_EQ(on_cluster({"down"}).status, 0);
  EXPECT_EQ(process_of("node0"), -1);
}

TEST_F(CommandsTest, DownKillsANodeThatDoesNotStopAndSaysSo) {
  up({"--fence-time", "60s"});
  const pid_t process = process_of("node0");
  kill(process, SIGSTOP);
  const Outcome down = on_cluster({"down", "--timeout", "300ms"});
  EXPECT_EQ(down.status, 0) << down.output;
  EXPECT_THAT(down.output,
              AllOf(HasSubstr("node0 did not stop within 300 ms and was killed"), HasSubstr("2 nodes stopped")));
  EXPECT_TRUE(has_ended(process));
  EXPECT_FALSE(fs::exists(directory_ + "/run/node0.pid") || fs::exists(directory_ + "/run/node0.sock"));
  EXPECT_THAT(on_cluster({"down"}).output, HasSubstr("nothing was running"));
}

TEST_F(CommandsTest, DownStopsATcpClusterWithoutPidFiles) {
  Child node = tcp_node();
  const Outcome down = on_cluster({"down"});
  EXPECT_EQ(down.status, 0) << down.output;
  EXPECT_THAT(down.output, HasSubstr("1 nodes stopped"));
  EXPECT_EQ(node.wait(10s), 0);
}

// A pid file that does not name the node's process: the number in it belongs to an innocent process.
class ForeignPidFileTest : public CommandsTest {
 protected:
  enum Line { kProcess, kBoot, kNamespace, kStartTime };

  void SetUp() override {
    CommandsTest::SetUp();
    up({"--fence-time", "60s"});
    for (const std::string node : {"node0", "node1"}) nodes_.push_back(process_of(node));
  }
  void TearDown() override {
    EXPECT_EQ(innocent_.wait(0s), -1) << "it got a signal";
    for (const pid_t node : nodes_) kill(node, SIGKILL);
    for (const pid_t node : nodes_) EXPECT_TRUE(wait_until(20s, [&] { return has_ended(node); }));
    CommandsTest::TearDown();
  }
  // The lines that the innocent process would write to its own pid file.
  std::vector<std::string> lines_of_innocent() const {
    std::istringstream written(content(pid_file_));
    std::vector<std::string> lines{std::istream_iterator<std::string>(written), {}};
    EXPECT_EQ(lines.size(), 4U);
    lines.resize(4);
    lines[kProcess] = std::to_string(innocent_.id());
    std::istringstream fields(content("/proc/" + lines[kProcess] + "/stat"));
    for (int field = 1; field <= 22; ++field) fields >> lines[kStartTime];
    return lines;
  }
  // In place: the node keeps its lock.
  void write(const std::vector<std::string>& lines) {
    std::ofstream file(pid_file_);
    for (const std::string& line : lines) file << line << "\n";
  }
  // `down` while node0 answers nothing, so that it would be killed if it were found.
  void expect_no_signal(const std::string& reason) {
    kill(nodes_[0], SIGSTOP);
    const Outcome down = on_cluster({"down", "--timeout", "300ms"});
    EXPECT_EQ(down.status, 1);
    EXPECT_THAT(down.output, AllOf(HasSubstr("node0 may still run: no process got a signal"), HasSubstr(reason),
                                   HasSubstr("1 of 2 nodes stopped, 1 may still run")));
    EXPECT_FALSE(has_ended(nodes_[0]));
    EXPECT_TRUE(fs::exists(pid_file_) && fs::exists(directory_ + "/run/node0.sock"));
  }

  const std::string pid_file_ = directory_ + "/run/node0.pid";
  Child innocent_{{"sleep", "600"}};
  std::vector<pid_t> nodes_;
};

TEST_F(ForeignPidFileTest, AProcessOfAnotherBootIsNotSignalled) {
  auto lines = lines_of_innocent();
  lines[kBoot] = "00000000-0000-0000-0000-000000000000";
  write(lines);
  expect_no_signal("it runs on another machine or in another container; run 'tutti down' there");
}

TEST_F(ForeignPidFileTest, AProcessOfAnotherPidNamespaceIsNotSignalled) {
  auto lines = lines_of_innocent();
  lines[kNamespace] = "pid:[1]";
  write(lines);
  expect_no_signal("it runs on another machine or in another container; run 'tutti down' there");
}

TEST_F(ForeignPidFileTest, ALaterProcessWithTheSameNumberIsNotSignalled) {
  auto lines = lines_of_innocent();
  lines[kStartTime] += "0";
  write(lines);
  expect_no_signal("is locked, but not by the process that it names (" + lines[kProcess] + ")");
}

TEST_F(ForeignPidFileTest, ABareNumberIsNotSignalled) {
  write({std::to_string(innocent_.id())});
  expect_no_signal("does not say on which machine its process runs");
}

TEST_F(ForeignPidFileTest, TheNodeIsAskedOverItsEndpoint) {
  write({std::to_string(innocent_.id())});
  const Outcome down = on_cluster({"down"});
  EXPECT_EQ(down.status, 0) << down.output;
  EXPECT_THAT(down.output, HasSubstr("2 nodes stopped"));
  for (const pid_t node : nodes_) EXPECT_TRUE(wait_until(20s, [&] { return has_ended(node); }));
}

TEST_F(CommandsTest, OneCommandAtATimeChangesACluster) {
  const std::string log = directory_ + "/run/node0.log";
  fs::create_directories(directory_ + "/run");
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);  // `up` waits there for a reader
  Child first({TUTTI_BINARY, "up", "--cluster", directory_, "--nodes", "2"});
  ASSERT_TRUE(wait_until(20s, [&] { return fs::exists(directory_ + "/files"); }));
  const std::string description = content(directory_ + "/cluster.toml");
  for (std::vector<std::string> words :
       {std::vector<std::string>{"up", "--policy", "nonsense"}, {"up"}, {"down"}, {"restart", "node0"}}) {
    words.insert(words.begin(), {"timeout", "-s", "KILL", "20", TUTTI_BINARY});
    words.insert(words.end(), {"--cluster", directory_});
    const Outcome second = run(words);
    EXPECT_EQ(second.status, 1);
    EXPECT_THAT(second.output, HasSubstr("another tutti up, down or restart is running in " + directory_));
  }
  EXPECT_EQ(content(directory_ + "/cluster.toml"), description);
  EXPECT_TRUE(fs::exists(directory_ + "/files") && fs::exists(log));
  Child reader({"sh", "-c", "exec cat " + log + " > /dev/null"});
  EXPECT_EQ(first.wait(20s), 0);
  EXPECT_EQ(on_cluster({"status"}).status, 0);
  EXPECT_FALSE(fs::exists(directory_ + "/tutti.lock"));
  EXPECT_EQ(on_cluster({"down"}).status, 0);
}

TEST_F(CommandsTest, UpAndRestartBringBackADeadNode) {
  up();
  const pid_t other = process_of("node0");
  kill_node("node1");
  const Outcome status = on_cluster({"status"});
  EXPECT_EQ(status.status, 1);
  EXPECT_THAT(status.output, AllOf(HasSubstr("1 of 2 up"), HasSubstr("node1: cannot connect to unix:"),
                                   HasSubstr("Connection refused")));
  EXPECT_THAT(on_cluster({"up"}).output, AllOf(HasSubstr("1 nodes serve"), HasSubstr("running before: node0")));
  EXPECT_EQ(on_cluster({"status"}).status, 0);
  EXPECT_EQ(process_of("node0"), other);
  EXPECT_EQ(on_cluster({"up"}).status, 1) << "all of them run";
  kill_node("node1");
  EXPECT_THAT(on_cluster({"restart", "node1"}).output, HasSubstr("node1 started; it was not running"));
  const pid_t before = process_of("node1");
  EXPECT_THAT(on_cluster({"restart", "node1"}).output, HasSubstr("node1 restarted"));
  EXPECT_NE(process_of("node1"), before);
  const Outcome twice = on_cluster({"restart", "node1", "node1"});
  EXPECT_EQ(twice.status, 0) << twice.output;
  EXPECT_EQ(on_cluster({"status"}).status, 0);
  EXPECT_THAT(on_cluster({"restart", "node7"}).output, HasSubstr("no node 'node7'; its nodes: node0, node1"));
}

TEST_F(CommandsTest, PolicyAndLimitsSurviveARestartAndDifferencesAreAWarning) {
  up({"--policy", "window", "-o", "width=123ms", "--depth", "7"});
  EXPECT_THAT(content(directory_ + "/cluster.toml"), AllOf(HasSubstr("policy = \"window\""), HasSubstr("depth = 7")));
  EXPECT_THAT(on_cluster({"status"}).output, Not(HasSubstr("warning")));
  ASSERT_EQ(on_cluster({"policy", "set", "fifo"}).status, 0);
  ASSERT_EQ(on_cluster({"restart", "node1"}).status, 0);
  EXPECT_THAT(on_cluster({"policy", "show"}).output, HasSubstr("width=123ms"));
  const Outcome status = on_cluster({"status"});
  EXPECT_EQ(status.status, 0);
  EXPECT_THAT(status.output, HasSubstr("warning: node"));
  ASSERT_EQ(on_cluster({"down"}).status, 0);
  ASSERT_EQ(on_cluster({"up"}).status, 0);
  EXPECT_THAT(on_cluster({"status"}).output, AllOf(HasSubstr("window"), Not(HasSubstr("warning"))));
}

TEST_F(CommandsTest, OneWayToNameTheClusterForAllCommands) {
  setenv("TUTTI_CLUSTER", directory_.c_str(), 1);
  ASSERT_EQ(tutti({"up", "--nodes", "1"}).status, 0);
  { std::ofstream(base_ / "f") << "text"; }
  for (const std::string& given : {directory_, directory_ + "/cluster.toml"}) {
    setenv("TUTTI_CLUSTER", given.c_str(), 1);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                  {"put", base_ / "f"},
                                                  {"ls"},
                                                  {"cat", "f"},
                                                  {"policy", "show"},
                                                  {"top", "--once", "--interval", "1ms"},
                                                  {"restart", "node0"}}) {
      const Outcome outcome = tutti(words);
      EXPECT_EQ(outcome.status, 0) << words[0] << ": " << outcome.output;
    }
  }
  EXPECT_EQ(tutti({"down"}).status, 0);
  unsetenv("TUTTI_CLUSTER");
  const Outcome none = run({"env", "-C", base_.path(), TUTTI_BINARY, "ls"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.output, AllOf(HasSubstr("tutti-data/cluster.toml: No such file or directory"), HasSubstr("tutti up"),
                                 HasSubstr("TUTTI_CLUSTER")));
}

TEST_F(CommandsTest, UpDoesNotChangeADescriptionThatItDidNotWrite) {
  fs::create_directories(directory_ + "/mount");
  const std::string text =
      "[defaults]\ndirectory = 'mount'\n[[node]]\nname = 'io1'\nendpoint = 'unix:io1.sock'\ntargets = '0'\n"
      "[[node]]\nname = 'io2'\nendpoint = 'tcp:203.0.113.1:7700'\ntargets = '1'\n";
  { std::ofstream(directory_ + "/cluster.toml") << text; }
  const Outcome changed = on_cluster({"up", "--nodes", "3"});
  EXPECT_EQ(changed.status, 2);
  EXPECT_THAT(changed.output, HasSubstr("was not written by 'tutti up'"));
  EXPECT_EQ(content(directory_ + "/cluster.toml"), text);
}

TEST_F(CommandsTest, StatusSaysWhyANodeCannotBeReachedAndTheNodeLogsRefusedLogins) {
  Child node = tcp_node();
  write_key("key", 'w');
  const Outcome wrong = on_cluster({"status"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.output, AllOf(HasSubstr("0 of 1 up"), HasSubstr("node0: "), HasSubstr("key")));
  EXPECT_TRUE(wait_until(10s, [&] {
    return content(directory_ + "/log").find("refused a login from 127.0.0.1") != std::string::npos;
  })) << content(directory_ + "/log");
  const Outcome listing = on_cluster({"ls"});
  EXPECT_EQ(listing.status, 1);
  EXPECT_THAT(listing.output, HasSubstr("node0: "));
  write_key("key", 'k');
  EXPECT_EQ(on_cluster({"down"}).status, 0);
  const Outcome refused = on_cluster({"status"});
  EXPECT_THAT(refused.output, HasSubstr("Connection refused"));
}

TEST_F(CommandsTest, ImpossibleValuesAndWrongVariablesAreErrors) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"up", "--stripe-size", "3"},
                                                {"up", "--stripe-size", "0"},
                                                {"up", "--buffers", "100TiB"},
                                                {"up", "--buffers", "1"},
                                                {"up", "--depth", "0"},
                                                {"up", "--nodes", "0"},
                                                {"down", "--timeout", "0"},
                                                {"top", "--interval", "0"}}) {
    const Outcome outcome = on_cluster(words);
    EXPECT_EQ(outcome.status, 2) << words[0] << " " << words[1] << " " << words[2] << ": " << outcome.output;
    EXPECT_FALSE(fs::exists(directory_));
  }
  up();
  for (const auto& [name, value] : {std::pair{"TUTTI_PROCESSES", "many"},
                                    {"TUTTI_ORDER", "first"},
                                    {"TUTTI_STATE", "/does/not/exist"},
                                    {"TUTTI_GATE", "nonsense:"}}) {
    setenv(name, value, 1);
    const Outcome outcome = on_cluster({"ls"});
    EXPECT_NE(outcome.status, 0) << name;
    EXPECT_THAT(outcome.output, HasSubstr(value));
    unsetenv(name);
  }
}

TEST_F(CommandsTest, AFailedStartLeavesNothingBehind) {
  EXPECT_EQ(on_cluster({"up", "--policy", "nonsense"}).status, 1);
  EXPECT_FALSE(fs::exists(directory_));
  up({"--policy", "fifo"});
  ASSERT_EQ(on_cluster({"down"}).status, 0);
  const std::string before = content(directory_ + "/cluster.toml");
  EXPECT_EQ(on_cluster({"up", "--policy", "nonsense"}).status, 1);
  EXPECT_EQ(content(directory_ + "/cluster.toml"), before);
}

TEST_F(CommandsTest, DownRemovesTheSocketsDirectoryOfALongPath) {
  const std::string directory = base_ / std::string(100, 'd');
  ASSERT_EQ(tutti({"up", "--nodes", "1", "--cluster", directory}).status, 0);
  const auto cluster = load_cluster(directory);
  ASSERT_TRUE(cluster) << cluster.error().message;
  const fs::path sockets = fs::path(cluster->nodes[0].endpoint.substr(5)).parent_path();  // after "unix:"
  EXPECT_THAT(sockets.string(), testing::StartsWith("/tmp/tutti-"));
  EXPECT_TRUE(fs::exists(sockets));
  EXPECT_EQ(tutti({"down", "--cluster", directory}).status, 0);
  EXPECT_FALSE(fs::exists(sockets));
  EXPECT_EQ(tutti({"up", "--cluster", directory}).status, 0) << "again";
  EXPECT_EQ(tutti({"down", "--cluster", directory}).status, 0);
}

// `up` waits for ever for a reader of the last node's log, which is a FIFO, while the other nodes run.
TEST_F(CommandsTest, NodesEndIfTheirStartIsKilled) {
  fs::create_directories(directory_ + "/run");
  ASSERT_EQ(mkfifo((directory_ + "/run/node2.log").c_str(), 0600), 0);
  Child up({TUTTI_BINARY, "up", "--cluster", directory_, "--nodes", "3"});
  const std::vector<std::string> nodes{"node0", "node1"};
  const auto serves = [&](const std::string& node) {
    return process_of(node) != -1 && fs::exists(directory_ + "/run/" + node + ".sock");
  };
  ASSERT_TRUE(wait_until(20s, [&] { return std::ranges::all_of(nodes, serves); }));
  kill(up.id(), SIGKILL);
  EXPECT_EQ(up.wait(20s), 128 + SIGKILL);
  EXPECT_TRUE(wait_until(20s, [&] { return std::ranges::none_of(nodes, serves); })) << "nodes were left behind";
  fs::remove(directory_ + "/run/node2.log");
  EXPECT_EQ(on_cluster({"up"}).status, 0) << "it can be started again";
  EXPECT_EQ(on_cluster({"status"}).status, 0);
}

// Such a file is empty when it is opened, and longer when it is read.
TEST_F(CommandsTest, AFileOfProcIsCopiedInLargeParts) {
  up();
  const std::string maps = "/proc/" + std::to_string(process_of("node0")) + "/smaps";
  const std::size_t size = content(maps).size();
  ASSERT_GT(size, 4096u);
  const Outcome outcome = on_cluster({"put", maps, "maps"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_GT(content(directory_ + "/files/maps").size(), size / 2);
  EXPECT_LT(usage().requests, 20u);
}

// It is made by the nodes: no data is read by the client.
TEST_F(CommandsTest, ACopyInTheClusterCarriesNoData) {
  up();
  { std::ofstream(base_ / "large") << std::string(12 << 20, 'x'); }
  ASSERT_EQ(on_cluster({"put", base_ / "large", "large"}).status, 0);
  const Outcome outcome = on_cluster({"cp", "large", "copy"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(content(directory_ + "/files/copy") == content(base_ / "large"));
  EXPECT_EQ(usage().read_bytes, 0u);
  EXPECT_EQ(usage().written_bytes, 24u << 20) << "the copy counts, too";
}

TEST_F(CommandsTest, AnInterruptedStartLeavesNothingBehind) {
  Child up({TUTTI_BINARY, "up", "--cluster", directory_, "--nodes", "40"});
  ASSERT_TRUE(wait_until(20s, [&] { return process_of("node0") != -1; }));
  const pid_t node = process_of("node0");
  const std::string foreign = directory_ + "/run/foreign";
  { std::ofstream{foreign}; }
  kill(up.id(), SIGINT);
  const int status = up.wait(30s);
  if (status == 0) GTEST_SKIP() << "all nodes had started";
  EXPECT_EQ(status, 128 + SIGINT);
  EXPECT_TRUE(has_ended(node));
  EXPECT_FALSE(fs::exists(directory_ + "/cluster.toml"));
  EXPECT_FALSE(fs::exists(directory_ + "/files"));
  EXPECT_TRUE(fs::exists(foreign)) << "not created by the start";
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_ + "/run"), {}), 1);
}

// Directories named tutti-* in a directory for temporary files of its own.
class LeftoversTest : public CommandsTest {
 protected:
  void kill_experiment(int signal) {
    const std::string temporary = base_ / "tmp";
    fs::create_directory(temporary);
    Child lab({"env", "TMPDIR=" + temporary, TUTTI_BINARY, "lab", "run", "checkpoints", "--live"});
    const auto sockets = [&] {
      for (const auto& entry : fs::directory_iterator(temporary))
        if (fs::exists(entry.path() / "0")) return true;
      return false;
    };
    ASSERT_TRUE(wait_until(60s, sockets)) << "a node of the experiment has its socket there";
    kill(lab.id(), signal);
    ASSERT_EQ(lab.wait(20s), 128 + signal);
    EXPECT_TRUE(wait_until(20s, [&] { return fs::is_empty(temporary); })) << "directories are left";
  }
};

TEST_F(LeftoversTest, KillLeavesNothingOfALiveExperiment) {
  kill_experiment(SIGKILL);
}

TEST_F(LeftoversTest, InterruptLeavesNothingOfALiveExperiment) {
  kill_experiment(SIGINT);
}

TEST_F(CommandsTest, PutSaysWhatItWaitsFor) {
  up({"--fence-time", "60s"});
  const std::string source = base_ / "source", output = base_ / "output";
  ASSERT_EQ(mkfifo(source.c_str(), 0600), 0);
  Child put({"sh", "-c",
             std::string("exec ") + TUTTI_BINARY + " put " + source + " f --cluster " + directory_ + " 2> " + output});
  std::ofstream feed(source);  // waits until the command has opened it
  const auto says = [&](const std::string& text) {
    return wait_until(20s, [&] { return content(output).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(says("tutti: waiting: reading " + source + " for ")) << content(output);
  for (const std::string node : {"node0", "node1"}) kill(process_of(node), SIGSTOP);
  feed << std::string((4 << 20) + 100, 'x') << std::flush;  // a part, and what fits into the FIFO
  EXPECT_TRUE(says("has not answered for ")) << content(output);
  for (const std::string node : {"node0", "node1"}) kill(process_of(node), SIGCONT);
  feed.close();
  EXPECT_EQ(put.wait(30s), 0) << content(output);
  EXPECT_EQ(fs::file_size(directory_ + "/files/f"), (4U << 20) + 100);
}

TEST_F(CommandsTest, TurnSaysWhatItWaitsFor) {
  fs::create_directories(directory_);
  const std::string socket = directory_ + "/gate", output = base_ / "output";
  Child gate({TUTTI_BINARY, "gate", "--targets", "2", "--listen", socket});
  setenv("TUTTI_GATE", socket.c_str(), 1);
  ASSERT_TRUE(wait_until(20s, [&] { return tutti({"gate", "status"}).status == 0; }));
  Child holder({TUTTI_BINARY, "turn", "--job", "first", "--", "sleep", "60"});
  ASSERT_TRUE(wait_until(20s, [&] { return tutti({"gate", "status"}).output.find("first") != std::string::npos; }));
  Child waiting({"sh", "-c", std::string("exec ") + TUTTI_BINARY + " turn --job second -- true 2> " + output});
  EXPECT_TRUE(wait_until(20s, [&] {
    return content(output).find("waiting: number 1 in the queue; target 0 is held by job first since") !=
           std::string::npos;
  })) << content(output);
  kill(holder.id(), SIGTERM);  // passed on to the program that it runs
  EXPECT_EQ(holder.wait(10s), 128 + SIGTERM);
  EXPECT_EQ(waiting.wait(10s), 0);
  unsetenv("TUTTI_GATE");
}

TEST_F(CommandsTest, ManyFilesAreCopiedByOneCommand) {
  up();
  fs::create_directories(base_ / "many");
  fs::create_directories(directory_ + "/files/in");
  std::vector<std::string> words{"put"}, back{"get"};
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    { std::ofstream(base_ / "many/" + name) << name; }
    words.push_back(base_ / "many/" + name);
    back.push_back("in/" + name);
  }
  words.push_back("in");
  Outcome outcome = on_cluster(words);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(content(directory_ + "/files/in/" + std::to_string(i)), std::to_string(i));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_ + "/files/in"), {}), 100) << "no temporary files";
  words.back() = "new";
  EXPECT_THAT(on_cluster(words).output, HasSubstr("new is not a directory"));
  fs::create_directories(base_ / "back");
  back.push_back(base_ / "back");
  outcome = on_cluster(back);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(content(base_ / "back/77"), "77");
  const Outcome listing = on_cluster({"ls", "in"});
  EXPECT_THAT(listing.output, AllOf(HasSubstr(" 77\n"), HasSubstr("-rw-r--r--")));
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// A cluster with real processes, sockets and files, used as an administrator and a user would.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <tutti/client.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/prng.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "base/units.h"
#include "node/control.h"
#include "node/pid_file.h"
#include "processes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace e2e;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override { chmod(base_.path().c_str(), 0755); }
  void TearDown() override {
    if (fs::exists(directory_ + "/cluster.toml")) tutti({"down", "--dir", directory_, "--now"});
  }

  static Outcome tutti(std::vector<std::string> words) {
    words.insert(words.begin(), TUTTI_BINARY);
    return run(std::move(words));
  }
  // A command about the running cluster.
  Outcome on_cluster(std::vector<std::string> words) {
    words.insert(words.end(), {"--cluster", directory_ + "/cluster.toml"});
    return tutti(std::move(words));
  }
  void up(std::vector<std::string> more = {}, const std::string& stripe_size = "64KiB") {
    std::vector<std::string> words{"up",        "--dir",        directory_,        "--stripe-size",
                                   stripe_size, "--fence-time", format(kFenceTime)};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tutti(words);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }
  std::unique_ptr<Client> client(Duration request_timeout = 30s) {
    ClientOptions options{.cluster = load_cluster(directory_ + "/cluster.toml").value()};
    options.cluster.request_timeout = patient(request_timeout);
    auto connected = Client::connect(std::move(options));
    EXPECT_TRUE(connected) << connected.error().message;
    return std::move(*connected);
  }
  static constexpr Duration kFenceTime = patient(1s);

  pid_t process_of(const std::string& node) { return PidFile::holder(directory_ + "/run/" + node + ".pid").process; }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "cluster", files_ = directory_ + "/files/";
};

// Writes random extents of its own file until it is stopped, and keeps the expected content.
class Writer {
 public:
  static constexpr std::size_t kSize = 4 << 20;

  Writer(Client& client, std::string path, std::uint64_t seed)
      : path_(std::move(path)), prng_(seed), model_(kSize, '\0') {
    auto opened = client.open(path_, {.write = true, .create = true});
    EXPECT_TRUE(opened) << opened.error().message;
    file_ = std::move(*opened);
    thread_ = std::thread([this] { work(); });
  }
  ~Writer() { stop(); }

  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t written() const { return written_; }
  const std::string& failure() const { return failure_; }
  const std::string& path() const { return path_; }
  std::string expected() const { return model_.substr(0, end_); }
  File& file() { return *file_; }

 private:
  void work() {
    while (!stopping_) {
      const std::uint64_t offset = prng_.below(kSize - 1);
      const std::uint64_t length = 1 + prng_.below(std::min<std::uint64_t>(kSize - offset, 300000));
      std::string text(length, static_cast<char>('a' + prng_.below(26)));
      const auto done = file_->write(offset, std::as_bytes(std::span(text)));
      if (!done) {
        failure_ = done.error().message;
        return;
      }
      model_.replace(offset, length, text);
      end_ = std::max(end_, offset + length);
      ++written_;
    }
  }

  std::string path_;
  Prng prng_;
  std::string model_;
  std::uint64_t end_ = 0;
  std::shared_ptr<File> file_;
  std::string failure_;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

void wait_for_writes(const std::vector<std::unique_ptr<Writer>>& writers, std::uint64_t more) {
  for (const auto& writer : writers) {
    const std::uint64_t goal = writer->written() + more;
    wait_until(60s, [&] { return writer->written() >= goal || !writer->failure().empty(); });
    EXPECT_GE(writer->written(), goal) << writer->failure();
  }
}

TEST_F(ClusterTest, OneCommandUpAndPlainFiles) {
  up();
  EXPECT_EQ(tutti({"up", "--dir", directory_}).status, 1) << "it is up already";
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i) + "\n";
  { std::ofstream(base_ / "local") << text; }
  EXPECT_EQ(on_cluster({"put", base_ / "local", "copy"}).status, 0);
  EXPECT_EQ(content(files_ + "copy"), text) << "switch Tutti off and the file is still there";
  EXPECT_EQ(on_cluster({"cp", "copy", "second"}).status, 0);
  EXPECT_EQ(on_cluster({"get", "second", base_ / "back"}).status, 0);
  EXPECT_EQ(content(base_ / "back"), text);
  EXPECT_EQ(on_cluster({"cat", "second"}).output, text);
  { std::ofstream(files_ + "beside") << "written beside Tutti"; }
  EXPECT_EQ(on_cluster({"cat", "beside"}).output, "written beside Tutti");
  EXPECT_THAT(on_cluster({"ls"}).output, HasSubstr("beside"));
  EXPECT_EQ(on_cluster({"cat", "nothing"}).status, 1);
  EXPECT_THAT(on_cluster({"top", "--once", "--json", "--interval", "50ms"}).output, HasSubstr("\"nodes_up\": 4"));
  EXPECT_EQ(on_cluster({"status"}).status, 0);
  EXPECT_EQ(tutti({"down", "--dir", directory_}).status, 0);
  EXPECT_EQ(on_cluster({"status"}).status, 1);
}

// A script that holds a lock (flock) and runs `tutti up` releases the lock when it ends.
TEST_F(ClusterTest, NodesKeepNoDescriptorsOfTheirCaller) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  up({"--nodes", "1"});
  close(ends[1]);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the writing end is still open";
  close(ends[0]);
}

TEST_F(ClusterTest, AKilledClusterCanBeStartedAgain) {
  up({"--nodes", "2"});
  for (const std::string node : {"node0", "node1"}) kill(process_of(node), SIGKILL);
  ASSERT_TRUE(wait_until(20s, [&] { return process_of("node0") == -1 && process_of("node1") == -1; }));
  EXPECT_EQ(on_cluster({"status"}).status, 1);
  up({"--nodes", "2"});
  EXPECT_EQ(on_cluster({"status"}).status, 0);
}

TEST_F(ClusterTest, VerifiedWritesWhileNodesAreKilled) {
  up({}, "256KiB");  // some of them by reference
  auto connected = client(2s);
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint64_t i = 0; i < 3; ++i)
    writers.push_back(std::make_unique<Writer>(*connected, "file" + std::to_string(i), i + 1));
  wait_for_writes(writers, 20);
  ASSERT_EQ(kill(process_of("node1"), SIGKILL), 0);
  wait_for_writes(writers, 20);
  ASSERT_EQ(kill(process_of("node3"), SIGKILL), 0);
  wait_for_writes(writers, 20);
  for (const auto& writer : writers) {
    writer->stop();
    EXPECT_EQ(writer->failure(), "");
    EXPECT_TRUE(writer->file().fsync());
    EXPECT_TRUE(content(files_ + writer->path()) == writer->expected()) << writer->path() << " differs from the model";
  }
}

TEST_F(ClusterTest, ThePolicyIsSwitchedUnderLoad) {
  up({"--nodes", "2", "--depth", "1"});
  auto connected = client();
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint64_t i = 0; i < 3; ++i)
    writers.push_back(std::make_unique<Writer>(*connected, "file" + std::to_string(i), i + 1));
  for (const std::string policy : {"fifo", "window", "to", "sjf", "fair", "concert"}) {
    EXPECT_EQ(on_cluster({"policy", "set", policy}).status, 0);
    wait_for_writes(writers, 3);
  }
  EXPECT_EQ(on_cluster({"policy", "set", "window", "-o", "width=zero"}).status, 2);
  EXPECT_THAT(on_cluster({"policy", "show"}).output, HasSubstr("concert"));
  for (const auto& writer : writers) {
    writer->stop();
    EXPECT_EQ(writer->failure(), "");
    EXPECT_TRUE(content(files_ + writer->path()) == writer->expected()) << writer->path();
  }
}

TEST_F(ClusterTest, StoppingLosesNoAcknowledgedWrite) {
  up({"--nodes", "2"});
  ClientOptions options{.cluster = load_cluster(directory_ + "/cluster.toml").value()};
  options.cluster.request_timeout = patient(1s);
  options.give_up = patient(3s);
  auto connected = Client::connect(std::move(options)).value();
  auto file = connected->open("file", {.write = true, .create = true}).value();
  std::uint64_t acknowledged = 0;
  std::thread writer([&] {
    const std::string block(10000, 'b');
    while (file->write(acknowledged * block.size(), std::as_bytes(std::span(block)))) ++acknowledged;
  });
  EXPECT_TRUE(wait_until(60s, [&] { return fs::file_size(files_ + "file") >= 1000000; }));
  const Outcome down = tutti({"down", "--dir", directory_});
  EXPECT_EQ(down.status, 0) << down.output;
  EXPECT_THAT(down.output, Not(HasSubstr("killed")));
  writer.join();
  const std::string text = content(files_ + "file");
  ASSERT_GE(text.size(), acknowledged * 10000);
  EXPECT_EQ(text.substr(0, acknowledged * 10000).find_first_not_of('b'), std::string::npos);
}

TEST_F(ClusterTest, PermissionsOfTheFileSystemApply) {
  TUTTI_NEEDS(geteuid() == 0, "root: to act for other users");
  up({"--nodes", "2"});
  { std::ofstream(files_ + "private") << "private"; }
  chmod((files_ + "private").c_str(), 0600);
  { std::ofstream(files_ + "public") << "public"; }
  chmod((files_ + "public").c_str(), 0644);
  { std::ofstream(base_ / "outside") << "outside"; }
  fs::create_symlink(base_ / "outside", files_ + "escape");
  const auto as_user = [&](std::vector<std::string> words) {
    std::vector<std::string> all{"setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups", TUTTI_BINARY};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--cluster", directory_ + "/cluster.toml"});
    return run(all);
  };
  EXPECT_EQ(as_user({"cat", "public"}).output, "public");
  const Outcome denied = as_user({"cat", "private"});
  EXPECT_EQ(denied.status, 1);
  EXPECT_THAT(denied.output, HasSubstr("ermission denied"));
  EXPECT_EQ(as_user({"put", base_ / "outside", "public"}).status, 1);
  EXPECT_EQ(content(files_ + "public"), "public");
  EXPECT_EQ(as_user({"put", base_ / "outside", "mine"}).status, 0);
  struct stat status {};
  ASSERT_EQ(stat((files_ + "mine").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 4711U);
  EXPECT_EQ(as_user({"cat", "mine"}).output, "outside");
  ASSERT_EQ(chmod((files_ + "mine").c_str(), 0000), 0);
  EXPECT_EQ(as_user({"cat", "mine"}).status, 1) << "the owner reads it no more than without Tutti";
  EXPECT_EQ(as_user({"cat", "escape"}).status, 1);
  EXPECT_EQ(as_user({"cat", "../cluster.toml"}).status, 2) << "wrong usage";
  EXPECT_EQ(as_user({"policy", "set", "fifo"}).status, 1) << "only for the node's own user and root";
}

int connect_unix(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

TEST_F(ClusterTest, GarbageOnOneConnectionDoesNotAffectOthers) {
  up({"--nodes", "1"});
  { std::ofstream(files_ + "f") << "fine"; }
  Prng prng(1);
  for (int i = 0; i < 50; ++i) {
    const int socket = connect_unix(directory_ + "/run/node0.sock");
    std::string garbage(prng.below(5000), '\0');
    for (char& byte : garbage) byte = static_cast<char>(prng());
    EXPECT_GE(send(socket, garbage.data(), garbage.size(), MSG_NOSIGNAL), -1);
    close(socket);
  }
  EXPECT_EQ(on_cluster({"cat", "f"}).output, "fine");
  EXPECT_EQ(on_cluster({"status"}).status, 0);
}

std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket);
  return ntohs(address.sin_port);
}

TEST_F(ClusterTest, OverTcpClientsWithoutTheKeyAreRefused) {
  fs::create_directories(directory_ + "/files");
  const auto write_key = [&](const std::string& path, char fill) {
    { std::ofstream(path) << std::string(64, fill); }
    chmod(path.c_str(), 0600);
  };
  write_key(directory_ + "/key", 'k');
  write_key(directory_ + "/wrong", 'w');
  Cluster cluster;
  cluster.nodes = {{"node0", "tcp:127.0.0.1:" + std::to_string(free_port()), {0}}};
  cluster.key_file = directory_ + "/key";
  ASSERT_TRUE(save_cluster(cluster, directory_ + "/cluster.toml"));
  fs::create_directory(directory_ + "/run");
  Child node({TUTTI_BINARY, "node", "--cluster", directory_ + "/cluster.toml", "--dir", files_, "--pid-file",
              directory_ + "/run/node0.pid"});
  Control::Options right{.endpoint = cluster.nodes[0].endpoint, .key_file = directory_ + "/key"};
  auto control = Control::connect(right);
  wait_until(20s, [&] { return control || (control = Control::connect(right)); });
  ASSERT_TRUE(control) << control.error().message;
  EXPECT_EQ((*control)->health()->node, "node0");
  auto wrong = Control::connect({.endpoint = right.endpoint, .key_file = directory_ + "/wrong"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kDenied) << wrong.error().message;
  EXPECT_FALSE(Control::connect({.endpoint = right.endpoint}));
  right.node = "node1";
  EXPECT_THAT(Control::connect(right).error().message, testing::HasSubstr("this is node node0, not node1"));
  EXPECT_TRUE((*control)->stop(Scheduler::Stop::kDrain));
  EXPECT_EQ(node.wait(30s), 0);
}

TEST_F(ClusterTest, AUnixSocketOfAnotherUserIsNotTrusted) {
  TUTTI_NEEDS(geteuid() == 0, "root");
  fs::create_directories(files_);
  chown(files_.c_str(), 4711, 4711);
  chmod(base_.path().c_str(), 0755);
  fs::create_directory(directory_ + "/theirs");
  chown((directory_ + "/theirs").c_str(), 4711, 4711);
  const std::string file = directory_ + "/cluster.toml";
  Cluster cluster;
  cluster.nodes = {{"node0", "unix:" + directory_ + "/theirs/node0.sock", {}}};
  for (TargetId target = 0; target < 65536; ++target) cluster.nodes[0].targets.push_back(target);
  ASSERT_TRUE(save_cluster(cluster, file));
  Child node({"setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups", TUTTI_BINARY, "node", "--cluster",
              file, "--dir", files_});
  ASSERT_TRUE(wait_until(20s, [&] { return fs::exists(directory_ + "/theirs/node0.sock"); }));
  EXPECT_THAT(Client::connect({.cluster = *load_cluster(file)}).error().message,
              testing::HasSubstr("runs as user 4711"));
  EXPECT_NE(run({TUTTI_BINARY, "status", "--cluster", file}).status, 0);
  chown(file.c_str(), 4711, 4711);  // clients accept nodes of the file's owner
  const Outcome status = run({TUTTI_BINARY, "status", "--cluster", file});
  EXPECT_EQ(status.status, 0) << status.output;
}

// A MUNGE daemon with its own key.
class Munged {
 public:
  Munged(const std::string& directory, char fill) : socket_(directory + "/socket") {
    fs::create_directory(directory);
    { std::ofstream(directory + "/key") << std::string(64, fill); }
    chmod((directory + "/key").c_str(), 0600);
    daemon_ = Child({"munged", "--foreground", "--socket=" + socket_, "--key-file=" + directory + "/key",
                     "--pid-file=" + directory + "/pid", "--log-file=" + directory + "/log",
                     "--seed-file=" + directory + "/seed"});
  }
  bool ready() const {
    return wait_until(10s, [&] { return run({"munge", "-n", "-S", socket_}).status == 0; });
  }
  void use() const { setenv("TUTTI_MUNGE_SOCKET", socket_.c_str(), 1); }

 private:
  std::string socket_;
  Child daemon_;
};

TEST_F(ClusterTest, MungeAuthenticatesClientsAndNodes) {
  TUTTI_NEEDS(geteuid() == 0 && run({"munged", "--version"}).status == 0, "root and Debian's munge");
  const Munged right(base_ / "right", 'r'), wrong(base_ / "wrong", 'w');
  ASSERT_TRUE(right.ready() && wrong.ready());
  fs::create_directories(files_);
  chmod(files_.c_str(), 01777);
  fs::create_directory(directory_ + "/run");
  Cluster cluster;
  cluster.nodes = {{"node0", "tcp:127.0.0.1:" + std::to_string(free_port()), {0}}};
  cluster.munge = true;
  ASSERT_TRUE(save_cluster(cluster, directory_ + "/cluster.toml"));
  right.use();
  Child node({TUTTI_BINARY, "node", "--cluster", directory_ + "/cluster.toml", "--dir", files_, "--pid-file",
              directory_ + "/run/node0.pid"});
  const Control::Options options{.endpoint = cluster.nodes[0].endpoint, .munge = true};
  auto control = Control::connect(options);
  wait_until(20s, [&] { return control || (control = Control::connect(options)); });
  ASSERT_TRUE(control) << control.error().message;

  { std::ofstream(base_ / "local") << "text"; }
  const Outcome put = run({"setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups", TUTTI_BINARY, "put",
                           base_ / "local", "mine", "--cluster", directory_ + "/cluster.toml"});
  EXPECT_EQ(put.status, 0) << put.output;
  struct stat status {};
  ASSERT_EQ(stat((files_ + "mine").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 4711U) << "the user MUNGE vouched for";

  // The node's credential shows that it runs as another user.
  cluster.nodes = {{"node1", "tcp:127.0.0.1:" + std::to_string(free_port()), {0}}};
  ASSERT_TRUE(save_cluster(cluster, directory_ + "/other.toml"));
  Child other({"setpriv", "--reuid", "4712", "--regid", "4712", "--clear-groups", TUTTI_BINARY, "node", "--cluster",
               directory_ + "/other.toml", "--name", "node1", "--dir", files_});
  Control::Options theirs{.endpoint = cluster.nodes[0].endpoint, .munge = true, .node_user = 4712};
  auto trusted = Control::connect(theirs);
  wait_until(20s, [&] { return trusted || (trusted = Control::connect(theirs)); });
  EXPECT_TRUE(trusted) << trusted.error().message;
  theirs.node_user.reset();
  const auto untrusted = Control::connect(theirs);
  ASSERT_FALSE(untrusted);
  EXPECT_EQ(untrusted.error().code, ErrorCode::kDenied);
  EXPECT_THAT(untrusted.error().message, testing::HasSubstr("runs as user 4712"));

  wrong.use();
  const auto forged = Control::connect(options);
  ASSERT_FALSE(forged);
  EXPECT_EQ(forged.error().code, ErrorCode::kDenied) << forged.error().message;
  const auto silent = Control::connect({.endpoint = options.endpoint});
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kDenied) << silent.error().message;
  unsetenv("TUTTI_MUNGE_SOCKET");
  EXPECT_TRUE((*control)->stop(Scheduler::Stop::kDrain));
  EXPECT_EQ(node.wait(30s), 0);
}

TEST_F(ClusterTest, OverloadByAThousandConnectionsStaysWithinTheNodesMemoryLimit) {
  const Outcome outcome = tutti({"bench", "memory", "--json", "--quick"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\"connections\": 1000"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers need extra memory
  EXPECT_THAT(outcome.output, HasSubstr("\"holds\": true")) << outcome.output;
#endif
}

}  // namespace
}  // namespace tutti

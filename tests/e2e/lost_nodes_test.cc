// SPDX-License-Identifier: Apache-2.0
// Node processes are killed and stopped during verified writes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tutti/client.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/prng.h"
#include "net/watchdog.h"
#include "node/node.h"
#include "processes.h"

namespace tutti {
namespace {

using namespace e2e;
using namespace std::chrono_literals;

constexpr std::size_t kNodes = 3;
constexpr std::size_t kFileSize = 600'000;
constexpr Duration kFenceTime = patient(1s);

// Not a test: the code of a node process. TUTTI_E2E_NODE is "index directory".
TEST(Helper, DISABLED_Node) {
  const char* what = std::getenv("TUTTI_E2E_NODE");
  ASSERT_NE(what, nullptr) << "only for the tests below";
  std::istringstream words(what);
  std::size_t index = 0;
  std::string directory;
  words >> index >> directory;
  NodeOptions options;
  options.name = "node" + std::to_string(index);
  options.directory = directory + "/data";
  options.listen = {"unix:" + directory + "/" + std::to_string(index) + ".sock"};
  auto watchdog = net::Watchdog::start(kFenceTime);
  ASSERT_TRUE(watchdog);
  auto node = Node::start(options);
  ASSERT_TRUE(node) << node.error().message;
  (*node)->wait_for_stop();
}

class LostNodes : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = "/tmp/tutti-lost-" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_ + "/data");
    ::chmod((directory_ + "/data").c_str(), 0777);
    for (std::size_t i = 0; i < kNodes; ++i) {
      cluster_.nodes.push_back({"node" + std::to_string(i),
                                "unix:" + directory_ + "/" + std::to_string(i) + ".sock",
                                {static_cast<TargetId>(i)}});
      start(i);
    }
    cluster_.stripe_size = Bytes(4096);
    cluster_.request_timeout = patient(700ms);
    cluster_.fence_time = kFenceTime;
  }
  void TearDown() override {
    for (std::size_t i = 0; i < kNodes; ++i) end(i);
    std::filesystem::remove_all(directory_);
  }

  std::string socket_of(std::size_t index) const { return directory_ + "/" + std::to_string(index) + ".sock"; }
  void start(std::size_t index) {
    std::filesystem::remove(socket_of(index));  // of an earlier process
    const auto variable = "TUTTI_E2E_NODE=" + std::to_string(index) + " " + directory_;
    std::vector<char*> environment = {const_cast<char*>(variable.c_str())};
    for (char** inherited = environ; *inherited != nullptr; ++inherited) environment.push_back(*inherited);
    environment.push_back(nullptr);
    const char* arguments[] = {"node", "--gtest_also_run_disabled_tests", "--gtest_filter=Helper.DISABLED_Node",
                               "--gtest_brief=1", nullptr};
    ASSERT_EQ(::posix_spawn(&processes_[index], "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments),
                            environment.data()),
              0);
  }
  void end(std::size_t index) {
    if (processes_[index] == 0) return;
    ::kill(processes_[index], SIGKILL);
    ::waitpid(processes_[index], nullptr, 0);
    processes_[index] = 0;
  }
  // Stops it as a debugger or a frozen container would; the watchdog must end it.
  void freeze(std::size_t index) {
    // A node that has its socket has its watchdog, too.
    EXPECT_TRUE(wait_until(60s, [&] { return std::filesystem::exists(socket_of(index)); }));
    ::kill(processes_[index], SIGSTOP);
    int status = 0;
    pid_t ended = 0;
    EXPECT_TRUE(wait_until(60s, [&] { return (ended = ::waitpid(processes_[index], &status, WNOHANG)) != 0; }));
    EXPECT_TRUE(ended > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    if (ended > 0) processes_[index] = 0;  // else TearDown() kills it
  }
  std::unique_ptr<Client> connect() {
    ClientOptions options;
    options.cluster = cluster_;
    options.application = 1;
    std::unique_ptr<Client> connected;
    wait_until(10s, [&] {
      for (std::size_t n = 0; n < kNodes; ++n)
        if (!std::filesystem::exists(socket_of(n))) return false;
      auto client = Client::connect(options);
      if (client) connected = std::move(*client);
      return client.has_value();
    });
    return connected;
  }

  std::string directory_;
  Cluster cluster_;
  pid_t processes_[kNodes] = {};
};

TEST_F(LostNodes, VerifiedWritesSurviveKillsAndFreezes) {
  auto client = connect();
  ASSERT_NE(client, nullptr);
  auto file = client->open("verified", {.read = true, .write = true, .create = true});
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::byte> model(kFileSize);
  ASSERT_TRUE((*file)->write(0, model));

  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> operations{0};
  std::thread writer([&] {
    Prng random(17);
    std::vector<std::byte> back;
    while (!over) {
      const auto offset = random.below(kFileSize - 1);
      const auto length = 1 + random.below(std::min<std::uint64_t>(50'000, kFileSize - offset));
      const auto from = model.begin() + static_cast<std::ptrdiff_t>(offset);
      std::generate_n(from, length, [&] { return static_cast<std::byte>(random()); });
      auto written = (*file)->write(offset, std::span(model).subspan(offset, length));
      ASSERT_TRUE(written) << written.error().message;
      back.assign(length, std::byte{0});
      auto read = (*file)->read(offset, back);
      ASSERT_TRUE(read) << read.error().message;
      ASSERT_TRUE(*read == length && std::equal(back.begin(), back.end(), from));
      if (random.chance(0.1)) {
        auto synced = (*file)->fsync();
        ASSERT_TRUE(synced) << synced.error().message;
      }
      ++operations;
    }
  });
  auto let_it_work = [&](std::uint64_t more) {
    const auto until = operations + more;
    EXPECT_TRUE(wait_until(20s, [&] { return operations >= until; }));
  };
  for (const std::size_t victim : {0, 2, 1}) {
    let_it_work(20);
    end(victim);
    let_it_work(5);
    start(victim);
  }
  let_it_work(20);
  freeze(1);
  let_it_work(5);
  start(1);
  let_it_work(20);
  over = true;
  writer.join();
  EXPECT_GT(operations, 50u);

  std::ifstream plain(directory_ + "/data/verified", std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(plain)), {});
  ASSERT_EQ(bytes.size(), model.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), reinterpret_cast<const char*>(model.data())));
}

}  // namespace
}  // namespace tutti

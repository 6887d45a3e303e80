// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "net/crypto.h"
#include "net/endpoint.h"
#include "net/watchdog.h"

namespace tutti::net {
namespace {

using ::testing::HasSubstr;

TEST(BufferPool, NeverGivesMoreThanItsBudget) {
  auto pool = BufferPool::create(Bytes(16 << 20));
  std::vector<Buffer> held;
  for (int i = 0; i < 16; ++i) {
    held.push_back(pool->try_allocate(1 << 20));
    ASSERT_FALSE(held.back().empty());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().data()) % kBufferAlignment, 0u);
  }
  EXPECT_TRUE(pool->try_allocate(1).empty());
  bool told = false;
  pool->when_released([&] { told = true; });
  EXPECT_TRUE(pool->try_allocate(1).empty());
  held.pop_back();
  EXPECT_TRUE(told);
  // What is kept for reuse in one size makes way for another.
  held.clear();
  EXPECT_EQ(pool->try_allocate(16 << 20).size(), std::size_t{16 << 20});
  EXPECT_EQ(pool->in_use().count(), 0u);
}

TEST(BufferPool, AWaiterGetsWhatAnotherThreadGivesBack) {
  auto pool = BufferPool::create(Bytes(16 << 20));
  Buffer all = pool->allocate(16 << 20);
  std::thread waiter([&] { EXPECT_EQ(pool->allocate(5).size(), 5u); });
  all = Buffer();
  waiter.join();
}

TEST(BufferPool, ABufferKeepsItsPool) {
  Buffer buffer = BufferPool::create(Bytes(1))->allocate(100);
  buffer.resize(4096);
  EXPECT_EQ(buffer.span().size(), 4096u);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.size(), 4096u);
}

TEST(Endpoint, ReadsWhatItWrites) {
  for (const std::string text : {"unix:/tmp/a.sock", "tcp:localhost:7000", "tcp:[::1]:0", "local:x"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(to_text(*endpoint), text);
  }
  for (const std::string text : {"", "unix:", "tcp:host", "tcp:host:x", "tcp:host:70000", "tcp:::1:80", "pigeon:1"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_THAT(endpoint.error().message, HasSubstr("unix:/path"));
  }
}

TEST(Crypto, DigestsDependOnEverything) {
  const ClusterKey key(32, std::byte{1}), other(32, std::byte{2});
  const std::vector<std::byte> ab(2, std::byte{7}), a(1, std::byte{7});
  const auto digest = authenticate(key, "client", {ab, a});
  EXPECT_TRUE(same_digest(digest, authenticate(key, "client", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(other, "client", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(key, "node", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(key, "client", {a, ab})));
  EXPECT_NE(random_nonce(), random_nonce());
}

TEST(Crypto, AKeyThatOthersCanReadIsRefused) {
  const auto path = std::filesystem::temp_directory_path() / ("tutti-key-" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(32, 'k');
  ::chmod(path.c_str(), 0644);
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kDenied);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(load_key(path)->size(), 32u);
  std::ofstream(path) << "short";
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kInvalid);
  std::filesystem::remove(path);
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kNotFound);
}

// Runs `child` in a process of its own and returns its number.
pid_t in_child(const std::function<void()>& child) {
  const pid_t process = ::fork();
  if (process == 0) {
    child();
    ::_exit(0);
  }
  return process;
}

TEST(Watchdog, LeavesAProcessThatRunsAlone) {
  int status = -1;
  ::waitpid(in_child([] {
              auto watchdog = Watchdog::start(std::chrono::milliseconds(400));
              std::this_thread::sleep_for(std::chrono::milliseconds(1000));
              watchdog->reset();  // and is called off
              std::this_thread::sleep_for(std::chrono::milliseconds(600));
            }),
            &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Watchdog, AStoppedProcessNeverGoesOn) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t process = in_child([&] {
    auto watchdog = Watchdog::start(std::chrono::milliseconds(200));
    (void)!::write(pipe[1], "x", 1);
    std::this_thread::sleep_for(std::chrono::seconds(30));
  });
  char started = 0;
  ASSERT_EQ(::read(pipe[0], &started, 1), 1);
  ::kill(process, SIGSTOP);
  int status = -1;
  ::waitpid(process, &status, 0);  // stopped processes are not waited for: it was killed
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace tutti::net

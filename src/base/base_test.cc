// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/page_pipe.h"
#include "base/print_error.h"
#include "base/prng.h"
#include "base/table.h"
#include "base/temporary_directory.h"
#include "base/units.h"

namespace tutti {
namespace {

using namespace literals;
using std::chrono::hours;
using std::chrono::milliseconds;

TEST(PrintError, AFullDiskDoesNotEndTheProgram) {
  const int before = ::dup(2), full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ::dup2(full, 2);
  EXPECT_NO_THROW(print_error("a message of {}\n", 17));
  ::close(2);
  EXPECT_NO_THROW(print_error("a message of {}\n", 18));
  ::dup2(before, 2);
  ::close(before);
  ::close(full);
  testing::internal::CaptureStderr();
  print_error("a message of {}\n", 19);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a message of 19\n");
}

TEST(Units, DurationsAndSizesRoundTrip) {
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(*parse_duration(" 1.5 s "), milliseconds(1500));
  EXPECT_EQ(*parse_duration("0"), Duration::zero());
  EXPECT_EQ(*parse_bytes("64KiB"), 64_KiB);
  EXPECT_EQ(*parse_bytes("4 MB"), Bytes(4'000'000));
  EXPECT_EQ(*parse_bytes("17"), 17_B);
  for (const char* wrong : {"", "ms", "5", "-1s", "1 parsec", "1e300s", "nan"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
  for (const char* wrong : {"", "KiB", "-1", "4 MiBB", "1e30", "inf"}) EXPECT_FALSE(parse_bytes(wrong)) << wrong;
  EXPECT_EQ(format(milliseconds(250)), "250 ms");
  EXPECT_EQ(format(64_KiB), "64 KiB");
}

TEST(Prng, OneSeedOneSequence) {
  Prng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto x = a();
    EXPECT_EQ(x, b());
    differs |= x != c();
  }
  EXPECT_TRUE(differs);
}

TEST(Prng, BelowCoversItsRangeAndNothingElse) {
  Prng prng(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(prng.below(10));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
}

TEST(Prng, MeansAreWhatTheyShouldBe) {
  Prng prng(3);
  double uniform = 0, exponential = 0, pareto = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    uniform += prng.uniform();
    exponential += prng.exponential(4.0);
    pareto += prng.pareto(1.0, 3.0);
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.01);
  EXPECT_NEAR(exponential / kDraws, 4.0, 0.1);
  EXPECT_NEAR(pareto / kDraws, 1.5, 0.05);
}

TEST(ManualClock, AWaiterWakesWhenTheClockReachesItsTime) {
  ManualClock clock;
  Mutex mutex;
  std::condition_variable wakeup;
  const TimePoint until = clock.now() + hours(1);
  std::atomic<bool> woke{false};
  std::thread waiter([&] {
    Lock lock(mutex);
    while (clock.now() < until) clock.wait(wakeup, lock, until);
    woke = true;
  });
  clock.advance(milliseconds(1));
  EXPECT_FALSE(woke);
  clock.advance(hours(1));
  waiter.join();
  EXPECT_TRUE(woke);
}

TEST(RealClock, AWaitInThePastReturnsAtOnce) {
  Mutex mutex;
  std::condition_variable wakeup;
  Lock lock(mutex);
  real_clock().wait(wakeup, lock, real_clock().now() - hours(1));
  SUCCEED();
}

// Bytes passed by reference arrive unchanged through a socket and in a file or in memory, at any offset in a page.
TEST(PagePipe, MovesMemoryThroughASocketIntoAFileAndIntoMemory) {
  std::string text(PagePipe::kMost, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  const TemporaryDirectory directory;
  const int file = open((directory / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  std::string there(text.size(), '-');
  std::size_t sent = 0, stored = 0;
  while (stored < text.size()) {
    PagePipe lent, taken;
    ASSERT_TRUE(lent.open() && taken.open());
    ASSERT_GT(
        lent.take(std::as_bytes(std::span(text)).subspan(sent, std::min<std::size_t>(100001, text.size() - sent))), 0);
    const auto moved = lent.drain(ends[0], lent.left());
    ASSERT_GT(moved, 0);
    sent += static_cast<std::size_t>(moved);
    while (taken.take(ends[1], PagePipe::kMost) > 0) {
    }
    ASSERT_EQ(errno, EAGAIN);
    ASSERT_EQ(stored + taken.size(), sent);
    if (stored % 2 == 0) {
      std::string copied(taken.left(), '-');
      ASSERT_TRUE(taken.read(std::as_writable_bytes(std::span(copied))));
      ASSERT_EQ(pwrite(file, copied.data(), copied.size(), static_cast<off_t>(stored)), copied.size());
    }
    while (taken.left() > 0) ASSERT_GT(taken.write(file, stored + taken.size() - taken.left()), 0);
    stored += taken.size();
  }
  ASSERT_EQ(pread(file, there.data(), there.size(), 0), there.size());
  EXPECT_TRUE(there == text);
  close(file);
  close(ends[0]);
  close(ends[1]);
}

TEST(Table, ControlCharactersDoNotReachTheTerminal) {
  Table table({"name"});
  table.add({"a\033[31m\n\x7f"});
  table.add(
      {"b\xc2\x9b"
       "31m"});                          // U+009B: CSI
  table.add({"c\xc3\x9b\xc2\xa0\xc2"});  // other characters, and one that is not complete
  const std::string text = table.text();
  EXPECT_NE(text.find("a?[31m??\n"), std::string::npos) << text;
  EXPECT_NE(text.find("b?31m\n"), std::string::npos) << text;
  EXPECT_NE(text.find("c\xc3\x9b\xc2\xa0\xc2\n"), std::string::npos) << text;
}

TEST(PagePipe, APeerThatIsGoneIsAnErrorAndNoSignal) {
  signal(SIGPIPE, SIG_DFL);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  close(ends[1]);
  const std::string text(10000, 'x');
  PagePipe pages;
  ASSERT_TRUE(pages.open());
  ASSERT_EQ(pages.take(std::as_bytes(std::span(text))), 10000);
  EXPECT_EQ(pages.drain(ends[0], pages.left()), -1);
  EXPECT_EQ(errno, EPIPE);
  sigset_t waiting;
  sigpending(&waiting);
  EXPECT_EQ(sigismember(&waiting, SIGPIPE), 0);
  close(ends[0]);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// A server written for AGIOS uses our library. AgiosFaults: faults of AGIOS that our library must not have.
#include <gmock/gmock.h>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "agios_testing.h"
#include "configuration.h"
#include "trace/live_files.h"

namespace tutti::agios {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

TEST(Agios, HandsOutRequestsAndTakesThemBack) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  Piece piece{.offset = 8192, .length = 100};
  EXPECT_FALSE(piece.release()) << "not handed out";
  ASSERT_TRUE(piece.add(77));
  server.wait_for(1);
  EXPECT_EQ(server.ids(), Ids{77});
  EXPECT_FALSE(piece.cancel()) << "too late";
  EXPECT_TRUE(piece.release());
  EXPECT_FALSE(piece.release()) << "released twice";
}

TEST(Agios, GivesBatchesToProcessListAndSinglesToProcess) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TO-agg")));
  server.plug();
  for (const std::int64_t i : {2, 1, 0}) ASSERT_TRUE(Piece{.offset = i * 4096}.add(i));
  ASSERT_TRUE(Piece{.offset = 1 << 20}.add(9));
  server.open();
  server.wait_for(4);
  EXPECT_THAT(server.calls(), ElementsAre(Ids{0, 1, 2}, Ids{9})) << "in offset order";
}

TEST(Agios, WithoutProcessListEachRequestGoesToProcess) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TO-agg"), 0, /*lists=*/false));
  server.plug();
  for (const std::int64_t i : {2, 1, 0}) ASSERT_TRUE(Piece{.offset = i * 4096}.add(i));
  server.open();
  server.wait_for(3);
  EXPECT_THAT(server.calls(), ElementsAre(Ids{0}, Ids{1}, Ids{2}));
}

TEST(Agios, ToDoesNotMerge) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TO")));
  server.plug();
  for (const std::int64_t i : {2, 1, 0}) ASSERT_TRUE(Piece{.offset = i * 4096}.add(i));
  server.open();
  server.wait_for(3);
  EXPECT_THAT(server.calls(), ElementsAre(Ids{2}, Ids{1}, Ids{0})) << "order of arrival";
}

TEST(Agios, AnIdMayBeUsedAgainBeforeItIsReleased) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  Piece piece;
  ASSERT_TRUE(piece.add(5));
  ASSERT_TRUE(piece.add(5));
  server.wait_for(2);
  EXPECT_TRUE(piece.release());
  EXPECT_TRUE(piece.release());
  EXPECT_FALSE(piece.release());
}

TEST(AgiosFaults, InitTwiceNeitherHangsNorHarms) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  EXPECT_FALSE(server.start(algorithm("SJF")));
  ASSERT_TRUE(Piece{}.add(1));
  server.wait_for(1);
  agios_exit();
  agios_exit();  // a second time
  EXPECT_FALSE(Piece{}.add(2)) << "not started";
  ASSERT_TRUE(server.start(algorithm("SJF"))) << "and again from the start";
  ASSERT_TRUE(Piece{}.add(3));
  server.wait_for(2);
  EXPECT_EQ(server.ids(), (Ids{1, 3}));
}

TEST(AgiosFaults, ExitHandsOutEveryQueuedRequest) {
  for (const char* name : {"NOOP", "TO-agg", "SJF", "MLF", "aIOLi", "SW", "TWINS", "WFQ"}) {
    AgiosServer server;
    ASSERT_TRUE(server.start(algorithm(name), 4));
    server.plug();
    for (std::int64_t i = 0; i < 100; ++i)
      ASSERT_TRUE((Piece{.file = std::to_string(i % 7), .offset = i * 8192}.add(i, static_cast<std::int32_t>(i % 4))));
    std::thread opener([&] { server.open(); });
    agios_exit();
    opener.join();
    Ids ids = server.ids();
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), 100U) << name;
    EXPECT_EQ(ids.front(), 0);
    EXPECT_EQ(ids.back(), 99);
  }
}

TEST(AgiosFaults, CancelTakesTheRightRequest) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("SJF")));
  server.plug();
  Piece first{.file = "first", .offset = 100, .length = 200};
  Piece second{.file = "second", .offset = 100, .length = 200};
  Piece read{.file = "second", .type = RT_READ, .offset = 100, .length = 200};
  ASSERT_TRUE(first.add(1));
  ASSERT_TRUE(second.add(2));
  ASSERT_TRUE(read.add(3));
  EXPECT_FALSE((Piece{.file = "third", .offset = 100, .length = 200}.cancel()));
  EXPECT_FALSE((Piece{.file = "second", .offset = 200, .length = 100}.cancel())) << "length before offset";
  EXPECT_TRUE(second.cancel());
  EXPECT_FALSE(second.cancel()) << "it is gone";
  server.open();
  agios_exit();
  Ids ids = server.ids();
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (Ids{1, 3}));
}

// CPU time of all threads of this process; independent of other load on the machine.
std::chrono::nanoseconds cpu_used() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

class EveryAlgorithm : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryAlgorithm, DispatchesRequestsOverOneGibibyte) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm(GetParam()), 4));
  Piece small, large{.file = "large", .length = 3LL << 30}, huge{.file = "huge", .length = INT64_MAX};
  ASSERT_TRUE(small.add(1));
  ASSERT_TRUE(large.add(2));
  server.wait_for(2);
  EXPECT_TRUE(large.release());
  EXPECT_FALSE(huge.add(3)) << "past what may wait in all; refused, not stuck";
}

TEST_P(EveryAlgorithm, BurnsNoCpuWhileIdle) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm(GetParam()), 4));
  ASSERT_TRUE(Piece{}.add(1));
  server.wait_for(1);
  ASSERT_TRUE(Piece{}.release());
  const auto before = cpu_used();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_used() - before, std::chrono::milliseconds(20));
}

class AggregatingAlgorithm : public ::testing::TestWithParam<const char*> {};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kQueued = 4'000;  // fewer under sanitizers, which are slow
#else
constexpr std::int64_t kQueued = 80'000;
#endif

TEST_P(AggregatingAlgorithm, TakesAndServesDeepQueues) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm(GetParam()), 4));
  server.plug();
  const auto before = cpu_used();
  Piece piece;
  for (std::int64_t i = 0; i < kQueued; ++i) {
    piece.offset = (i * 7919 % kQueued) * 8192;  // one file, random order, no adjoining requests
    ASSERT_TRUE(piece.add(i));
  }
  server.open();
  agios_exit();
  EXPECT_EQ(server.ids().size(), static_cast<std::size_t>(kQueued));
  EXPECT_LT(cpu_used() - before, std::chrono::seconds(15)) << "AGIOS: over 40 s, without a sanitizer";
}

INSTANTIATE_TEST_SUITE_P(Agios, AggregatingAlgorithm, ::testing::Values("TO-agg", "SJF", "MLF", "aIOLi"));
INSTANTIATE_TEST_SUITE_P(Agios, EveryAlgorithm,
                         ::testing::Values("NOOP", "TO", "TO-agg", "SJF", "MLF", "aIOLi", "SW", "TWINS", "WFQ"));

TEST(AgiosFaults, SwServesOneApplicationAtATime) {
  AgiosServer server;
  ASSERT_TRUE(server.start(options("default_algorithm = \"SW\" ;\nSW_window = 2000000000")));
  server.plug();
  for (std::int64_t i = 0; i < 6; ++i) {
    Piece piece{.file = std::to_string(i)};
    ASSERT_TRUE(piece.add(i, i % 2 == 0 ? 7 : 3));
  }
  server.open();
  server.wait_for(6);
  EXPECT_EQ(server.ids(), (Ids{1, 3, 5, 0, 2, 4})) << "application 3, then 7";
}

TEST(AgiosFaults, TwinsRotatesOverTheQueuesThereAre) {
  TemporaryFile file(algorithm("TWINS"));
  const auto configuration = read_configuration(file.path(), 4);
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->options.at("targets"), "4") << "not one too many";

  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TWINS") + "tutti_options: { mode = \"strict\"; width = \"1ms\"; };", 4));
  for (std::int32_t queue = 0; queue < 4; ++queue) ASSERT_TRUE(Piece{.offset = queue * 8192}.add(queue, queue));
  server.wait_for(4);
  EXPECT_EQ(server.ids().size(), 4U);
}

TEST(AgiosFaults, QueueIdsOutOfRangeAreRefused) {
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TWINS"), 4));
  EXPECT_FALSE(Piece{}.add(1, 4));
  EXPECT_FALSE(Piece{}.add(1, -1));
  EXPECT_TRUE(Piece{}.add(2, 3));
  server.wait_for(1);
  EXPECT_EQ(server.ids(), Ids{2});
}

TEST(AgiosBadInput, IsRefusedAndTheLibraryGoesOn) {
  EXPECT_FALSE(agios_init(nullptr, nullptr, nullptr, 0));
  EXPECT_FALSE(Piece{}.add(1)) << "not started";
  EXPECT_FALSE(Piece{}.release());
  EXPECT_FALSE(Piece{}.cancel());
  agios_exit();

  AgiosServer server;
  EXPECT_FALSE(server.start("library_options: { default_algorithm = ")) << "not a configuration file";
  EXPECT_FALSE(server.start(algorithm("NOOP"), -1));
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  EXPECT_FALSE(agios_add_request(nullptr, RT_READ, 0, 1, 1, 0));
  EXPECT_FALSE(agios_release_request(nullptr, RT_READ, 1, 0));
  EXPECT_FALSE(agios_cancel_request(nullptr, RT_READ, 1, 0));
  EXPECT_FALSE((Piece{.type = 2}.add(1)));
  EXPECT_FALSE((Piece{.length = 0}.add(1)));
  EXPECT_FALSE((Piece{.length = -1}.add(1)));
  EXPECT_FALSE((Piece{.offset = -1}.add(1)));
  EXPECT_FALSE((Piece{.offset = INT64_MAX, .length = INT64_MAX}.add(1)));
  EXPECT_TRUE(Piece{}.add(2));
  server.wait_for(1);
  EXPECT_EQ(server.ids(), Ids{2});
}

TEST(AgiosBadInput, IsExplainedOnStandardErrorOnce) {
  ::testing::internal::CaptureStderr();
  const std::string configuration = options("default_algorithm = \"NOOP\" ;\nenable_SW = true\ncolour = \"red\"\n");
  TemporaryFile file(configuration);
  const auto ignore = [](std::int64_t) -> void* { return nullptr; };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(agios_init(ignore, nullptr, file.path(), 0));
    agios_exit();
  }
  const std::string printed = ::testing::internal::GetCapturedStderr();
  const std::string path = file.path();
  EXPECT_EQ(printed, "agios: " + path +
                         ":4: 'enable_SW' has no effect: algorithms are not selected automatically\n" +  //
                         "agios: " + path + ":5: 'colour' has no effect: there is no such key\n");
}

TEST(AgiosTraces, ARunIsRecordedAndReadByTheNextOne) {
  const TemporaryDirectory directory;
  const std::string prefix = directory / "server";
  {
    AgiosServer server;
    ASSERT_TRUE(server.start(
        options("default_algorithm = \"MLF\" ;\ntrace = true ;\ntrace_file_prefix = \"" + prefix + "\"\n")));
    for (std::int64_t i = 0; i < 3; ++i) ASSERT_TRUE((Piece{.offset = 4096 * i, .length = 4096}.add(i)));
    server.wait_for(3);
  }
  const auto recordings = trace::read_files({directory.path()}, trace::Names::kPaths);
  ASSERT_TRUE(recordings) << recordings.error().message;
  ASSERT_EQ(recordings->size(), 1U);
  ASSERT_EQ(recordings->front().trace.requests.size(), 3U);
  EXPECT_EQ(recordings->front().trace.requests[2].offset, 8192U);
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("MLF") + "tutti_options: { prediction = \"traces\"; predict = \"" +
                           directory.path() + "\"; };\n"));
  EXPECT_TRUE(Piece{}.add(1));
  server.wait_for(1);
}

TEST(AgiosTraces, AMissingTraceIsAnError) {
  ::testing::internal::CaptureStderr();
  AgiosServer server;
  EXPECT_FALSE(server.start(algorithm("MLF") + "tutti_options: { predict = \"/does/not/exist\"; };\n"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("/does/not/exist"));
}

TEST(AgiosCallbacks, MayThrow) {
  AgiosServer server;
  server.then = [](std::int64_t) { throw std::runtime_error("a bug in the server"); };
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  Piece piece;
  ASSERT_TRUE(piece.add(1));
  ASSERT_TRUE(piece.add(2));
  server.wait_for(2);
  EXPECT_TRUE(piece.release());
}

TEST(AgiosCallbacks, MayCallTheLibrary) {
  AgiosServer server;
  server.then = [](std::int64_t id) {
    Piece piece{.file = std::to_string(id)};
    EXPECT_TRUE(piece.release());
    EXPECT_TRUE(id == 10 || (Piece{.file = std::to_string(id + 1)}.add(id + 1)));
  };
  ASSERT_TRUE(server.start(algorithm("SJF")));
  ASSERT_TRUE(Piece{.file = "1"}.add(1));
  server.wait_for(10);
  EXPECT_EQ(server.ids().size(), 10U);
}

TEST(AgiosCallbacks, MayEndTheLibrary) {
  AgiosServer server;
  server.then = [](std::int64_t id) {
    if (id == 1) agios_exit();
  };
  ASSERT_TRUE(server.start(algorithm("NOOP")));
  server.plug();
  for (std::int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(Piece{}.add(id));
  server.open();
  server.wait_for(3);  // queued requests are still dispatched
  while (Piece{}.release()) continue;
  while (!server.start(algorithm("SJF"))) std::this_thread::yield();  // until the old library has ended
}

TEST(AgiosThreads, ManyMayUseItAtOnce) {
  constexpr std::int64_t kThreads = 3, kEach = 1000;
  AgiosServer server;
  ASSERT_TRUE(server.start(algorithm("TO-agg")));
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> cancelled = 0;
  for (std::int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < kEach; ++i) {
        Piece piece{.file = std::to_string(t), .offset = i * 4096};
        EXPECT_TRUE(piece.add(t * kEach + i));
        if (i % 3 == 0 && piece.cancel())
          ++cancelled;
        else
          while (!piece.release()) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(static_cast<std::int64_t>(server.ids().size()) + cancelled, kThreads * kEach);
}

}  // namespace
}  // namespace tutti::agios

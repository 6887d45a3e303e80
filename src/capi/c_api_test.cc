// SPDX-License-Identifier: Apache-2.0
// The C API as a server sees it: bad input, pull mode, statistics.
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "base/json.h"
#include "base/temporary_directory.h"
#include "capi/c_api_testing.h"
#include "trace/live_files.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kForever = -1;
constexpr std::int64_t kLongEnough = 60'000'000'000;  // longer than any wait that succeeds

TEST(CApi, PullsInTheOrderOfThePolicyAndMerges) {
  tutti_config config{};
  config.policy = "to";
  auto scheduler = make(config);
  for (std::uint64_t i = 0; i < 3; ++i) {
    tutti_request piece = request(10 + i, i * 4096);
    piece.file = 7;
    piece.direction = TUTTI_WRITE;
    piece.stamp.application = 5;
    piece.stamp.issued = 1'000'000'000;
    piece.stamp.phase_total = 99;
    ASSERT_EQ(tutti_add(scheduler.get(), &piece), TUTTI_OK);
  }
  tutti_batch batch{};
  ASSERT_EQ(tutti_next(scheduler.get(), kForever, &batch), TUTTI_OK);
  ASSERT_EQ(batch.count, 3U);
  EXPECT_EQ(batch.dropped, 0);
  EXPECT_GE(batch.dispatched, batch.arrived);
  const tutti_request& last = batch.requests[2];
  EXPECT_EQ(last.id, 12U);
  EXPECT_EQ(last.offset, 8192U);
  EXPECT_EQ(last.direction, TUTTI_WRITE);
  EXPECT_EQ(last.stamp.application, 5U);
  EXPECT_EQ(last.stamp.issued, 1'000'000'000);
  EXPECT_EQ(last.stamp.phase_start, 1'000'000'000) << "not given: the same as issued";
  EXPECT_EQ(last.stamp.phase_total, 99U);
  EXPECT_EQ(tutti_complete(scheduler.get(), batch.requests, batch.count), TUTTI_OK);
  EXPECT_EQ(statistics(scheduler).completed, 3U);
  EXPECT_EQ(statistics(scheduler).largest_batch, 3U);
}

TEST(CApi, StampsWithoutATimeGetTheTimeOfAdding) {
  auto scheduler = make(fifo());
  const tutti_request plain = request(1);
  ASSERT_EQ(tutti_add(scheduler.get(), &plain), TUTTI_OK);
  tutti_batch batch{};
  ASSERT_EQ(tutti_next(scheduler.get(), 0, &batch), TUTTI_OK);
  EXPECT_LE(batch.requests[0].stamp.issued, batch.arrived);
  EXPECT_GT(batch.requests[0].stamp.issued, batch.arrived - kLongEnough);
}

TEST(CApi, NextWaitsForTheTimeGivenOnly) {
  auto scheduler = make(fifo());
  tutti_batch batch{};
  EXPECT_EQ(tutti_next(scheduler.get(), 0, &batch), TUTTI_TIMEOUT);
  EXPECT_EQ(tutti_next(scheduler.get(), 2'000'000, &batch), TUTTI_TIMEOUT);
  EXPECT_THAT(tutti_last_error(), HasSubstr("2000000 ns"));
  std::thread adder([&] {
    const tutti_request late = request(1);
    EXPECT_EQ(tutti_add(scheduler.get(), &late), TUTTI_OK);
  });
  EXPECT_EQ(tutti_next(scheduler.get(), kLongEnough, &batch), TUTTI_OK);
  EXPECT_EQ(batch.requests[0].id, 1U);
  adder.join();
}

TEST(CApi, NextWithATimeoutWakesUpForEveryReason) {
  tutti_config config = fifo();
  config.max_in_flight = 1;
  auto scheduler = make(config);
  const tutti_request first = request(1), second = request(2);
  tutti_batch held{}, batch{};
  ASSERT_EQ(tutti_add(scheduler.get(), &first), TUTTI_OK);
  ASSERT_EQ(tutti_next(scheduler.get(), kLongEnough, &held), TUTTI_OK);
  ASSERT_EQ(tutti_add(scheduler.get(), &second), TUTTI_OK);
  EXPECT_EQ(tutti_next(scheduler.get(), 1, &batch), TUTTI_TIMEOUT) << "one is in batch";
  std::thread completer([&] { EXPECT_EQ(tutti_complete(scheduler.get(), held.requests, held.count), TUTTI_OK); });
  EXPECT_EQ(tutti_next(scheduler.get(), kLongEnough, &batch), TUTTI_OK);
  completer.join();

  std::thread stopper([&] { EXPECT_EQ(tutti_stop(scheduler.get(), TUTTI_DRAIN), TUTTI_OK); });
  EXPECT_EQ(tutti_next(scheduler.get(), kLongEnough, &held), TUTTI_STOPPED);
  stopper.join();
  EXPECT_EQ(tutti_next(scheduler.get(), INT64_MAX, &held), TUTTI_STOPPED) << "a timeout as long as it gets";
}

TEST(CApi, NextWithATimeoutReturnsWhenThePolicysDelayEnds) {
  const tutti_option options[] = {{"limits", "*=100/s"}, {"burst", "0"}};
  tutti_config config{};
  config.policy = "fair";
  config.options = options;
  config.option_count = 2;
  auto scheduler = make(config);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  tutti_batch batch{};
  ASSERT_EQ(tutti_next(scheduler.get(), kLongEnough, &batch), TUTTI_OK);
  ASSERT_EQ(tutti_next(scheduler.get(), kLongEnough, &batch), TUTTI_OK) << "10 ms later, without a wake-up";
  EXPECT_GT(batch.held, 0);
}

TEST(CApi, BadRequestsAreRefusedAndTheSchedulerContinues) {
  tutti_config config = fifo();
  config.max_requests = 2;
  auto scheduler = make(config);
  const auto add = [&](const tutti_request& given) { return tutti_add(scheduler.get(), &given); };

  EXPECT_EQ(add(request(1, 0, 0)), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("length 0"));
  EXPECT_EQ(add(request(1, std::uint64_t{1} << 63, 1)), TUTTI_INVALID);
  EXPECT_EQ(add(request(1, 1, UINT64_MAX)), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("2^63"));
  tutti_request sideways = request(1);
  sideways.direction = 2;
  EXPECT_EQ(add(sideways), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("direction 2"));

  EXPECT_EQ(add(request(1)), TUTTI_OK);
  EXPECT_EQ(add(request(1)), TUTTI_DUPLICATE);
  EXPECT_THAT(tutti_last_error(), HasSubstr("id 1"));
  EXPECT_EQ(add(request(2)), TUTTI_OK);
  EXPECT_EQ(add(request(3)), TUTTI_FULL);

  EXPECT_EQ(tutti_cancel(scheduler.get(), 2), TUTTI_OK);
  EXPECT_EQ(tutti_cancel(scheduler.get(), 2), TUTTI_NOT_FOUND);
  tutti_batch batch{};
  ASSERT_EQ(tutti_next(scheduler.get(), kForever, &batch), TUTTI_OK);
  EXPECT_EQ(add(request(1)), TUTTI_DUPLICATE) << "in batch";
  EXPECT_EQ(tutti_cancel(scheduler.get(), 1), TUTTI_NOT_FOUND);
  const tutti_request stranger = request(77);
  EXPECT_EQ(tutti_complete(scheduler.get(), &stranger, 1), TUTTI_NOT_FOUND);
  EXPECT_THAT(tutti_last_error(), HasSubstr("request 77"));
  EXPECT_EQ(tutti_complete(scheduler.get(), batch.requests, 1), TUTTI_OK);
  const tutti_request again = request(1);
  EXPECT_EQ(tutti_complete(scheduler.get(), &again, 1), TUTTI_NOT_FOUND) << "completed twice";
  EXPECT_EQ(statistics(scheduler).completed, 1U);
}

TEST(CApi, NullPointersAreErrorsNotCrashes) {
  auto scheduler = make();
  const tutti_request one = request(1);
  tutti_batch batch{};
  EXPECT_EQ(tutti_create(nullptr, nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_add(nullptr, &one), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("scheduler is NULL"));
  EXPECT_EQ(tutti_add(scheduler.get(), nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_cancel(nullptr, 1), TUTTI_INVALID);
  EXPECT_EQ(tutti_next(nullptr, 0, &batch), TUTTI_INVALID);
  EXPECT_EQ(tutti_next(scheduler.get(), 0, nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_complete(nullptr, &one, 1), TUTTI_INVALID);
  EXPECT_EQ(tutti_complete(scheduler.get(), nullptr, 1), TUTTI_INVALID);
  EXPECT_EQ(tutti_switch_policy(scheduler.get(), nullptr, nullptr, 0), TUTTI_INVALID);
  EXPECT_EQ(tutti_switch_policy(scheduler.get(), "fifo", nullptr, 1), TUTTI_INVALID);
  EXPECT_EQ(tutti_stop(nullptr, TUTTI_DROP), TUTTI_INVALID);
  EXPECT_EQ(tutti_stop(scheduler.get(), 7), TUTTI_INVALID);
  EXPECT_EQ(tutti_get_statistics(scheduler.get(), nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_get_statistics_json(scheduler.get(), nullptr), TUTTI_INVALID);
  EXPECT_EQ(tutti_destroy(nullptr), TUTTI_OK);
  tutti_free(nullptr);
  EXPECT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK) << "goes on";
}

TEST(CApi, NullCallbacksAreRefused) {
  const auto ignore = [](const tutti_request*, size_t, void*) {};
  tutti_scheduler* scheduler = nullptr;
  EXPECT_EQ(tutti_create_with_callbacks(nullptr, nullptr, &scheduler), TUTTI_INVALID);
  tutti_callbacks callbacks{};
  callbacks.dropped = ignore;
  EXPECT_EQ(tutti_create_with_callbacks(nullptr, &callbacks, &scheduler), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("process is NULL"));
  callbacks = {};
  callbacks.process = ignore;
  EXPECT_EQ(tutti_create_with_callbacks(nullptr, &callbacks, &scheduler), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("dropped is NULL"));
  EXPECT_EQ(scheduler, nullptr);
}

TEST(CApi, ErrorsForUnknownPoliciesAndOptionsListTheAcceptedOnes) {
  const auto create = [](const char* policy, std::vector<tutti_option> options) {
    tutti_config config{};
    config.policy = policy;
    config.options = options.data();
    config.option_count = options.size();
    tutti_scheduler* scheduler = nullptr;
    const int code = tutti_create(&config, &scheduler);
    EXPECT_EQ(scheduler, nullptr);
    return code;
  };
  EXPECT_EQ(create("elevator", {}), TUTTI_NOT_FOUND);
  EXPECT_THAT(tutti_last_error(), AllOf(HasSubstr("elevator"), HasSubstr("concert")));
  EXPECT_EQ(create("window", {{"breadth", "1s"}}), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), AllOf(HasSubstr("breadth"), HasSubstr("width")));
  EXPECT_EQ(create("window", {{"width", "wide"}}), TUTTI_INVALID);
  EXPECT_EQ(create("window", {{nullptr, "1s"}}), TUTTI_INVALID);
  EXPECT_EQ(create("window", {{"width", nullptr}}), TUTTI_INVALID);
  EXPECT_EQ(create("window", {{"width", "1s"}, {"width", "2s"}}), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("twice"));
}

TEST(CApi, TheLastErrorBelongsToTheThread) {
  EXPECT_EQ(tutti_add(nullptr, nullptr), TUTTI_INVALID);
  std::thread other([] { EXPECT_STREQ(tutti_last_error(), ""); });
  other.join();
  EXPECT_STRNE(tutti_last_error(), "");
}

TEST(CApi, SwitchingThePolicyLosesNoRequest) {
  auto scheduler = make(fifo());
  for (std::uint64_t id = 1; id <= 100; ++id) {
    tutti_request one = request(id);
    one.stamp.application = id % 3 == 0 ? 0 : 1;
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  EXPECT_EQ(tutti_switch_policy(scheduler.get(), "nonsense", nullptr, 0), TUTTI_NOT_FOUND);
  const tutti_option wide[] = {{"width", "1000h"}};
  ASSERT_EQ(tutti_switch_policy(scheduler.get(), "window", wide, 1), TUTTI_OK);
  ASSERT_EQ(tutti_stop(scheduler.get(), TUTTI_DRAIN), TUTTI_OK);
  std::set<std::uint64_t> seen;
  tutti_batch batch{};
  while (tutti_next(scheduler.get(), kForever, &batch) == TUTTI_OK) {
    EXPECT_TRUE(seen.size() >= 33 || batch.requests[0].id % 3 == 0) << "application 0 goes first";
    EXPECT_TRUE(seen.insert(batch.requests[0].id).second);
    EXPECT_EQ(tutti_complete(scheduler.get(), batch.requests, batch.count), TUTTI_OK);
  }
  EXPECT_EQ(seen.size(), 100U);
}

TEST(CApi, PullModeReturnsEveryDroppedRequest) {
  auto scheduler = make(fifo());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  ASSERT_EQ(tutti_stop(scheduler.get(), TUTTI_DROP), TUTTI_OK);
  const tutti_request late = request(9);
  EXPECT_EQ(tutti_add(scheduler.get(), &late), TUTTI_STOPPED);
  tutti_batch batch{};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(tutti_next(scheduler.get(), kLongEnough, &batch), TUTTI_OK);
    EXPECT_NE(batch.dropped, 0);
    EXPECT_EQ(batch.requests[0].id, id);
    EXPECT_EQ(tutti_complete(scheduler.get(), batch.requests, batch.count), TUTTI_OK);
  }
  EXPECT_EQ(tutti_next(scheduler.get(), kForever, &batch), TUTTI_STOPPED);
  EXPECT_EQ(tutti_next(scheduler.get(), 0, &batch), TUTTI_STOPPED);
}

TEST(CApi, StatisticsAsJson) {
  auto scheduler = make(fifo());
  for (std::uint64_t id = 1; id <= 2; ++id) {
    tutti_request one = request(id);
    one.stamp.application = 40 + static_cast<std::uint32_t>(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  char* text = nullptr;
  ASSERT_EQ(tutti_get_statistics_json(scheduler.get(), &text), TUTTI_OK);
  const Json json = parse_json(text).value_or(nullptr);
  tutti_free(text);
  EXPECT_EQ(json["policy"], "fifo");
  EXPECT_EQ(json["added"], 2);
  EXPECT_EQ(json["waiting_bytes"], 8192);
  ASSERT_EQ(json["applications"].size(), 2U);
  EXPECT_EQ(json["applications"][1]["application"], 42);
  EXPECT_EQ(json["applications"][1]["added_bytes"], 4096);
}

TEST(CApi, ABatchIsCompleteWhenAllItsRequestsAre) {
  tutti_config config{};
  config.policy = "to";
  auto scheduler = make(config);
  for (std::uint64_t i = 0; i < 3; ++i) {
    tutti_request piece = request(i, i * 4096);
    piece.file = 1;
    ASSERT_EQ(tutti_add(scheduler.get(), &piece), TUTTI_OK);
  }
  tutti_batch batch{};
  ASSERT_EQ(tutti_next(scheduler.get(), kForever, &batch), TUTTI_OK);
  ASSERT_EQ(batch.count, 3U);
  EXPECT_EQ(tutti_complete(scheduler.get(), &batch.requests[2], 1), TUTTI_OK);
  EXPECT_EQ(tutti_complete(scheduler.get(), &batch.requests[0], 1), TUTTI_OK);
  EXPECT_EQ(statistics(scheduler).in_flight, 1U);
  EXPECT_EQ(tutti_complete(scheduler.get(), &batch.requests[1], 1), TUTTI_OK);
  EXPECT_EQ(statistics(scheduler).in_flight, 0U);
}

TEST(CApiTraces, ARunIsRecordedAndReadByTheNextOne) {
  const TemporaryDirectory directory;
  const std::string path = directory / "server";
  tutti_config config = fifo();
  config.trace = path.c_str();
  {
    auto scheduler = make(config);
    ASSERT_EQ(tutti_name_file(scheduler.get(), 7, "out.17"), TUTTI_OK);
    for (std::uint64_t i = 0; i < 3; ++i) {
      tutti_request added = request(i, i * 4096);
      added.file = 7;
      ASSERT_EQ(tutti_add(scheduler.get(), &added), TUTTI_OK);
    }
    tutti_batch batch{};
    ASSERT_EQ(tutti_next(scheduler.get(), kForever, &batch), TUTTI_OK);
    EXPECT_EQ(tutti_complete(scheduler.get(), batch.requests, batch.count), TUTTI_OK);
  }
  const auto recordings = trace::read_files({directory.path()}, trace::Names::kPatterns);
  ASSERT_TRUE(recordings) << recordings.error().message;
  ASSERT_EQ(recordings->size(), 1U);
  const Trace& recorded = recordings->front().trace;
  ASSERT_EQ(recorded.requests.size(), 3U) << "also those that were dropped";
  EXPECT_TRUE(recorded.requests[0].has_completed());
  EXPECT_EQ(recorded.files.at(recorded.requests[0].file), "out.#");

  const tutti_option traces{"prediction", "traces"};
  tutti_config next{};
  next.policy = "mlf";
  next.options = &traces;
  next.option_count = 1;
  next.predict = directory.path().c_str();
  EXPECT_TRUE(make(next));
}

TEST(CApiTraces, WhatCannotBeWrittenOrReadIsNamed) {
  tutti_scheduler* scheduler = nullptr;
  tutti_config config = fifo();
  config.trace = "/does/not/exist/server";
  EXPECT_EQ(tutti_create(&config, &scheduler), TUTTI_INTERNAL);
  EXPECT_THAT(tutti_last_error(), HasSubstr("/does/not/exist"));
  config = fifo();
  config.predict = "/does/not/exist";
  EXPECT_EQ(tutti_create(&config, &scheduler), TUTTI_INTERNAL);
  EXPECT_THAT(tutti_last_error(), HasSubstr("/does/not/exist"));
  EXPECT_EQ(scheduler, nullptr);
  const TemporaryDirectory directory;
  const std::string path = directory / "server";
  config = fifo();
  config.trace = path.c_str();
  config.trace_limit = 1;
  EXPECT_EQ(tutti_create(&config, &scheduler), TUTTI_INVALID);
  EXPECT_EQ(tutti_name_file(nullptr, 1, "f"), TUTTI_INVALID);
  EXPECT_EQ(tutti_name_file(make().get(), 1, nullptr), TUTTI_INVALID);
}

}  // namespace
}  // namespace tutti::testing

// SPDX-License-Identifier: Apache-2.0
#include "engine/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"
#include "engine/remainder.h"

namespace tutti {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TimePoint at(Duration since_start) {
  return TimePoint{} + since_start;
}

DeviceRequest read_of(std::uint64_t position, Bytes length, std::uint64_t tag) {
  return {.position = position, .length = length, .direction = Direction::kRead, .tag = tag};
}

struct Done {
  std::uint64_t tag;
  Duration at;
};

std::vector<Done> drain(Device& device) {
  std::vector<Done> done;
  while (const auto next = device.next_finish())
    done.push_back({*device.pop_finished(*next), next->time_since_epoch()});
  return done;
}

std::vector<std::uint64_t> tags(const std::vector<Done>& done) {
  std::vector<std::uint64_t> list;
  for (const Done& entry : done) list.push_back(entry.tag);
  return list;
}

TEST(FixedDevice, ServesOneAtATimeInOrderOfArrival) {
  Device device(FixedFigures{.latency = 1ms, .bandwidth = 1e6});
  device.add(read_of(500, 1000_B, 1), at(0ms));
  device.add(read_of(0, 2000_B, 2), at(0ms));
  const auto done = drain(device);
  ASSERT_EQ(tags(done), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(done[0].at, 2ms);
  EXPECT_EQ(done[1].at, 5ms);
  EXPECT_EQ(device.busy(at(9ms)), 5ms);
}

TEST(FixedDevice, TheSlowdownMultipliesServiceTimes) {
  Device device(FixedFigures{.latency = 1ms, .bandwidth = 0});
  device.set_slowdown(10);
  device.add(read_of(0, 1_B, 1), at(0ms));
  EXPECT_EQ(device.next_finish(), at(10ms));
  EXPECT_FALSE(device.pop_finished(at(9ms)));
  EXPECT_TRUE(device.pop_finished(at(10ms)));
}

TEST(SsdDevice, LatenciesOverlapAndTheBusIsShared) {
  Device device(SsdFigures{.read_latency = 100us,
                           .write_latency = 50us,
                           .command = 0us,
                           .channels = 2,
                           .read_bandwidth = 1e9,
                           .write_bandwidth = 1e9});
  for (std::uint64_t tag = 1; tag <= 3; ++tag) device.add(read_of(tag, 100000_B, tag), at(0us));
  EXPECT_EQ(device.in_service(), 2u);
  EXPECT_EQ(device.waiting(), 1u);
  const auto done = drain(device);
  EXPECT_EQ(done[0].at, 200us);
  EXPECT_EQ(done[1].at, 300us);
  EXPECT_EQ(done[2].at, 400us);  // began at 200, ready at 300 when the bus becomes free
}

TEST(HddDevice, ServesInAscendingPositionFromTheHeadThenWrapsAround) {
  Device device{HddFigures{}};
  device.add(read_of(50'000'000'000, 64_KiB, 5), at(0ms));  // in service at once; the head ends there
  device.add(read_of(10'000'000'000, 64_KiB, 1), at(0ms));
  device.add(read_of(90'000'000'000, 64_KiB, 9), at(0ms));
  device.add(read_of(70'000'000'000, 64_KiB, 7), at(0ms));
  EXPECT_THAT(tags(drain(device)), ElementsAre(5, 7, 9, 1));
}

// A stream of requests ahead of the head, two of which always wait: by position, the one behind it is never next.
Duration wait_beside_stream(const HddFigures& figures) {
  Device device{figures};
  constexpr std::uint64_t kBehind = 1'000'000;
  std::uint64_t next = 0;
  const auto add_next = [&](TimePoint now) {
    device.add(read_of(1'000'000'000 + next * 65536, 64_KiB, next), now);
    ++next;
  };
  add_next(at(0ms));
  add_next(at(0ms));
  device.add(read_of(0, 64_KiB, kBehind), at(0ms));
  while (const auto finish = device.next_finish()) {
    if (device.pop_finished(*finish) == kBehind || *finish > at(10s)) return finish->time_since_epoch();
    add_next(*finish);
  }
  return {};
}

TEST(HddDevice, ARequestDoesNotWaitForEverBesideAStream) {
  EXPECT_GT(wait_beside_stream({.deadline = 0ms}), 10s);
  EXPECT_GT(wait_beside_stream({}), 500ms);
  EXPECT_LT(wait_beside_stream({}), 550ms);  // a batch of 16 and a seek later
}

// The time of a stream whose reader pauses as long as each request takes at the device's own speed.
Duration time_with_pauses(double slowdown) {
  Device device{HddFigures{}};
  device.set_slowdown(slowdown);
  const Duration pause = std::chrono::duration_cast<Duration>(1ms * slowdown);
  TimePoint now = at(0ms);
  for (std::uint64_t i = 0; i < 100; ++i) {
    device.add(read_of(i * 65536, 64_KiB, i), now);
    now = *device.next_finish();
    device.pop_finished(now);
    now += pause;
  }
  return now.time_since_epoch();
}

TEST(HddDevice, ASlowDiskReadsAheadSlowly) {
  const Duration own = time_with_pauses(1), slow = time_with_pauses(4);
  EXPECT_NEAR(static_cast<double>(slow.count()), 4.0 * static_cast<double>(own.count()), 0.05 * 4e9);
}

TEST(HddDevice, AContiguousStreamRunsAtTheTransferRateAndARandomOneDoesNot) {
  const HddFigures figures;
  Device stream(figures), scattered(figures);
  for (std::uint64_t i = 0; i < 100; ++i) {
    stream.add(read_of(1'000'000'000 + i * 65536, 64_KiB, i), at(0ms));
    scattered.add(read_of(i * 7919 % 100 * 2'000'000'000, 64_KiB, i), at(0ms));
  }
  const double transfer = 100 * 65536 / figures.bandwidth;
  const double stream_time = std::chrono::duration<double>(drain(stream).back().at).count();
  const double scattered_time = std::chrono::duration<double>(drain(scattered).back().at).count();
  EXPECT_NEAR(stream_time, transfer, 0.020);  // one positioning
  EXPECT_GT(scattered_time, 5 * transfer);
}

TEST(HddDevice, DataReadAheadWhileIdleIsServedFromTheCache) {
  Device device{HddFigures{}};
  device.add(read_of(1'000'000'000, 64_KiB, 1), at(0ms));
  const TimePoint first = *device.next_finish();
  device.pop_finished(first);
  const TimePoint later = first + 100ms;  // long enough to read 512 KiB ahead
  device.add(read_of(1'000'000'000 + 65536, 64_KiB, 2), later);
  EXPECT_LT(*device.next_finish() - later, 300us);  // 64 KiB at the interface's rate
}

TEST(DeviceFigures, PresetsAndKeysAreRead) {
  auto config = Config::parse("[device]\npreset = 'hdd-7200'\nbandwidth = '120MB'\n", "test.toml");
  const auto figures = read_device(config->section("device"));
  ASSERT_TRUE(config->finish());
  EXPECT_EQ(std::get<HddFigures>(figures).bandwidth, 120e6);
  EXPECT_THAT(describe(figures), HasSubstr("120 MB/s"));
  EXPECT_EQ(floor_time(figures, Bytes(120'000'000), Direction::kRead), 1s);
}

TEST(DeviceFigures, MistakesNameTheKeyAndWhatIsAccepted) {
  auto unknown = Config::parse("[device]\npreset = 'floppy'\n", "test.toml");
  read_device(unknown->section("device"));
  ASSERT_FALSE(unknown->finish());
  EXPECT_THAT(unknown->finish().error().message, HasSubstr("test.toml:2: device.preset"));
  EXPECT_THAT(unknown->finish().error().message, HasSubstr("hdd-7200"));

  auto wrong_kind = Config::parse("[device]\nkind = 'ssd'\nrotations_per_minute = 7200\n", "test.toml");
  read_device(wrong_kind->section("device"));
  EXPECT_THAT(wrong_kind->finish().error().message, HasSubstr("unknown key"));
  EXPECT_FALSE(device_preset("floppy"));
}

TEST(Remainder, EqualsThatOfTheLibrary) {
  Prng chance(5);
  const auto draw = [&](double most) { return std::exp2(chance.uniform(-20, most)); };
  for (int i = 0; i < 300'000; ++i) {
    const double period = i % 2 == 0 ? draw(60) : 60e9 / chance.uniform(1, 20000);
    const double quotient = std::floor(draw(50));
    // Also at multiples of the period, and next to them.
    const double values[] = {std::floor(draw(62)), draw(80), quotient * period, std::nextafter(quotient * period, 0),
                             std::nextafter(quotient * period, 1e300)};
    for (const double value : values) ASSERT_EQ(remainder_of(value, period), std::fmod(value, period)) << value;
  }
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// fifo, to, sjf and hbrr: order and merging.
#include <gmock/gmock.h>

#include <array>

#include "sched/testing.h"

namespace tutti {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using Batches = std::vector<std::vector<RequestId>>;

Request piece(RequestId id, FileId file, std::uint64_t block, Direction direction = Direction::kRead) {
  Request request = make_request(id);
  request.file = file;
  request.offset = block * 4096;
  request.length = Bytes(4096);
  request.direction = direction;
  return request;
}

void add_all(Policy& policy, const std::vector<Request>& requests) {
  for (const Request& request : requests) policy.add(request, at_ms(0));
}

TEST(Fifo, OrderOfArrivalOneByOne) {
  auto policy = make("fifo");
  add_all(*policy, {piece(3, 1, 1), piece(1, 1, 0), piece(2, 1, 2)});
  EXPECT_EQ(drain_batches(*policy), (Batches{{3}, {1}, {2}}));
}

TEST(TimeOrder, WaitingNeighboursGoAlongBothWays) {
  auto policy = make("to");
  add_all(*policy, {piece(1, 1, 5), piece(2, 2, 0), piece(3, 1, 6), piece(4, 1, 4), piece(5, 1, 8)});
  EXPECT_EQ(drain_batches(*policy), (Batches{{4, 1, 3}, {2}, {5}}));
}

TEST(TimeOrder, NeitherFilesNorDirectionsMix) {
  auto policy = make("to");
  add_all(*policy, {piece(1, 1, 0), piece(2, 2, 1), piece(3, 1, 1, Direction::kWrite)});
  EXPECT_EQ(drain_batches(*policy), (Batches{{1}, {2}, {3}}));
}

TEST(TimeOrder, LimitsBoundABatch) {
  auto by_count = make("to", {{"max_requests", "2"}}), by_bytes = make("to", {{"max_bytes", "12KiB"}});
  const std::vector<Request> stream = {piece(1, 1, 0), piece(2, 1, 1), piece(3, 1, 2), piece(4, 1, 3)};
  add_all(*by_count, stream);
  add_all(*by_bytes, stream);
  EXPECT_EQ(drain_batches(*by_count), (Batches{{1, 2}, {3, 4}}));
  EXPECT_EQ(drain_batches(*by_bytes), (Batches{{1, 2, 3}, {4}}));
}

TEST(TimeOrder, TwoRequestsForTheSamePlaceBothCome) {
  auto policy = make("to");
  add_all(*policy, {piece(1, 1, 0), piece(2, 1, 0), piece(3, 1, 1), piece(4, 1, 1)});
  EXPECT_THAT(drain(*policy), testing::UnorderedElementsAre(1, 2, 3, 4));
}

TEST(ShortestJobFirst, TheFileWithTheFewestWaitingBytesGoesFirst) {
  auto policy = make("sjf");
  add_all(*policy, {piece(1, 1, 9), piece(2, 1, 0), piece(3, 1, 4), piece(4, 2, 7), piece(5, 2, 8), piece(6, 3, 1)});
  EXPECT_EQ(drain_batches(*policy), (Batches{{6}, {4, 5}, {2}, {3}, {1}}));
}

TEST(ShortestJobFirst, ReadsAndWritesAreDifferentQueues) {
  auto policy = make("sjf");
  add_all(*policy, {piece(1, 1, 0), piece(2, 1, 2), piece(3, 1, 1, Direction::kWrite)});
  EXPECT_EQ(drain_batches(*policy), (Batches{{3}, {1}, {2}}));
}

TEST(HandleRoundRobin, AQuantumOfEightRequestsPerVisit) {
  auto policy = make("hbrr");
  for (RequestId id = 0; id < 20; ++id) policy->add(piece(100 + id, 1, 2 * id), at_ms(0));  // no neighbours
  for (RequestId id = 0; id < 3; ++id) policy->add(piece(200 + id, 2, id), at_ms(0));       // one batch
  const std::vector<RequestId> order = drain(*policy);
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 12),
              ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 200, 201, 202, 108));
}

TEST(HandleRoundRobin, AMergedBatchStaysWithinTheQuantum) {
  auto policy = make("hbrr", {{"quantum", "4"}});
  for (RequestId id = 0; id < 6; ++id) policy->add(piece(100 + id, 1, id), at_ms(0));
  for (RequestId id = 0; id < 2; ++id) policy->add(piece(200 + id, 2, id), at_ms(0));
  EXPECT_EQ(drain_batches(*policy), (Batches{{100, 101, 102, 103}, {200, 201}, {104, 105}}));
}

TEST(HandleRoundRobin, AQuantumOfBytesPerVisit) {
  auto policy = make("hbrr", {{"quantum_bytes", "8KiB"}});
  for (RequestId id = 0; id < 4; ++id) policy->add(piece(100 + id, 1, 2 * id), at_ms(0));
  policy->add(piece(200, 2, 0), at_ms(0));
  EXPECT_EQ(drain_batches(*policy), (Batches{{100}, {101}, {200}, {102}, {103}}));
}

// ---- adjoin=object: a file with stripes of 8 KiB over four targets; what one of them sees ----

Request striped(RequestId id, std::uint64_t block) {
  Request request = piece(id, 1, block);
  request.stripe_log2 = 13;
  request.stripe_count = 4;
  return request;
}

class AdjoinInObject : public testing::TestWithParam<std::string> {
 protected:
  // Blocks of the first column are 0, 1, 8, 9, 16, 17; block 2 begins the second column.
  static std::vector<Request> requests() {
    return {striped(1, 0), striped(2, 1), striped(3, 8), striped(4, 9), striped(5, 17), striped(6, 2)};
  }
};

TEST_P(AdjoinInObject, StripesOfOneTargetMerge) {
  auto policy = make(GetParam(), {{"adjoin", "object"}});
  add_all(*policy, requests());
  EXPECT_THAT(drain_batches(*policy),
              testing::UnorderedElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(5), ElementsAre(6)));
}

TEST_P(AdjoinInObject, ByDefaultOnlyWhatAdjoinsInTheFileMerges) {
  auto policy = make(GetParam());
  add_all(*policy, requests());
  EXPECT_THAT(drain_batches(*policy),
              testing::UnorderedElementsAre(ElementsAre(1, 2, 6), ElementsAre(3, 4), ElementsAre(5)));
}

TEST_P(AdjoinInObject, ALimitThatNeverBinds) {
  PolicyOptions options{{"adjoin", "object"}, {"max_requests", "1000000000"}, {"max_bytes", "1TiB"}};
  if (GetParam() == "hbrr") options["quantum"] = "1000000", options["quantum_bytes"] = "1TiB";
  auto policy = make(GetParam(), options);
  constexpr std::uint64_t kMany = 100'000;
  for (std::uint64_t i = 0; i < kMany; ++i) policy->add(striped(i, i / 2 * 8 + i % 2), at_ms(0));
  const auto batches = drain_batches(*policy);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches.front().size(), kMany);
}

INSTANTIATE_TEST_SUITE_P(Merging, AdjoinInObject, testing::Values("to", "sjf", "hbrr", "mlf", "aioli"),
                         [](const auto& name) { return name.param; });

TEST(Place, ColumnsNeverTouchAndObjectsAreContiguous) {
  for (const std::uint16_t count : std::to_array<std::uint16_t>({2, 3, 4, 1000, 65535}))
    for (const std::uint8_t log2 : std::to_array<std::uint8_t>({0, 9, 15, 46})) {
      Request request;
      request.stripe_log2 = log2 & 0x7f;
      request.stripe_count = count;
      const std::uint64_t size = std::uint64_t{1} << log2;
      const std::uint64_t last = (std::uint64_t{1} << 63) / size / count * count;  // stripes in whole rows
      for (const std::uint64_t stripe : {std::uint64_t{0}, std::uint64_t{count} - 1, last - count, last - 2}) {
        request.offset = stripe * size;
        const std::uint64_t place = request.place();
        request.offset = stripe * size + size - 1;
        EXPECT_EQ(request.place(), place + size - 1);
        if (stripe + count < last) {
          request.offset = (stripe + count) * size;
          EXPECT_EQ(request.place(), place + size) << "the next stripe of the column";
        }
        request.offset = (stripe + 1) * size;
        if (stripe % count + 1 < count) {
          EXPECT_GT(request.place(), place + size) << "the next column";
        }
      }
    }
  Request request;
  request.offset = 12345;
  request.stripe_count = 4;
  request.stripe_log2 = 64;  // not possible
  EXPECT_EQ(request.place(), 12345u);
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// fifo, to, sjf and hbrr: order and merging.
#include <gmock/gmock.h>

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

}  // namespace
}  // namespace tutti

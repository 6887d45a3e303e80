// SPDX-License-Identifier: Apache-2.0
// Every registered policy through the same property tests. A new policy is checked by being in the table.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <set>

#include "base/clock.h"
#include "base/huge_pages.h"
#include "base/prng.h"
#include "base/testing.h"
#include "sched/merging.h"
#include "sched/prediction/predicted_queues.h"
#include "sched/testing.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_OWN_ALLOCATOR 1
#endif

#ifndef TUTTI_OWN_ALLOCATOR

namespace {
std::atomic<std::size_t> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

#endif

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing_support::make;
using testing_support::make_request;

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  return names;
}

// A policy and how it is set up: as it is, merging in objects, or with prediction. Random: of requests that partly come
// at other times or not at all. Matching: of a run with the same requests.
enum class Variant { kPlain, kObjects, kRandomTrace, kMatchingTrace, kLearning };
struct Subject {
  std::string policy;
  Variant variant = Variant::kPlain;

  std::string name() const {
    constexpr std::array kNames = {"", "_objects", "_random_trace", "_matching_trace", "_learning"};
    return policy + kNames[static_cast<std::size_t>(variant)];
  }
  friend void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name(); }
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const PolicyInfo& policy : policies()) {
    all.push_back({policy.name});
    for (const OptionInfo& option : policy.options) {
      if (option.name == "adjoin") all.push_back({policy.name, Variant::kObjects});
      if (option.name != "prediction") continue;
      for (const Variant variant : {Variant::kRandomTrace, Variant::kMatchingTrace, Variant::kLearning})
        all.push_back({policy.name, variant});
    }
  }
  return all;
}

bool under_prediction(Variant variant) {
  return variant == Variant::kRandomTrace || variant == Variant::kMatchingTrace || variant == Variant::kLearning;
}

// A random request; few files, applications and targets, so that requests meet. Every fourth follows on another.
Request random_request(Prng& prng, RequestId id, TimePoint now) {
  Request request;
  request.id = id;
  request.file = prng.below(6);
  request.offset = prng.below(64) * 4096;
  request.length = Bytes(prng.chance(0.05) ? (std::uint64_t{1} << 31) : 4096 * (1 + prng.below(2)));
  request.target = static_cast<TargetId>(prng.below(5));
  request.direction = prng.chance(0.5) ? Direction::kRead : Direction::kWrite;
  request.stripe_log2 = 13;
  request.stripe_count = 4;
  request.stamp.application = static_cast<ApplicationId>(prng.below(7));
  request.stamp.phase = static_cast<PhaseNumber>(prng.below(3));
  request.stamp.issued = now - Duration(static_cast<std::int64_t>(prng.below(3'000'000'000)));
  request.stamp.phase_start = request.stamp.issued - 1ms;
  request.stamp.attained = Bytes(prng.below(1 << 24));
  request.stamp.phase_total = prng.chance(0.5) ? Bytes(prng.below(1 << 25)) : Bytes();
  request.stamp.operation = prng.below(1000);
  request.stamp.bottleneck = Bytes(prng.below(1 << 20));
  return request;
}

// `next(number)` makes a request and says when it arrives.
std::shared_ptr<const PredictedQueues> predict(std::size_t count,
                                               const std::function<WaitingRequest(std::size_t)>& next) {
  Trace trace;
  std::map<FileId, std::uint32_t> files;
  TimePoint first{}, last{};
  for (std::size_t i = 0; i < count; ++i) {
    const WaitingRequest made = next(i);
    if (i == 0) first = last = made.arrived;
    last = std::max(last, made.arrived);
    const auto [file, added] = files.try_emplace(made.request.file, static_cast<std::uint32_t>(files.size()));
    if (added) trace.files.push_back(unnamed_pattern(made.request.file));
    trace.requests.push_back({.time = last - first,
                              .file = file->second,
                              .application = made.request.stamp.application,
                              .offset = made.request.offset,
                              .length = made.request.length,
                              .target = made.request.target,
                              .direction = made.request.direction});
  }
  return PredictedQueues::combine(std::span(&trace, 1));
}

// Watches a policy from outside and complains when it loses, doubles, invents or mixes.
class Witness {
 public:
  explicit Witness(bool objects = false) { place_.object = objects; }
  void added(const Request& request, TimePoint now) { waiting_[request.id] = {request, now}; }
  void cancelled(RequestId id) { EXPECT_EQ(waiting_.erase(id), 1u) << "request " << id << " did not wait"; }
  bool waits(RequestId id) const { return waiting_.contains(id); }
  std::size_t size() const { return waiting_.size(); }
  const std::map<RequestId, WaitingRequest>& waiting() const { return waiting_; }

  void dispatched(const Batch& batch) {
    ASSERT_FALSE(batch.requests.empty());
    ASSERT_EQ(batch.requests.size(), batch.arrived.size());
    for (std::size_t i = 0; i < batch.requests.size(); ++i) {
      const Request& request = batch.requests[i];
      const auto it = waiting_.find(request.id);
      ASSERT_NE(it, waiting_.end()) << "request " << request.id << " was invented or doubled";
      EXPECT_EQ(it->second.request.offset, request.offset);
      EXPECT_EQ(it->second.arrived, batch.arrived[i]);
      if (i > 0) {
        EXPECT_EQ(request.file, batch.requests[i - 1].file);
        EXPECT_EQ(request.direction, batch.requests[i - 1].direction);
        EXPECT_EQ(place_.start(request), place_.end(batch.requests[i - 1]));
        EXPECT_GE(request.offset, batch.requests[i - 1].end());
      }
      waiting_.erase(it);
    }
  }

 private:
  std::map<RequestId, WaitingRequest> waiting_;
  MergePlace place_;
};

class PolicyConformance : public testing::TestWithParam<Subject> {
 protected:
  const PolicyInfo& info() const { return *find_policy(GetParam().policy); }
  Variant variant() const { return GetParam().variant; }
  Witness make_witness() const { return Witness(variant() == Variant::kObjects); }

  PolicyOptions options_of_subject(PolicyOptions options = {}) const {
    if (variant() == Variant::kObjects) options["adjoin"] = "object";
    if (under_prediction(variant())) options["prediction"] = variant() == Variant::kLearning ? "learn" : "traces";
    return options;
  }
  std::unique_ptr<Policy> make_subject(const PolicyOptions& options = {},
                                       const std::shared_ptr<const PredictedQueues>& matching = {}) const {
    const auto traces = variant() == Variant::kMatchingTrace && matching ? matching : predicted_at_random();
    auto made = make_policy(GetParam().policy, options_of_subject(options), {}, traces);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  // Every request that random_request() can make, at some time within 100 ms, so that many form aggregations.
  static std::shared_ptr<const PredictedQueues> predicted_at_random() {
    static const auto predicted = [] {
      Prng prng(99);
      TimePoint now{1h};
      return predict(20'000, [&](std::size_t i) {
        now += Duration(static_cast<std::int64_t>(prng.below(10'000)));
        return WaitingRequest{random_request(prng, i, now), now};
      });
    }();
    return predicted;
  }

  // Dispatches until nothing waits, stepping over waits; every wait has to be worth it.
  void drain(Policy& policy, Witness& witness, TimePoint now) {
    while (witness.size() > 0) {
      Decision decision = policy.next(now);
      if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
        ASSERT_GT(wait->at, now) << "a wait that is already over";
        now = wait->at;
        decision = policy.next(now);
      }
      const auto* go = std::get_if<Dispatch>(&decision);
      ASSERT_NE(go, nullptr) << "no progress with " << witness.size() << " requests waiting";
      witness.dispatched(go->batch);
      policy.completed(go->batch, now, now + 1ms);
    }
    EXPECT_EQ(policy.waiting(), 0u);
    EXPECT_TRUE(std::holds_alternative<Idle>(policy.next(now)));
  }
};

TEST_P(PolicyConformance, NothingIsLostDoubledOrInvented) {
  for (const std::uint64_t seed : testing_support::seeds({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    auto policy = make_subject();
    Witness witness = make_witness();
    RequestId next_id = 1;
    TimePoint now{1h};
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t what = prng.below(100);
      if (what < 48) {
        const Request request = random_request(prng, next_id++, now);
        ASSERT_TRUE(policy->add(request, now));
        witness.added(request, now);
      } else if (what < 85) {
        const Decision decision = policy->next(now);
        if (const auto* go = std::get_if<Dispatch>(&decision)) {
          witness.dispatched(go->batch);
          policy->completed(go->batch, now, now + Duration(static_cast<std::int64_t>(prng.below(3'000'000))));
        }
      } else if (what < 93) {
        const RequestId id = prng.below(next_id + 3);
        const auto cancelled = policy->cancel(id);
        ASSERT_EQ(cancelled.has_value(), witness.waits(id));
        if (cancelled) witness.cancelled(id);
      } else if (what < 98) {
        now += Duration(static_cast<std::int64_t>(prng.below(2'000'000'000)));
      } else if (what < 99) {
        now -= Duration(static_cast<std::int64_t>(prng.below(10'000'000'000)));
      } else {
        // A switch, as the scheduler does it: to another policy and back.
        for (const bool back : {false, true}) {
          auto other = back ? make_subject() : make(policy_names()[prng.below(policies().size())]);
          for (const WaitingRequest& waiting : policy->take_all())
            ASSERT_TRUE(other->add(waiting.request, waiting.arrived));
          ASSERT_EQ(policy->waiting(), 0u);
          policy = std::move(other);
        }
      }
      ASSERT_EQ(policy->waiting(), witness.size());
      if (HasFatalFailure()) return;
    }
    drain(*policy, witness, now);
    if (HasFatalFailure()) return;
  }
}

TEST_P(PolicyConformance, ADuplicateIdIsRefusedAndChangesNothing) {
  auto policy = make_subject();
  const TimePoint now{1h};
  ASSERT_TRUE(policy->add(make_request(1), now));
  Request other = make_request(1);
  other.offset = 4096;
  EXPECT_FALSE(policy->add(other, now));
  EXPECT_EQ(policy->waiting(), 1u);
  EXPECT_EQ(testing_support::drain(*policy, now), std::vector<RequestId>{1});
  EXPECT_TRUE(policy->add(make_request(1), now)) << "free again once dispatched";
}

TEST_P(PolicyConformance, WhatIsTakenOverComesInOrderOfArrival) {
  auto policy = make_subject();
  Prng prng(5);
  TimePoint now{1h};
  for (RequestId id = 1; id <= 500; ++id) policy->add(random_request(prng, id, now), now), now += 1us;
  for (RequestId id = 3; id <= 500; id += 3) policy->cancel(id);
  RequestId last = 0;
  for (const WaitingRequest& waiting : policy->take_all()) {
    EXPECT_GT(waiting.request.id, last);
    EXPECT_NE(waiting.request.id % 3, 0u);
    last = waiting.request.id;
  }
  EXPECT_EQ(last, 500u);
}

// The requests of the test below, in a trace.
std::shared_ptr<const PredictedQueues> predicted_bound_test(std::uint64_t seed) {
  Prng prng(seed);
  TimePoint now{1h};
  return predict(2000, [&](std::size_t i) {
    const WaitingRequest made{random_request(prng, i + 1, now), now};
    prng.chance(0.15);
    now += Duration(static_cast<std::int64_t>(prng.below(2'000'000)));
    return made;
  });
}

// Within the scope a policy states, a request that has waited for the stated time is passed by none that came later.
TEST_P(PolicyConformance, TheStatedOvertakingBoundHolds) {
  using Scope = OvertakingBound::Scope;
  const OvertakingBound& bound = info().bound;
  if (bound.scope == Scope::kPhase) GTEST_SKIP() << "states a bound per phase";
  const auto same_scope = [&](const Request& a, const Request& b) {
    if (bound.scope == Scope::kTarget) return a.target == b.target;
    if (bound.scope == Scope::kApplication) return a.stamp.application == b.stamp.application;
    return true;
  };
  PolicyOptions options;
  Duration after{};
  if (!bound.after.empty()) {
    after = 20ms;
    options[bound.after] = "20ms";
  }
  std::size_t overtaken = 0;
  for (const std::uint64_t seed : testing_support::seeds({1, 2, 3, 4, 5, 6, 7, 8})) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    auto policy = make_subject(options, predicted_bound_test(seed));
    Witness witness = make_witness();
    TimePoint now{1h};
    for (RequestId id = 1; id <= 2000; ++id, now += Duration(static_cast<std::int64_t>(prng.below(2'000'000)))) {
      const Request request = random_request(prng, id, now);
      policy->add(request, now);
      witness.added(request, now);
      if (prng.chance(0.15)) continue;  // a little slower than they come
      const Decision decision = policy->next(now);
      const auto* go = std::get_if<Dispatch>(&decision);
      if (!go) continue;
      const std::vector<Request> batch(go->batch.requests.begin(), go->batch.requests.end());
      witness.dispatched(go->batch);
      for (const auto& [waiting_id, waiting] : witness.waiting()) {
        for (const Request& passing : batch) {
          if (waiting_id > passing.id || !same_scope(waiting.request, passing)) continue;
          ++overtaken;
          ASSERT_LE(now - waiting.arrived, after)
              << "request " << passing.id << " passed request " << waiting_id << " at request " << id;
        }
      }
    }
  }
  EXPECT_EQ(overtaken > 0, !bound.after.empty())
      << "a policy that never lets pass needs no time, one that does states it";
}

// A phase that waits.
struct WaitingPhase {
  std::int64_t left = 0;     // bytes
  std::int64_t allowed = 0;  // bytes that may be served until its end
  std::int64_t served = 0;   // since its arrival
};

constexpr std::int64_t kPhaseRequest = 1 << 20;

// Large phases beside an endless stream of small ones; `known` of them state their sizes. The files of seven
// applications have the same name. No phase may end later than `stretch` times what waited when it began, itself
// included, and `slack`. Returns the largest share of the allowed bytes that a phase has used, in percent.
std::int64_t latest_phase(Policy& policy, Prng prng, double known, std::int64_t stretch) {
  const std::int64_t slack = 2 * stretch * kPhaseRequest;
  std::int64_t most = 0, waiting = 0;
  std::map<ApplicationId, WaitingPhase> phases;
  RequestId next_id = 1;
  for (ApplicationId application = 1; application <= 400; ++application) {
    const auto requests = static_cast<std::int64_t>(prng.chance(0.02) ? 20 + prng.below(80) : 1 + prng.below(3));
    const bool states_size = prng.chance(known);
    policy.name_file(application, "job" + std::to_string(application % 7));
    for (std::int64_t i = 0; i < requests; ++i) {
      const auto before = static_cast<std::uint64_t>(i * kPhaseRequest);
      Request request{.id = next_id++, .file = application, .offset = before};
      request.length = request.stamp.bottleneck = Bytes(kPhaseRequest);
      request.stamp.application = application;
      request.stamp.phase = 2;
      request.stamp.issued = request.stamp.phase_start = TimePoint{1h} + 2s * application;
      request.stamp.attained = Bytes(before);
      if (states_size) request.stamp.phase_total = Bytes(static_cast<std::uint64_t>(2 * requests * kPhaseRequest));
      request.stamp.operation = request.id;
      EXPECT_TRUE(policy.add(request, request.stamp.issued));
    }
    waiting += requests * kPhaseRequest;
    phases[application] = {requests * kPhaseRequest, waiting * stretch + slack, 0};
    for (auto turns = static_cast<std::int64_t>(prng.below(application < 300 ? 6 : 40)); turns > 0; --turns) {
      const Decision decision = policy.next(TimePoint{2h} + std::chrono::seconds(application));
      const auto* go = std::get_if<Dispatch>(&decision);
      if (!go) break;
      for (const Request& request : go->batch.requests) {
        waiting -= kPhaseRequest;
        for (auto& [each, phase] : phases) phase.served += kPhaseRequest;
        WaitingPhase& its = phases[request.stamp.application];
        EXPECT_LE(its.served, its.allowed) << "application " << request.stamp.application;
        most = std::max(most, 100 * its.served / its.allowed);
        if ((its.left -= kPhaseRequest) == 0) phases.erase(request.stamp.application);
      }
    }
  }
  return most;
}

TEST_P(PolicyConformance, PhasesEndWithinTheStatedBound) {
  if (info().bound.scope != OvertakingBound::Scope::kPhase) GTEST_SKIP() << "states a bound per request";
  constexpr std::int64_t kStretch = 3;
  for (const double known : {1.0, 0.0, 0.5, 0.1, 0.9}) {
    // Learned sizes are those of some phases only.
    const bool mixed = (known > 0 && known < 1) || (known == 0 && variant() == Variant::kLearning);
    std::int64_t most = 0;
    for (const std::uint64_t seed : testing_support::seeds({1, 2, 3, 4, 5, 6, 7, 8})) {
      SCOPED_TRACE(fmt::format("seed {}, {} of the sizes are known", seed, known));
      auto policy = make_subject({{info().bound.after, std::to_string(kStretch)}});
      most = std::max(most, latest_phase(*policy, Prng(seed), known, mixed ? 3 * kStretch : kStretch));
    }
    EXPECT_GT(most, mixed ? 20 : 50) << "no phase came near its bound: the test shows nothing";
  }
}

TEST_P(PolicyConformance, AWaitIsFollowedByProgress) {
  Prng prng(11);
  // Streams, so that policies which expect followers have reason to wait.
  const auto next_request = [](Prng& draws, RequestId id, TimePoint now) {
    Request request = random_request(draws, id, now);
    request.offset = id * 4096;
    request.length = Bytes(4096);
    request.direction = Direction::kWrite;
    if (id % 16 < 12) request.file = request.target = 1;
    return request;
  };
  Prng traced(11);
  auto policy = make_subject({}, predict(3000, [&](std::size_t i) {
                               const TimePoint then = TimePoint{1h} + static_cast<std::int64_t>(i) * 20us;
                               return WaitingRequest{next_request(traced, i + 1, then), then};
                             }));
  Witness witness = make_witness();
  TimePoint now{1h};
  for (RequestId id = 1; id <= 3000; ++id, now += 20us) {
    const Request request = next_request(prng, id, now);
    policy->add(request, now);
    witness.added(request, now);
    Decision decision = policy->next(now);
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
      ASSERT_GT(wait->at, now);
      now = wait->at;
      decision = policy->next(now);
      ASSERT_TRUE(std::holds_alternative<Dispatch>(decision));
    }
    if (const auto* go = std::get_if<Dispatch>(&decision)) witness.dispatched(go->batch);
    if (HasFatalFailure()) return;
  }
  drain(*policy, witness, now);
}

#ifndef TUTTI_OWN_ALLOCATOR

std::size_t memory_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd + mapped_huge_bytes();
}

TEST_P(PolicyConformance, NothingIsAllocatedOnceWarm) {
  if (variant() == Variant::kLearning) GTEST_SKIP() << "learning allocates between bursts; its memory is bounded";
  ManualClock clock(TimePoint{1h});
  auto scheduler = std::move(*Scheduler::create({.policy = GetParam().policy,
                                                 .policy_options = options_of_subject(),
                                                 .clock = &clock,
                                                 .predictions = predicted_at_random()}));
  RequestId id = 0;
  const auto lap = [&] {  // eight files are written on by 64 requests, all of which are served
    constexpr std::uint64_t kRequests = 64;
    for (std::uint64_t i = 0; i < kRequests; ++i, ++id) {
      Request request;
      request.id = id;
      request.file = i % 8;
      request.offset = (id / 8) * 65536;
      request.length = Bytes(65536);
      request.target = static_cast<TargetId>(i % 4);
      request.stamp.application = static_cast<ApplicationId>(i % 4);
      request.stamp.issued = clock.now();
      ASSERT_TRUE(scheduler->add(request));
    }
    std::array<Scheduler::Dispatched, 16> batches;
    for (std::uint64_t served = 0; served < kRequests;) {
      TimePoint again;
      const std::size_t count = scheduler->try_next(batches, again);
      for (const auto& batch : std::span(batches).first(count)) served += batch.requests.size();
      scheduler->complete(std::span<const Scheduler::Dispatched>(batches).first(count));
      if (count == 0) clock.set(again);
    }
    clock.advance(1ms);
  };
  for (int i = 0; i < 1000; ++i) lap();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) lap();
  EXPECT_EQ(allocations - before, 0u);
}

TEST_P(PolicyConformance, MemoryReturnsToItsStart) {
  if (variant() == Variant::kLearning) GTEST_SKIP() << "keeps what it learned; predictor_test.cc checks the bound";
  constexpr RequestId kMany = 100'000;
  const std::size_t before = memory_in_use();
  auto policy = make_subject();
  TimePoint now{1h};
  std::vector<std::size_t> after;
  std::size_t peak = 0;
  for (int round = 0; round < 3; ++round) {
    Prng prng(static_cast<std::uint64_t>(round) + 1);
    for (RequestId id = 1; id <= kMany; ++id) {
      Request request = random_request(prng, id, now);
      request.file = prng.below(2000);
      policy->add(request, now);
    }
    peak = std::max(peak, memory_in_use());
    for (RequestId id = 1; id <= kMany; id += 2) ASSERT_TRUE(policy->cancel(id));
    while (policy->waiting() > 0) {
      const Decision decision = policy->next(now);
      if (const auto* wait = std::get_if<WaitUntil>(&decision)) now = wait->at;
    }
    after.push_back(memory_in_use());
  }
  EXPECT_GT(peak - before, kMany * sizeof(Request));
  EXPECT_LT(after.front() - before, (peak - before) / 4) << "what an empty policy keeps for the next time";
  EXPECT_LE(after.back(), after.front() + (1 << 20)) << "and no more each time";
}

#endif

INSTANTIATE_TEST_SUITE_P(All, PolicyConformance, testing::ValuesIn(subjects()),
                         [](const auto& subject) { return subject.param.name(); });

TEST(PolicyTable, NamesAreUniqueAndEveryOptionIsDocumented) {
  std::set<std::string> names;
  for (const PolicyInfo& policy : policies()) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_FALSE(policy.summary.empty()) << policy.name;
    for (const OptionInfo& option : policy.options)
      EXPECT_FALSE(option.help.empty()) << policy.name << "." << option.name;
    EXPECT_TRUE(make_policy(policy.name, {})) << policy.name;
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"fifo", "to", "sjf", "hbrr", "mlf", "aioli", "window", "twins", "concert", "fair"}));
}

TEST(PolicyTable, WrongNamesAndValuesAreExplained) {
  using testing::HasSubstr;
  EXPECT_THAT(make_policy("fifa", {}).error().message, HasSubstr("fifo"));
  EXPECT_THAT(make_policy("window", {{"wdith", "1s"}}).error().message,
              HasSubstr("width, order, slack, gather, patience"));
  EXPECT_THAT(make_policy("window", {{"width", "fast"}}).error().message, HasSubstr("250ms"));
  EXPECT_THAT(make_policy("window", {{"width", "0"}}).error().message, HasSubstr("longer than 0"));
  EXPECT_THAT(make_policy("hbrr", {{"quantum", "0"}}).error().message, HasSubstr("1 to"));
  EXPECT_THAT(make_policy("twins", {{"mode", "loose"}}).error().message, HasSubstr("lend, strict"));
  EXPECT_THAT(make_policy("fair", {{"weights", "a=b"}}).error().message, HasSubstr("17=4"));
  EXPECT_THAT(make_policy("fair", {{"limits", "3=0MB/s"}}).error().message, HasSubstr("/s"));
}

}  // namespace
}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Prediction around a policy that merges (AGIOS, section IV-C).
#pragma once

#include <memory>
#include <vector>

#include "sched/heaps.h"
#include "sched/id_index.h"
#include "sched/policy.h"
#include "sched/prediction/predictor.h"

namespace tutti {

// Passes requests to the inner policy and takes batches from it. If a batch is smaller than the aggregation that is
// expected around it, and waiting has saved time so far, the batch is held: requests of that aggregation that arrive,
// or that the inner policy chooses, join it. Other batches are served meanwhile. A held batch is dispatched when it is
// complete or when its wait is over. The length of the wait is decided once: last minus first expected arrival, counted
// from the arrival of its first request. Requests that were not expected are scheduled by the inner policy alone. Keeps
// the inner policy's bound on overtaking.
class PredictingPolicy final : public Policy {
 public:
  struct Options {
    Predictor::Options predictor{};
    Duration patience{};  // of the inner policy
  };

  PredictingPolicy(std::unique_ptr<Policy> inner, Options options);

  bool add(const Request& request, TimePoint now) override;
  Decision next(TimePoint now) override;
  void completed(const Batch& batch, TimePoint dispatched, TimePoint now) override;
  std::optional<Request> cancel(RequestId id) override;
  bool name_file(FileId file, std::string_view pattern) override {
    predictor_.name_file(file, pattern);
    return true;
  }
  bool waits(RequestId id) const override { return ids_.find(id) != IdIndex::kNone || inner_->waits(id); }
  std::size_t waiting() const override { return inner_->waiting() + ids_.size(); }
  std::vector<WaitingRequest> take_all() override;

 private:
  using Number = std::uint32_t;
  struct HeldKey {
    FileId file = 0;
    std::uint32_t queue = 0;  // of the predictor
    std::uint32_t first = 0;  // of the aggregation
    bool operator==(const HeldKey&) const = default;
    friend std::size_t hash_value(const HeldKey& key) {
      return mix(mix(key.file) + (std::uint64_t{key.queue} << 32 | key.first));
    }
  };
  struct HeldBatch {
    HeldKey key;
    std::vector<WaitingRequest> members;
    Bytes bytes{};
    Aggregation expected{};
    TimePoint oldest{};  // arrival
    TimePoint from{};
    Duration idle_before{};  // idle_ when the wait began
    std::uint32_t joined = 0;
    bool over = false;  // its wait
    void reset();
  };
  // An aggregation of which a part has been served.
  struct Served {
    HeldKey key;
    TimePoint at{};
  };

  void advance(TimePoint now);
  void release_all();
  Decision next_overdue(TimePoint now);
  Decision release_one(Number number, TimePoint now);
  // True: the batch is held now, or has joined one.
  bool hold(const Batch& batch, TimePoint now);
  void open(const HeldKey& key, const Aggregation& expected, const Batch& batch, TimePoint now);
  void join(Number number, const WaitingRequest& waiting, TimePoint now);
  void end_wait(HeldBatch& held, TimePoint now);
  void remove(Number number, std::size_t member);
  void close_if_empty(Number number);
  void set_oldest(Number number);
  Decision dispatch();
  void note_served(const HeldKey& key, TimePoint now);
  bool partly_served(const HeldKey& key);

  std::unique_ptr<Policy> inner_;
  Duration patience_;
  MergePlace place_;
  MergeLimits limits_;
  Predictor predictor_;

  Pool<HeldKey, HeldBatch> held_;
  IdIndex ids_;                    // of requests in held_
  IndexedHeap<TimePoint> ends_;    // of waits
  IndexedHeap<TimePoint> oldest_;  // arrival of the oldest request
  std::vector<Served> served_;     // by hash; a later one replaces an earlier one
  std::vector<Request> batch_;
  std::vector<TimePoint> arrived_;  // of the requests in batch_
  TimePoint now_{};
  TimePoint inner_wait_ = TimePoint::max();  // until which the inner policy waits
  std::size_t in_flight_ = 0;                // batches
  Duration idle_{};                          // time in which batches were held and none was in flight
};

// The options of policies that can be wrapped, and the wrapper itself: returns `inner` if prediction is off.
std::vector<OptionInfo> with_prediction_options(std::vector<OptionInfo> options);
std::unique_ptr<Policy> with_prediction(std::unique_ptr<Policy> inner, const OptionValues& options,
                                        std::shared_ptr<const PredictedQueues> predictions);

}  // namespace tutti

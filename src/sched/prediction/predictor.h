// SPDX-License-Identifier: Apache-2.0
// The predictor (AGIOS, section IV): finds for an actual request the one that was expected, and the aggregation that is
// expected around it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sched/policy.h"
#include "sched/pool.h"
#include "sched/prediction/burst.h"
#include "sched/prediction/chains.h"
#include "sched/prediction/gain.h"

namespace tutti {

// Knows no clock and does no I/O. Predictions come from traces, and with `learn` from what arrived so far: it is
// recorded by pattern of file names, and when a burst begins with a request that was recorded, the next iteration of a
// program has begun and is expected to be like the recorded one. Memory is bounded by kMostFiles, kMostQueues,
// kMostLearned and kMostPerFile; beyond them files are forgotten, or not learned. Not thread-safe.
class Predictor {
 public:
  struct Options {
    std::shared_ptr<const PredictedQueues> traces{};  // may be empty
    bool learn = false;
    MergeLimits limits{};
    MergePlace place{};
    // Until it was measured from completions; what the traces show has precedence.
    ServiceProfile::Figures service = kUnmeasuredService;
  };

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kMostFiles = 65536;
  static constexpr std::size_t kMostQueues = 65536;
  static constexpr std::size_t kMostLearned = 1 << 20;  // requests
  static constexpr std::size_t kMostPerFile = 65536;    // learned requests, by pattern

  // An expected request: its queue, and its number in the queue.
  struct Match {
    std::uint32_t queue = kNone;
    std::uint32_t number = 0;
    explicit operator bool() const { return queue != kNone; }
  };

  explicit Predictor(Options options);

  // There are more patterns or queues than it can keep. start_over() forgets all files and what was learned, so that
  // new ones can be learned; what is expected from traces stays. Queue numbers of earlier matches are no longer valid.
  bool full() const { return full_; }
  void start_over();

  // A file that was not named has a pattern of its own (unnamed_pattern()).
  void name_file(FileId file, std::string_view pattern);

  // Call for every request that arrives, in this order.
  void arrived(const Request& request, TimePoint now);
  void completed(const Batch& batch, TimePoint dispatched, TimePoint now);

  // The expected request: same file, direction, target, offset and length, and the time of arrival is near enough.
  // Does not use the expected request up: it matches in the next burst, too.
  Match find(const Request& request, TimePoint arrived);
  // The aggregation that is expected around it; `request` is the actual one. first_of() returns Aggregation::first.
  Aggregation aggregation(const Match& match, const Request& request);
  std::uint32_t first_of(const Match& match, const Request& request);

  // The measured gain of waits, of all queues together and of this queue: a wait is allowed while both are positive.
  bool pays(const Match& match, TimePoint now);
  struct Wait {
    std::uint32_t queue = kNone;
    Direction direction = Direction::kRead;
    Duration held{};
    Duration idle{};     // of `held`, in which nothing was served
    double alpha = 0;    // expected share that is not idle
    double batches = 0;  // that were saved
  };
  void waited(const Wait& wait, TimePoint now);

  // Start of the burst that the file is in; nothing if no request to it arrived.
  std::optional<TimePoint> burst_start(FileId file);
  Duration time_to_process(Direction direction, Bytes size) const {
    return profiles_[static_cast<std::size_t>(direction)].estimate(size);
  }

 private:
  struct QueueKey {
    std::uint32_t pattern = 0;
    TargetId target = 0;
    Direction direction = Direction::kRead;
    bool operator==(const QueueKey&) const = default;
    friend std::size_t hash_value(const QueueKey& key) {
      return mix(mix(key.pattern) + (std::uint64_t{key.target} << 1 | static_cast<std::uint64_t>(key.direction)));
    }
  };
  struct Queue {
    QueueKey key;
    Chains chains;
    std::unique_ptr<PredictedQueue> learned;
    std::vector<PredictionSample> recording;
    GainAccount gain;
    std::uint32_t model = 0;  // version of the model that its chains were computed with
    void reset() { *this = Queue{}; }
  };
  struct Pattern {
    std::uint32_t file = PredictedQueues::kNone;  // in the traces
    Burst burst;
    std::size_t recorded = 0;  // requests
    std::vector<std::uint32_t> queues;
  };
  struct File {
    FileId key = 0;
    bool resolved = false;  // `pattern` is set
    std::uint32_t pattern = kNone;
    Burst burst;
    // The last queue of each direction.
    std::array<TargetId, 2> target{};
    std::array<std::uint32_t, 2> queue{kNone, kNone};
    void reset() { *this = File{}; }
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Model {
    AggregationModel values{};
    std::uint32_t version = 1;
  };

  File& open_file(FileId file);
  std::uint32_t pattern_number(std::string_view name);
  // The queue of a request; kNone if there is none, and `learn` is off or there are too many.
  std::uint32_t queue_of(File& file, const Request& request);
  std::uint32_t open_queue(const QueueKey& key);
  void record(File& file, std::uint32_t queue, const Request& request, TimePoint now);
  void finish_recording(Queue& queue);
  void drop_recording(Queue& queue);
  void make_room();
  Chains& chains_of(const Match& match);
  ServiceProfile first_profile(Direction direction) const;
  void update_model(Direction direction);
  Duration tolerance(const PredictedRequest& expected, Duration actual) const;

  Options options_;
  Pool<FileId, File> files_;
  std::uint32_t next_eviction_ = 0;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> pattern_numbers_;
  std::vector<Pattern> patterns_;
  Pool<QueueKey, Queue> queues_;
  std::size_t learned_ = 0;  // requests in `learned` and `recording`
  bool full_ = false;
  std::uint32_t arrivals_ = 0;
  std::array<ServiceProfile, 2> profiles_;  // by direction
  std::array<Model, 2> models_{};
  TimePoint last_completion_{};
  double each_ = 0;                                     // nanoseconds of service per request
  double expected_overlap_ = 0, observed_overlap_ = 0;  // fading sums over waits
  GainAccount gain_;
};

}  // namespace tutti

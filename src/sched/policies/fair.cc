// SPDX-License-Identifier: Apache-2.0
// fair: weighted sharing per application, with optional limits.
//
// Start-time fair queueing: each application has a virtual clock that runs on by length/weight with every request
// served; the application whose clock is furthest behind goes next. One that was idle starts at the present, so it
// can neither save up nor be punished. Limits are leaky buckets (GCRA): one time per limit, at which the bucket will
// be empty; an application may go when that time is at most a burst away.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "base/units.h"
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

struct Limit {
  double bytes_per_second = 0;     // 0: none
  double requests_per_second = 0;  // 0: none
  bool any() const { return bytes_per_second > 0 || requests_per_second > 0; }
};

struct Shares {
  double default_weight = 1;
  Limit default_limit;
  boost::unordered_flat_map<ApplicationId, double> weights;
  boost::unordered_flat_map<ApplicationId, Limit> limits;
};

// The buckets of an application that has limits.
struct Meter {
  Limit limit;
  TimePoint bytes_empty{}, requests_empty{};  // when they will be empty
};

struct Application {  // one cache line
  ApplicationId key = 0;
  float weight = 0;  // 0: not yet looked up
  SlotQueue queue;
  double finish = 0;             // virtual time at which what it was served so far is paid for
  std::unique_ptr<Meter> meter;  // nullptr: no limits
  void reset() { *this = {}; }
};

// Virtual times as integers in the same order, which a heap compares without branches.
std::uint64_t order_of(double virtual_time) {
  return std::bit_cast<std::uint64_t>(virtual_time);  // never negative
}

class Fair final : public QueuedPolicy {
 public:
  Fair(Shares shares, Duration burst) : shares_(std::move(shares)), burst_(burst) {}

 private:
  void enqueue(Slot slot) override {
    const ApplicationId id = store_.request(slot).stamp.application;
    if (applications_.size() >= tidy_at_) forget_idle();
    const std::uint32_t number = applications_.open(id);
    Application& application = applications_[number];
    if (application.weight == 0) introduce(application);
    if (application.queue.empty()) ready_.set(number, order_of(std::max(now_virtual_, application.finish)));
    application.queue.push(store_, slot);
    store_.place(slot) = number;
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    Application& application = applications_[number];
    application.queue.lose_one(store_);
    if (!application.queue.empty()) return;
    if (ready_.contains(number)) ready_.erase(number);
    if (throttled_.contains(number)) throttled_.erase(number);
  }

  Decision choose(TimePoint now) override {
    release_throttled(now);
    while (!ready_.empty()) {
      const std::uint32_t number = ready_.top();
      Application& application = applications_[number];
      const TimePoint allowed = allowed_at(application, now);
      if (allowed <= now) {
        serve(number, now);
        return dispatch();
      }
      ready_.erase(number);
      throttled_.set(number, {allowed, application.key});
    }
    return WaitUntil{throttled_.top_key().at};
  }

  void serve(std::uint32_t number, TimePoint now) {
    Application& application = applications_[number];
    const Slot slot = application.queue.pop(store_);
    const auto bytes = static_cast<double>(store_.request(slot).length.count());
    now_virtual_ = std::bit_cast<double>(ready_.top_key());
    application.finish = now_virtual_ + bytes / application.weight;
    if (application.meter) charge(*application.meter, bytes, now);
    if (application.queue.empty())
      ready_.erase(number);
    else
      ready_.set(number, order_of(application.finish));
    if (!ready_.empty()) applications_[ready_.top()].queue.expect_front(store_);
    take(slot);
  }

  // When the application's limits let it go; a moment not after `now` if at once.
  TimePoint allowed_at(const Application& application, TimePoint now) const {
    if (!application.meter) return now;
    return std::max(application.meter->bytes_empty, application.meter->requests_empty) - burst_;
  }

  static void charge(Meter& meter, double bytes, TimePoint now) {
    const auto pour = [&](TimePoint& empty, double rate, double amount) {
      if (rate > 0) empty = std::max(empty, now) + time_of(amount, rate);
    };
    pour(meter.bytes_empty, meter.limit.bytes_per_second, bytes);
    pour(meter.requests_empty, meter.limit.requests_per_second, 1);
  }

  static Duration time_of(double amount, double rate) {
    return Duration(std::llround(std::min(amount / rate * 1e9, 3.6e15)));
  }

  void release_throttled(TimePoint now) {
    if (now < last_) shift_buckets(now - last_);
    last_ = now;
    while (!throttled_.empty() && throttled_.top_key().at <= now) release();
  }

  void release() {
    const std::uint32_t number = throttled_.top();
    throttled_.pop();
    const Application& application = applications_[number];
    ready_.set(number, order_of(std::max(now_virtual_, application.finish)));
  }

  // The clock jumped back: what the buckets hold stays the same, so their times go along.
  void shift_buckets(Duration by) {
    for (const std::uint32_t number : applications_.numbers()) {
      Meter* meter = applications_[number].meter.get();
      if (!meter) continue;
      meter->bytes_empty += by;
      meter->requests_empty += by;
    }
    while (!throttled_.empty()) release();
  }

  void introduce(Application& application) const {
    const auto weight = shares_.weights.find(application.key);
    const auto limit = shares_.limits.find(application.key);
    application.weight = static_cast<float>(weight == shares_.weights.end() ? shares_.default_weight : weight->second);
    const Limit& found = limit == shares_.limits.end() ? shares_.default_limit : limit->second;
    if (found.any()) application.meter = std::make_unique<Meter>(Meter{.limit = found});
    application.finish = now_virtual_;
  }

  // An idle application whose virtual clock is past and whose buckets are empty is as good as a new one.
  void forget_idle() {
    for (const std::uint32_t number : applications_.numbers()) {
      const Application& application = applications_[number];
      const Meter* meter = application.meter.get();
      const bool drained = !meter || std::max(meter->bytes_empty, meter->requests_empty) <= last_;
      if (application.queue.empty() && application.finish <= now_virtual_ && drained) applications_.close(number);
    }
    tidy_at_ = 2 * applications_.size() + kKeptIdle;
  }

  struct Release {
    TimePoint at;
    ApplicationId application = 0;
    auto operator<=>(const Release&) const = default;
  };
  static constexpr std::size_t kKeptIdle = 4096;

  Shares shares_;
  Duration burst_;
  double now_virtual_ = 0;
  std::size_t tidy_at_ = kKeptIdle;  // applications known before idle ones are forgotten
  TimePoint last_{};
  Pool<ApplicationId, Application> applications_;
  IndexedHeap<std::uint64_t> ready_;  // applications with requests that may go
  IndexedHeap<Release> throttled_;    // those whose limit says not yet
};

// Splits "a=x, b=y" and gives each pair to `use`; an application is a number or *, for all others.
Result<void> for_each_pair(std::string_view option, std::string_view text,
                           const std::function<bool(std::optional<ApplicationId>, std::string_view)>& use) {
  const auto wrong = [&](std::string_view part) {
    return fail(ErrorCode::kInvalid,
                fmt::format("policy 'fair': option '{}': '{}' is wrong; write e.g. {}", option, part,
                            option == "weights" ? "'17=4, 18=2, *=1'" : "'17=100MB/s, 18=500/s, *=1GB/s+2000/s'"));
  };
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) return wrong(part);
    const std::string_view name = part.substr(0, equals);
    std::optional<ApplicationId> id;
    if (name != "*") {
      ApplicationId value = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
      if (error != std::errc{} || end != name.data() + name.size()) return wrong(part);
      id = value;
    }
    if (!use(id, part.substr(equals + 1))) return wrong(part);
  }
  return {};
}

bool parse_weight(std::string_view text, double& weight) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  return error == std::errc{} && end == text.data() + text.size() && weight >= 1e-6 && weight <= 1e6;
}

// "100MB/s", "500/s" or both with a plus between them.
bool parse_limit(std::string_view text, Limit& limit) {
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find('+'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (!part.ends_with("/s")) return false;
    part.remove_suffix(2);
    const bool plain = std::all_of(part.begin(), part.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    const auto amount = parse_bytes(part);
    if (!amount || amount->count() == 0) return false;
    (plain ? limit.requests_per_second : limit.bytes_per_second) = static_cast<double>(amount->count());
  }
  return limit.any();
}

Result<std::unique_ptr<Policy>> make_fair(const OptionValues& options) {
  Shares shares;
  auto weights = for_each_pair("weights", options.text("weights"), [&](auto id, std::string_view text) {
    double weight = 0;
    if (!parse_weight(text, weight)) return false;
    (id ? shares.weights[*id] : shares.default_weight) = weight;
    return true;
  });
  if (!weights) return Failure(weights.error());
  auto limits = for_each_pair("limits", options.text("limits"), [&](auto id, std::string_view text) {
    Limit limit;
    if (!parse_limit(text, limit)) return false;
    (id ? shares.limits[*id] : shares.default_limit) = limit;
    return true;
  });
  if (!limits) return Failure(limits.error());
  return std::make_unique<Fair>(std::move(shares), options.duration("burst"));
}

}  // namespace

PolicyInfo fair_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "fair",
          .summary = "weighted shares per application, with optional limits in bytes/s and requests/s",
          .paper = "",
          .options = {{.name = "weights",
                       .kind = Kind::kText,
                       .fallback = "",
                       .help = "shares by application id, e.g. '17=4, 18=2, *=1'; 1 for those not named"},
                      {.name = "limits",
                       .kind = Kind::kText,
                       .fallback = "",
                       .help = "caps by application id, e.g. '17=100MB/s, *=1GB/s+2000/s'; none for those not named"},
                      {.name = "burst",
                       .kind = Kind::kDuration,
                       .fallback = "100ms",
                       .help = "how much of a limit may be used at once after a pause"}},
          .bound = {OvertakingBound::Scope::kApplication, ""},
          .make = make_fair};
}

}  // namespace tutti

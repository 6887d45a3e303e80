// SPDX-License-Identifier: Apache-2.0
// fair: weighted sharing per application, with optional limits.
//
// Start-time fair queueing: each application has a virtual clock that advances by length/weight with every request
// served; the application whose clock is furthest behind is served next. After an idle period it starts at the current
// virtual time, so idle time gives neither credit nor debt. Limits are leaky buckets (GCRA): one time per limit, at
// which the bucket will be empty; an application may be served if that time is at most `burst` away. On a server of a
// cluster, the cluster grants what may be served (sched/cluster_limits.h).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "base/units.h"
#include "sched/cluster_limits.h"
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

// A job: the number that its client states, of a user that the server has authenticated.
struct JobKey {
  ApplicationId application = 0;
  UserId user = 0;
  auto operator<=>(const JobKey&) const = default;
  friend std::size_t hash_value(const JobKey& key) { return mix(std::uint64_t{key.user} << 32 | key.application); }
};

// Values of one option: of a job of one user, of jobs with this number, and of all others.
template <typename Value>
struct Settings {
  boost::unordered_flat_map<JobKey, Value, boost::hash<JobKey>> jobs;
  boost::unordered_flat_map<ApplicationId, Value> applications;
  Value others;

  const Value& of(const JobKey& key) const {
    if (const auto found = jobs.find(key); found != jobs.end()) return found->second;
    const auto found = applications.find(key.application);
    return found == applications.end() ? others : found->second;
  }
};

// Limits of all jobs of a user together, and of all jobs with one name together.
struct GroupLimits {
  boost::unordered_flat_map<UserId, RateLimit> users;
  RateLimit other_users;
  boost::unordered_flat_map<std::string, RateLimit> names;

  RateLimit of_user(UserId user) const {
    const auto found = users.find(user);
    return found == users.end() ? other_users : found->second;
  }
  RateLimit of_name(const std::string& name) const {
    const auto found = names.find(name);
    return found == names.end() ? RateLimit{} : found->second;
  }
};

struct WeightsAndLimits {
  Settings<double> weights{.jobs = {}, .applications = {}, .others = 1};
  Settings<RateLimit> limits;
  GroupLimits groups;
  bool limited = false;
};

// A limit in use: its buckets, or, in a cluster, this server's allowance.
struct Meter {
  RateLimit limit;
  TimePoint bytes_empty{}, requests_empty{};    // when the buckets will be empty
  ClusterLimits::AllowancePointer allowance{};  // nullptr: there is no cluster
};

struct ApplicationQueue {
  JobKey key;
  float weight = 0;  // 0: not yet looked up
  SlotQueue queue;
  double finish = 0;                           // virtual time at which what it was served so far is paid for
  std::vector<std::shared_ptr<Meter>> meters;  // of all limits that apply to it
  std::vector<ClusterLimits::AllowancePointer> allowances;  // of the meters
  void reset() { *this = {}; }
};

// Virtual times as integers in the same order, which a heap compares without branches.
std::uint64_t order_of(double virtual_time) {
  return std::bit_cast<std::uint64_t>(virtual_time);  // never negative
}

class Fair final : public QueuedPolicy {
 public:
  Fair(WeightsAndLimits configured, Duration burst) : configured_(std::move(configured)), burst_(burst) {}
  ~Fair() override {
    if (cluster_) cluster_->detach(this);
  }
  Fair(const Fair&) = delete;
  Fair& operator=(const Fair&) = delete;

  void use(std::shared_ptr<ClusterLimits> limits) override {
    if (!configured_.limited || !limits) return;
    cluster_ = std::move(limits);
    cluster_->attach(this, burst_);
  }

 private:
  void enqueue(Slot slot) override {
    const Stamp& stamp = store_.request(slot).stamp;
    const JobKey id{stamp.application, stamp.user};
    if (applications_.size() >= tidy_at_) forget_idle();
    const std::uint32_t number = applications_.open(id);
    ApplicationQueue& application = applications_[number];
    if (application.weight == 0) introduce(application);
    if (application.queue.empty()) ready_.set(number, order_of(std::max(now_virtual_, application.finish)));
    application.queue.push(store_, slot);
    store_.place(slot) = number;
    for (const auto& allowance : application.allowances) cluster_->arrived(*allowance, store_.request(slot).length);
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    ApplicationQueue& application = applications_[number];
    for (const auto& allowance : application.allowances) cluster_->left(*allowance, store_.request(slot).length);
    application.queue.lose_one(store_);
    if (!application.queue.empty()) return;
    if (ready_.contains(number)) ready_.erase(number);
    if (throttled_.contains(number)) throttled_.erase(number);
  }

  Decision choose(TimePoint now) override {
    release_throttled(now);
    while (!ready_.empty()) {
      const std::uint32_t number = ready_.top();
      const TimePoint allowed = take_allowance(applications_[number], now);
      if (allowed <= now) {
        serve(number);
        return dispatch();
      }
      ready_.erase(number);
      throttled_.set(number, {allowed, applications_[number].key});
    }
    return WaitUntil{throttled_.top_key().at};
  }

  void serve(std::uint32_t number) {
    ApplicationQueue& application = applications_[number];
    const Slot slot = application.queue.pop(store_);
    const auto bytes = static_cast<double>(store_.request(slot).length.count());
    now_virtual_ = std::bit_cast<double>(ready_.top_key());
    application.finish = now_virtual_ + bytes / application.weight;
    if (application.queue.empty())
      ready_.erase(number);
    else
      ready_.set(number, order_of(application.finish));
    if (!ready_.empty()) applications_[ready_.top()].queue.expect_front(store_);
    take(slot);
  }

  // Charges the application's first request to its limits if all of them allow it. Returns when they do; a moment not
  // after `now`: it was charged.
  TimePoint take_allowance(ApplicationQueue& application, TimePoint now) {
    if (application.meters.empty()) return now;
    const Bytes length = store_.request(application.queue.front(store_)).length;
    if (cluster_ && cluster_->by_grants())
      return cluster_->take(application.allowances, length) ? now : now + kAskAgain;
    TimePoint allowed = TimePoint::min();
    for (const auto& meter : application.meters)
      allowed = std::max(allowed, std::max(meter->bytes_empty, meter->requests_empty) - burst_);
    if (allowed > now) return allowed;
    for (const auto& meter : application.meters) charge(*meter, static_cast<double>(length.count()), now);
    for (const auto& allowance : application.allowances) cluster_->left(*allowance, length);
    return now;
  }

  static void charge(Meter& meter, double bytes, TimePoint now) {
    const auto pour = [&](TimePoint& empty, std::uint64_t rate, double amount) {
      if (rate > 0) empty = std::max(empty, now) + time_of(amount, static_cast<double>(rate));
    };
    pour(meter.bytes_empty, meter.limit.bytes, bytes);
    pour(meter.requests_empty, meter.limit.requests, 1);
  }

  static Duration time_of(double amount, double rate) {
    return Duration(std::llround(std::min(amount / rate * 1e9, 3.6e15)));
  }

  void release_throttled(TimePoint now) {
    if (now < last_) shift_buckets(now - last_);
    last_ = now;
    if (cluster_ && std::exchange(version_, cluster_->version()) != version_)
      while (!throttled_.empty()) release();
    while (!throttled_.empty() && throttled_.top_key().at <= now) release();
  }

  void release() {
    const std::uint32_t number = throttled_.top();
    throttled_.pop();
    const ApplicationQueue& application = applications_[number];
    ready_.set(number, order_of(std::max(now_virtual_, application.finish)));
  }

  // The clock jumped back: what the buckets hold stays the same, so their times go along.
  void shift_buckets(Duration by) {
    for (const auto& [key, meter] : meters_) {
      meter->bytes_empty += by;
      meter->requests_empty += by;
    }
    while (!throttled_.empty()) release();
  }

  void introduce(ApplicationQueue& application) {
    const JobKey& job = application.key;
    application.weight = static_cast<float>(configured_.weights.of(job));
    application.finish = now_virtual_;
    if (!configured_.limited) return;
    limit(application, LimitKey::job(job.application, job.user), configured_.limits.of(job));
    limit(application, LimitKey::user(job.user), configured_.groups.of_user(job.user));
    if (configured_.groups.names.empty() || !cluster_) return;
    const std::string name = cluster_->name_of(job.application, job.user);
    limit(application, LimitKey::name(name), configured_.groups.of_name(name));
  }

  void limit(ApplicationQueue& application, const LimitKey& key, const RateLimit& limit) {
    if (!limit.any()) return;
    std::shared_ptr<Meter>& meter = meters_[key];
    if (!meter) meter = std::make_shared<Meter>(Meter{.limit = limit});
    if (cluster_ && !meter->allowance) meter->allowance = cluster_->open(key, limit);
    application.meters.push_back(meter);
    if (meter->allowance) application.allowances.push_back(meter->allowance);
  }

  // An idle application whose virtual clock is past is as good as a new one, and so is a limit whose buckets are empty.
  void forget_idle() {
    for (const std::uint32_t number : applications_.numbers()) {
      const ApplicationQueue& application = applications_[number];
      if (application.queue.empty() && application.finish <= now_virtual_) applications_.close(number);
    }
    std::erase_if(meters_, [&](const auto& entry) {
      const Meter& meter = *entry.second;
      return entry.second.use_count() == 1 && std::max(meter.bytes_empty, meter.requests_empty) <= last_;
    });
    tidy_at_ = 2 * std::max(applications_.size(), meters_.size()) + kKeptIdle;
  }

  struct Release {
    TimePoint at;
    JobKey application;
    auto operator<=>(const Release&) const = default;
  };
  static constexpr std::size_t kKeptIdle = 4096;
  // In a cluster, a decision follows each grant; this is only for safety.
  static constexpr Duration kAskAgain = std::chrono::seconds(1);

  WeightsAndLimits configured_;
  Duration burst_;
  double now_virtual_ = 0;
  std::size_t tidy_at_ = kKeptIdle;  // applications known before idle ones are forgotten
  TimePoint last_{};
  Pool<JobKey, ApplicationQueue> applications_;
  std::map<LimitKey, std::shared_ptr<Meter>> meters_;
  IndexedHeap<std::uint64_t> ready_;  // applications whose requests may be served
  IndexedHeap<Release> throttled_;    // applications that have reached a limit
  std::shared_ptr<ClusterLimits> cluster_;
  std::uint64_t version_ = 0;  // of cluster_, when throttled applications were last released
};

template <typename Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// "user:1000", "user:*" or "name:ior". Nothing: another kind of name. False: it is wrong.
std::optional<bool> read_group(std::string_view name, const RateLimit& limit, GroupLimits& groups) {
  constexpr std::string_view kUser = "user:", kName = "name:";
  UserId user = 0;
  if (name.starts_with(kName)) {
    groups.names[std::string(name.substr(kName.size()))] = limit;
    return name.size() > kName.size();
  }
  if (!name.starts_with(kUser)) return std::nullopt;
  if (name.substr(kUser.size()) == "*")
    groups.other_users = limit;
  else if (parse_number(name.substr(kUser.size()), user))
    groups.users[user] = limit;
  else
    return false;
  return true;
}
std::optional<bool> read_group(std::string_view, double, GroupLimits&) {
  return std::nullopt;
}

// Splits "17=x, 17@1000=y, *=z" and stores the values, which `parse` reads: of application 17, of application 17 of
// user 1000, and of all others. Limits may also be of users and names.
template <typename Value>
Result<void> read_settings(std::string_view option, std::string_view text, Settings<Value>& settings,
                           GroupLimits& groups, bool (*parse)(std::string_view, Value&)) {
  const auto wrong = [&](std::string_view part) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("policy 'fair': option '{}': '{}' is wrong; write e.g. {}", option, part,
                    option == "weights" ? "'17=4, 18@1000=2, *=1'" : "'17=100MB/s, 18=500/s, user:1000=1GB/s+2000/s'"));
  };
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    Value value{};
    if (equals == std::string_view::npos || !parse(part.substr(equals + 1), value)) return wrong(part);
    const std::string_view name = part.substr(0, equals);
    const auto at = name.find('@');
    JobKey key;
    if (const auto group = read_group(name, value, groups)) {
      if (!*group) return wrong(part);
      continue;
    }
    if (name == "*")
      settings.others = value;
    else if (!parse_number(name.substr(0, at), key.application))
      return wrong(part);
    else if (at == std::string_view::npos)
      settings.applications[key.application] = value;
    else if (!parse_number(name.substr(at + 1), key.user))
      return wrong(part);
    else
      settings.jobs[key] = value;
  }
  return {};
}

bool parse_weight(std::string_view text, double& weight) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  return error == std::errc{} && end == text.data() + text.size() && weight >= 1e-6 && weight <= 1e6;
}

// "100MB/s", "500/s" or both with a plus between them.
bool parse_limit(std::string_view text, RateLimit& limit) {
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find('+'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (!part.ends_with("/s")) return false;
    part.remove_suffix(2);
    const bool plain = std::all_of(part.begin(), part.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    const auto amount = parse_bytes(part);
    if (!amount || amount->count() == 0) return false;
    (plain ? limit.requests : limit.bytes) = amount->count();
  }
  return limit.any();
}

Result<std::unique_ptr<Policy>> make_fair(const OptionValues& options) {
  WeightsAndLimits configured;
  auto weights = read_settings("weights", options.text("weights"), configured.weights, configured.groups, parse_weight);
  if (!weights) return Failure(weights.error());
  auto limits = read_settings("limits", options.text("limits"), configured.limits, configured.groups, parse_limit);
  if (!limits) return Failure(limits.error());
  configured.limited = !options.text("limits").empty();
  return std::make_unique<Fair>(std::move(configured), options.duration("burst"));
}

}  // namespace

PolicyInfo fair_policy() {
  using Kind = OptionInfo::Kind;
  return {
      .name = "fair",
      .summary = "weighted shares per application, with optional limits in bytes/s and requests/s",
      .paper = "",
      .options =
          {{.name = "weights",
            .kind = Kind::kText,
            .fallback = "",
            .help = "Weights by application id, e.g. '17=4, 18@1000=2, *=1' (18@1000: only that of user 1000); "
                    "applications "
                    "not listed have weight 1"},
           {.name = "limits",
            .kind = Kind::kText,
            .fallback = "",
            .help = "Limits by application id, e.g. '17=100MB/s, 18@1000=500/s, *=1GB/s+2000/s'; of all jobs of a user "
                    "together, 'user:1000=1GB/s' ('user:*': of each other user); of all jobs with one name together, "
                    "'name:ior=1GB/s'. What is not listed has none. On the nodes of a cluster, limits hold for the "
                    "cluster"},
           {.name = "burst",
            .kind = Kind::kDuration,
            .fallback = "50ms",
            .help = "After an idle period an application may use at once what its limit allows in this time"}},
      .bound = {OvertakingBound::Scope::kApplication, ""},
      .make = make_fair};
}

}  // namespace tutti

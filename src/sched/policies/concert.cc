// SPDX-License-Identifier: Apache-2.0
// concert: smallest remaining phase first, in the same order on every server, without messages between servers.
//
// Minimising the mean completion over several servers is the concurrent open shop problem: serve whole phases, in one
// common order, the phase first whose busiest target has least left (Varys, Sincronia). This needs correct sizes. So
// phases of known size are ordered by remaining bytes, and requests of unknown phases by issue time, as under fifo:
//
// - Each request has a turn, in order of issue. Phases of known size share their turns: when a turn of any of them
//   comes up, the smallest phase is served. Phases of unknown size keep their own turns; in a backlog they share them,
//   and the phase that has attained least is served (sched/unknown_phases.h).
// - A known phase may also overtake an unknown one that has already issued more than the known one has left, but known
//   phases together are never ahead of their turns by more than `ahead` bytes.
// - Of the bytes of known phases, one part in `stretch` is served from the known phase that began first. Of the bytes
//   of unknown phases in a backlog, one part in `stretch` is served in order of issue. While phases of both kinds wait,
//   one part in 2 * `stretch` of all bytes is served in order of arrival.
//
// docs/design/concert.md has the bounds that follow, their proofs, and figures.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <tuple>

#include "base/prefetch.h"
#include "sched/announcements.h"
#include "sched/heaps.h"
#include "sched/phase_queue.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/prediction/phase_sizes.h"
#include "sched/queued_policy.h"
#include "sched/service_accounts.h"
#include "sched/unknown_phases.h"

namespace tutti {
namespace {

// The order of phases of known size, smallest first. A function of stamps alone.
struct PhaseOrder {
  std::uint64_t left = 0;  // bytes on the busiest target
  TimePoint since;         // the start of the phase
  OrderId order = 0;
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  UserId user = 0;
  bool operator<(const PhaseOrder& other) const {
    if (left != other.left) return left < other.left;
    if (since != other.since) return since < other.since;
    if (order != other.order) return order < other.order;
    if (application != other.application) return application < other.application;
    if (phase != other.phase) return phase < other.phase;
    return user < other.user;
  }
};

struct PhaseQueue {
  PhaseKey key;
  SlotHeap<SweepPosition> requests;  // by issue time, so that its ranks end together, or in elevator order
  Sweep sweep;
  std::size_t count = 0;
  std::tuple<Bytes, Bytes, Bytes> progress;  // attained, bottleneck and total of the furthest stamp seen
  std::uint64_t left = 0;                    // as in its PhaseOrder
  TimePoint since;
  void reset() {
    requests.clear();
    sweep = {};
    count = 0;
    progress = {};
  }
};

// The operation being served or, if seeks cost something, its phase. It continues for up to `run` bytes although a
// smaller phase may have arrived.
struct ContinuedService {
  std::uint32_t phase = 0;
  PhaseKey key;
  OperationId operation = 0;
  std::uint64_t left = 0;  // bytes it may still be served; 0: none
};

class Concert final : public QueuedPolicy {
 public:
  explicit Concert(const OptionValues& options)
      : QueuedPolicy(Duration::zero(), options.duration("gather")),
        longest_run_(options.bytes("run").count()),
        ahead_(static_cast<std::int64_t>(options.bytes("ahead").count())),
        sweeps_(options.text("order") == "offset"),
        slack_(options.duration("slack")),
        phases_continue_(options.bytes("seek") > Bytes{}),
        share_(share_of(options)),
        first_share_({.stretch = 2 * options.integer("stretch"), .run = options.bytes("run")}),
        unknown_(store_, accounts_,
                 {.wait = options.duration("wait"),
                  .gain = 1 + static_cast<double>(options.integer("gain")) / 100,
                  .slack = slack_,
                  .share = share_of(options)}),
        accounts_(accounts_of(options.text("account"))),
        prediction_(options.text("prediction")) {}

  bool use_predictions(const std::shared_ptr<const PredictedQueues>& predictions) override {
    const bool learn = prediction_ == "learn";
    if (learn || (prediction_ == "traces" && predictions))
      expected_ = std::make_unique<ExpectedPhaseSizes>(ExpectedPhaseSizes::Options{predictions, learn});
    return true;
  }
  bool name_file(FileId file, std::string_view pattern) override {
    if (expected_) expected_->name_file(file, pattern);
    return expected_ != nullptr;
  }

 private:
  static OldestShare::Options share_of(const OptionValues& options) {
    return {.stretch = options.integer("stretch"), .run = options.bytes("run"), .seek = options.bytes("seek")};
  }

  static ServiceAccounts::Of accounts_of(const std::string& name) {
    if (name == "job") return ServiceAccounts::Of::kJob;
    return name == "user" ? ServiceAccounts::Of::kUser : ServiceAccounts::Of::kAuto;
  }

  void prefetch(const Request* arriving, unsigned step) override {
    if (step == 0) {
      const auto* begin = reinterpret_cast<const char*>(this);
      prefetch_bytes(begin, static_cast<std::size_t>(reinterpret_cast<const char*>(&unknown_) - begin));
      unknown_.expect_object();
      accounts_.expect();
      if (!arriving) return;
      accounts_.expect_hint(*arriving);
      accuracy_.expect(arriving->stamp);
    } else if (step == 1) {
      store_.caller_prefetches();
      store_.expect_tables(arriving);
      if (arriving) accounts_.expect_account(*arriving);
      unknown_.expect();
      known_.expect();
      oldest_.expect();
      turns_.expect();
    } else if (!arriving) {
      expect_next(step);
    } else if (step == 2) {
      store_.expect(store_.free_slot());
    }
  }
  void expect_next(unsigned step) const {
    unknown_.expect_level(step);
    const Slot next = unknown_.likely_next();
    if (next == kNoSlot) return;
    if (step == 2) store_.expect(next), expect_take();
    if (step == 3) store_.expect_removal(next), accounts_.expect_account(store_.account(next));
  }
  const Request* likely_next() const override {
    const Slot next = unknown_.likely_next();
    return next == kNoSlot ? nullptr : &store_.request(next);
  }

  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const Stamp& stamp = request.stamp;
    accuracy_.observe(stamp);
    const auto account = accounts_.arrived(request, store_.arrived(slot), store_.size() == 1);
    store_.account(slot) = account;
    const ServiceAccounts::History history = accounts_.of(account);
    const TimePoint issue_time = issue_of(slot, slack_);
    const Bytes total = size_of(request, store_.arrived(slot));
    if (!history.reliable || total <= stamp.attained) return unknown_.push(slot, issue_time);
    const std::int64_t issued = issue_time.time_since_epoch().count();
    const PhaseKey key = phase_of(stamp);
    const std::uint32_t number = phases_.open(key);
    store_.place(slot) = number;
    PhaseQueue& phase = phases_[number];
    phase.requests.push(sweeps_ ? phase.sweep.of(request) : SweepPosition{issued, where(request)},
                        store_.version(slot));
    turns_.push(issued, cost(request));
    const std::tuple progress{stamp.attained, stamp.bottleneck, total};
    if (phase.count++ == 0)
      oldest_.set(number, {0, start_of(slot, history.began), stamp.order, key.application, key.phase, key.user});
    if (phase.count > 1 && progress <= phase.progress) return;
    phase.progress = progress;
    const std::uint64_t left = left_of(stamp, total, history.before);
    const TimePoint since = start_of(slot, history.began);
    if (phase.count > 1 && left == phase.left && since == phase.since) return;  // sizes are rounded: often
    phase.left = left;
    phase.since = since;
    known_.set(number, {left, since, stamp.order, key.application, key.phase, key.user});
  }

  // The size of the phase; 0: unknown. The stamp's size is reliable if all of it has been issued, or the application's
  // previous announcement was right (else it would not announce, src/job/stamper.h), or first-phase announcements have
  // recently been accurate. If the stamp has none, the size that is expected here.
  Bytes size_of(const Request& request, TimePoint now) {
    const Stamp& stamp = request.stamp;
    const Bytes expected = expected_ ? expected_->arrived(request, now) : Bytes{};
    if (stamp.phase_total == Bytes{}) return expected;
    const bool reliable = shown(stamp) >= stamp.phase_total || stamp.phase > 1 || accuracy_.trusted();
    return reliable ? stamp.phase_total : Bytes{};
  }

  // The start of the phase by the client's clock, limited to the last `slack` before the phase's first request arrived
  // here: neither a clock that is behind nor one that is ahead may decide who is the oldest.
  TimePoint start_of(Slot slot, TimePoint began) const {
    return std::clamp(store_.request(slot).stamp.phase_start, began - slack_, began);
  }

  // Rounded to two binary digits, so that among similar phases the one that began first continues. With exact values,
  // similar phases would alternate, end together, compute together and leave servers idle.
  static std::uint64_t left_of(const Stamp& stamp, Bytes total, std::uint64_t before) {
    const std::uint64_t left = std::max(total - stamp.attained, stamp.bottleneck).count() + before;
    return left & ~(std::bit_floor(left) / 2 - 1);
  }

  void dequeue(Slot slot) override {
    accounts_.cancelled(store_.account(slot));
    if (expected_) expected_->left(store_.request(slot).stamp);
    if (slot == first_) first_ = kNoSlot;
    const std::uint32_t number = store_.place(slot);
    if (number >= UnknownPhases::kPlace) {
      unknown_.remove(slot);
    } else {
      PhaseQueue& phase = phases_[number];
      phase.requests.prune(store_, --phase.count);
      settle(number, store_.request(slot));
    }
    reset_if_empty();
  }

  Decision choose(TimePoint now) override {
    const bool mixed = !known_.empty() && !unknown_.empty();
    const Slot slot = mixed ? pop_of_mix(now) : pop_next(now);
    if (slot == first_) first_ = kNoSlot;
    reset_if_empty();
    accounts_.served(store_.account(slot), store_.request(slot), now);
    if (expected_) expected_->left(store_.request(slot).stamp);
    take(slot);
    return dispatch();
  }

  Slot pop_next(TimePoint now) {
    const Slot unknown = unknown_.next(now);
    if (!known_goes_first(unknown)) {
      unknown_.pop(unknown);
      return unknown;
    }
    const std::uint32_t number = next_known();
    PhaseQueue& phase = phases_[number];
    const Slot slot = phase.requests.top(store_);
    phase.sweep.reached(phase.requests.top_key());
    phase.requests.pop(store_);
    known_served(number, slot);
    return slot;
  }

  // While known and unknown phases wait, neither bound of the two kinds limits the bytes of both: the request that
  // arrived first has a share.
  Slot pop_of_mix(TimePoint now) {
    if (first_ == kNoSlot) {
      first_ = store_.oldest();
      first_cost_ = cost(store_.request(first_));
    }
    const Slot slot = first_share_.due(first_cost_) ? pop_first() : pop_next(now);
    first_share_.served(cost(store_.request(slot)), {.of_oldest = slot == first_});
    return slot;
  }

  Slot pop_first() {
    const std::uint32_t number = store_.place(first_);
    if (number >= UnknownPhases::kPlace) {
      unknown_.pop_early(first_);
    } else {
      phases_[number].requests.prune(store_, phases_[number].count - 1);
      known_served(number, first_);
    }
    return first_;
  }

  // The request has left the queue of its phase.
  void known_served(std::uint32_t number, Slot slot) {
    const Request& request = store_.request(slot);
    const bool changed = note_continued(number, request);
    --phases_[number].count;
    share_.served(cost(request), {.of_oldest = number == oldest_.top(), .changed = changed});
    settle(number, request);
  }

  // After a request has left its phase.
  void settle(std::uint32_t number, const Request& request) {
    owed_ -= cost(request);
    if (phases_[number].count > 0) return;
    oldest_.erase(number);
    known_.erase(number);
    phases_.close(number);
  }

  void reset_if_empty() {
    if (!known_.empty() || !unknown_.empty()) return;
    turns_.clear();
    owed_ = 0;
    first_share_.clear();
  }

  // Takes the due turns of known phases; any known phase may use the bytes they bring.
  bool known_goes_first(Slot unknown) {
    if (known_.empty()) return false;
    const auto any = [](std::int64_t) { return true; };
    while (owed_ <= 0) {
      const std::int64_t* turn = turns_.top(any);
      if (!turn || (unknown != kNoSlot && unknown_.position() < turns_.top_key())) break;
      owed_ += *turn;
      turns_.pop();
    }
    assert(owed_ > 0 || unknown != kNoSlot);
    return owed_ > 0 || may_pass(store_.request(unknown));
  }

  // Whether the smallest known phase is smaller than the unknown phase whose turn it is, also with the rounding of
  // left_of(), which is less than a half.
  bool may_pass(const Request& unknown) const {
    if (-owed_ >= ahead_) return false;
    const std::uint64_t left = known_.top_key().left;
    return left + left / 2 <= shown(unknown.stamp).count();
  }

  // The smallest phase or, if its share is due, the oldest one; unless the operation being served may continue.
  std::uint32_t next_known() {
    const std::uint32_t first = oldest_is_due() ? oldest_.top() : known_.top();
    if (continued_.left == 0 || continued_.phase == first || !known_.contains(continued_.phase)) return first;
    PhaseQueue& running = phases_[continued_.phase];
    if (running.key != continued_.key) return first;  // another phase has this number now
    return continues(store_.request(running.requests.top(store_)).stamp) ? continued_.phase : first;
  }

  // Whether a request of the same phase continues what is being served.
  bool continues(const Stamp& stamp) const { return phases_continue_ || stamp.operation == continued_.operation; }

  bool oldest_is_due() { return share_.due(cost(store_.request(phases_[oldest_.top()].requests.top(store_)))); }

  // True: the device changes to another phase.
  bool note_continued(std::uint32_t number, const Request& request) {
    const PhaseKey& key = phases_[number].key;
    const bool changes = continued_.key != key;
    if (continued_.left == 0 || changes || !continues(request.stamp))
      continued_ = {number, key, request.stamp.operation, longest_run_};
    continued_.left -= std::min(continued_.left, static_cast<std::uint64_t>(cost(request)));
    return changes;
  }

  const std::uint64_t longest_run_;
  const std::int64_t ahead_;
  const bool sweeps_;
  const Duration slack_;
  const bool phases_continue_;
  ContinuedService continued_;
  Pool<PhaseKey, PhaseQueue> phases_;
  IndexedHeap<PhaseOrder> known_;               // phases that have requests
  LazyHeap<std::int64_t, std::int64_t> turns_;  // of known phases, not taken yet: issue time and cost
  // Bytes that turns have brought and known phases have not used; below zero: how far known phases are ahead.
  // Invariant: plus the cost of the turns not taken yet, it is the cost of all waiting requests of known phases.
  std::int64_t owed_ = 0;
  IndexedHeap<PhaseOrder> oldest_;  // the same phases as in known_, with `left` 0: by their start
  OldestShare share_;               // of the known phases
  OldestShare first_share_;         // of the request that arrived first, while both kinds wait
  Slot first_ = kNoSlot;            // that request; kNoSlot: not looked for
  std::int64_t first_cost_ = 0;
  std::unique_ptr<ExpectedPhaseSizes> expected_;  // nullptr: no sizes are expected
  UnknownPhases unknown_;
  // Large, and therefore last: what most calls need is close together.
  ServiceAccounts accounts_;
  AnnouncementAccuracy accuracy_;
  const std::string prediction_;
};

// Of phases of unknown size, and of what applications had.
std::vector<OptionInfo> unknown_options() {
  using Kind = OptionInfo::Kind;
  return {
      {.name = "account",
       .kind = Kind::kChoice,
       .fallback = "auto",
       .help = "Whose recent service counts when a phase begins: the job's, or that of all jobs of its user. auto: the "
               "job's if the node knows that it is a job of the user, else the user's (docs/operations.md)",
       .choices = {"auto", "job", "user"}},
      {.name = "wait",
       .kind = Kind::kDuration,
       .fallback = "300ms",
       .help = "A backlog of phases of unknown size begins after the oldest request has waited this long, if "
               "`gain` is reached. In a backlog, phases that have attained less are served first"},
      {.name = "gain",
       .kind = Kind::kInteger,
       .fallback = "50",
       .help = "A backlog begins only if the waiting phases would end on average at least this many percent later in "
               "order of issue than with equal shares",
       .low = 0,
       .high = 1000},
      {.name = "prediction",
       .kind = Kind::kChoice,
       .fallback = "traces",
       .help = "Sizes of phases that the client does not state: unknown (off), as in traces of earlier runs (traces), "
               "or also as in earlier phases with the same file names (learn)",
       .choices = {"off", "traces", "learn"}}};
}

std::vector<OptionInfo> concert_options() {
  using Kind = OptionInfo::Kind;
  std::vector<OptionInfo> options = {
      {.name = "ahead",
       .kind = Kind::kBytes,
       .fallback = "64MiB",
       .help = "Maximum number of bytes by which phases of known size may overtake phases of unknown size"},
      {.name = "run",
       .kind = Kind::kBytes,
       .fallback = "512KiB",
       .disk_fallback = "4MiB",
       .help = "Bytes of an operation (of a phase, if `seek` is set) that are served together before a smaller "
               "phase may interrupt it. Default: 4MiB on rotating disks, else 512KiB"},
      {.name = "seek",
       .kind = Kind::kBytes,
       .fallback = "0B",
       .disk_fallback = "1MiB",
       .help = "What a change to another phase costs the device, as bytes that it could transfer in that time. "
               "Default: 1MiB on rotating disks, else 0"},
      {.name = "order",
       .kind = Kind::kChoice,
       .fallback = "issue",
       .disk_fallback = "offset",
       .help = "Order of requests inside a phase of known size: issue (its ranks end together) or offset. Default: "
               "offset on rotating disks, else issue",
       .choices = {"issue", "offset"}},
      slack_option(),
      {.name = "stretch",
       .kind = Kind::kInteger,
       .fallback = "5",
       .disk_fallback = "7",
       .help = "One byte in this many is served from the oldest phase. Larger: small phases gain more, large ones may "
               "end later. Default: 7 on rotating disks, else 5",
       .low = 2,
       .high = 1000},
      gather_option()};
  for (OptionInfo& option : unknown_options()) options.push_back(std::move(option));
  return options;
}

}  // namespace

PolicyInfo concert_policy() {
  return {.name = "concert",
          .summary = "smallest remaining phase first, in the same order on every server (the default)",
          .paper = "",
          .options = concert_options(),
          .bound = {OvertakingBound::Scope::kPhase, "stretch"},
          .make = [](const OptionValues& options) { return std::make_unique<Concert>(options); }};
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "gate/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace tutti::gate {
namespace {

using namespace std::chrono_literals;
using Claim = wire::GateAskRequest::Claim;

constexpr Duration kConnectAgain = 20ms;  // minimum time between two attempts

// At most as many ranges as fit into a message: neighbours are merged; if there are still too many, all targets.
TargetList bounded(const TargetList& targets) {
  if (targets.ranges.size() <= wire::kMaxTargetRanges) return targets;
  const auto set = targets.resolve(kMaxTargets);
  if (!set) return TargetList::everything();
  auto merged = TargetList::parse(text(*set));
  return merged && merged->ranges.size() <= wire::kMaxTargetRanges ? *merged : TargetList::everything();
}

}  // namespace

const char* explain(GateOutcome outcome) {
  constexpr const char* kTexts[] = {"granted",
                                    "the gate cannot be reached",
                                    "the gate does not answer",
                                    "no turn within the maximum wait",
                                    "the gate refused the request",
                                    "the request was wrong"};
  return kTexts[static_cast<std::size_t>(outcome)];
}

GateClient::GateClient(World& world, std::unique_ptr<net::Transport> transport, Options options)
    : world_(world), options_(std::move(options)), session_(world.random()), transport_(std::move(transport)) {
  timer_ = world.make_timer([this] { tick(); });
}

GateClient::~GateClient() {
  {
    Lock lock(mutex_);
    if (phase_.depth > 0) send_release();
    stopping_ = true;
  }
  timer_.reset();
  transport_.reset();
}

void GateClient::DeferredCalls::run(GateClient& client) {
  for (const std::string& line : say) client.options_.say(line);
  for (const auto& connection : close) connection->close({ErrorCode::kStopped, "the client closed the connection"});
  if (connect) client.connect();
  for (auto& [done_of_one, outcome] : done) done_of_one(outcome);
}

// ---- phases ----

void GateClient::begin(const TargetList& targets, Bytes bytes, Done done) {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    pending_.push_back({bounded(targets), bytes, now() + options_.max_wait, std::move(done)});
    start_pending(deferred);
    set_timer();
  }
  deferred.run(*this);
}

void GateClient::end() {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    if (phase_.depth == 0 || --phase_.depth > 0) return;
    send_release();
    close_unresponsive(deferred);
    phase_ = {};
    start_pending(deferred);
    if (!pending_.empty() || phase_.depth > 0) set_timer();
  }
  deferred.run(*this);
}

// Starts the first pending begin() if no phase is open. Those that the open phase covers join it.
void GateClient::start_pending(DeferredCalls& deferred) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (phase_.depth > 0 && !covered(it->targets)) {
      ++it;
      continue;
    }
    PendingBegin begin = std::move(*it);
    it = pending_.erase(it);
    if (phase_.depth == 0) {
      start(std::move(begin), deferred);
    } else {
      ++phase_.depth;
      if (phase_.state == PhaseState::kAsking)
        phase_.waiting.push_back(std::move(begin.done));
      else
        deferred.done.emplace_back(std::move(begin.done), phase_.outcome);
    }
  }
}

bool GateClient::covered(const TargetList& targets) const {
  const TargetList& open = phase_.targets;
  if (open.all || open == targets) return true;
  if (targets.all) return false;
  const auto inner = targets.resolve(kMaxTargets), outer = open.resolve(kMaxTargets);
  return inner && outer && inner->within(*outer);
}

void GateClient::start(PendingBegin begin, DeferredCalls& deferred) {
  phase_.state = PhaseState::kAsking;
  phase_.depth = 1;
  phase_.ticket = ++last_ticket_;
  phase_.targets = std::move(begin.targets);
  phase_.bytes = begin.bytes;
  phase_.deadline = begin.deadline;
  phase_.waiting.push_back(std::move(begin.done));
  if (gate_unavailable_) return decide(PhaseState::kWithoutTurn, unavailable_outcome_, deferred);
  if (connection_ && open_.tag == 0) return send_ask();
  if (connection_) return;  // asks when the session is open
  phase_.connect_by = std::min(now() + options_.answer_bound, phase_.deadline);
  deferred.connect = !std::exchange(connecting_, true);
}

void GateClient::decide(PhaseState state, GateOutcome outcome, DeferredCalls& deferred) {
  phase_.state = state;
  phase_.outcome = outcome;
  if (outcome == GateOutcome::kGranted) said_lost_ = said_timed_out_ = said_refused_ = said_unavailable_ = false;
  for (Done& done : std::exchange(phase_.waiting, {})) deferred.done.emplace_back(std::move(done), outcome);
}

void GateClient::give_up(GateOutcome outcome, const std::string& why, DeferredCalls& deferred) {
  drop_connection(deferred);
  gate_unavailable_ = true;
  unavailable_outcome_ = outcome;
  next_connect_ = now() + retry_after();
  say_once(said_unavailable_,
           fmt::format("{} ({})", explain(outcome), why.empty() ? net::to_text(options_.endpoint) : why), deferred);
  if (phase_.state == PhaseState::kAsking) decide(PhaseState::kWithoutTurn, outcome, deferred);
}

void GateClient::lose(const std::string& why, DeferredCalls& deferred) {
  phase_.state = PhaseState::kWithoutTurn;
  close_unresponsive(deferred);
  if (options_.say && !std::exchange(said_lost_, true))
    deferred.say.push_back(fmt::format("lost the turn during a phase: {}; continuing without it", why));
}

void GateClient::say_once(bool& said, std::string line, DeferredCalls& deferred) {
  if (options_.say && !std::exchange(said, true)) deferred.say.push_back(line + "; proceeding without a turn");
}

Duration GateClient::provable_lease() const {
  return lease_ - lease_ / 1000;  // allowance for clocks of different speed
}

Duration GateClient::lease_left() const {
  Lock lock(mutex_);
  if (phase_.state != PhaseState::kHolding || !phase_.confirmed) return Duration::zero();
  return std::max(phase_.lease_until - now(), Duration::zero());
}

void GateClient::attend() {
  net::ConnectionPointer connection;
  std::uint64_t tag = 0;
  {
    Lock lock(mutex_);
    // A thread in await_reply() is woken only by an answer or by the end of the connection.
    if (phase_.state != PhaseState::kAsking || options_.max_wait < options_.answer_bound) return;
    if (!connection_ || ask_.tag == 0 || ask_answered_) return;
    connection = connection_;
    tag = ask_.tag;
  }
  connection->await_reply(tag, [this, tag] {
    Lock lock(mutex_);
    return ask_.tag == tag && !ask_answered_;
  });
}

void GateClient::abandon_after_fork() {
  if (connection_) connection_->abandon_after_fork();
}

// ---- messages to the gate ----

void GateClient::send_open() {
  open_ = {++last_tag_, now()};
  wire::GateOpenRequest request{.session = session_, .number = options_.number, .process = options_.process};
  if (phase_.state == PhaseState::kAsking || phase_.state == PhaseState::kHolding) request.ticket = phase_.ticket;
  connection_->send({.frame = wire::encode(request, {.tag = open_.tag})});
}

void GateClient::send_ask() {
  ask_ = {++last_tag_, now()};
  ask_answered_ = false;
  wire::GateAskRequest request{.ticket = phase_.ticket,
                               .bytes = phase_.bytes.count(),
                               .all = phase_.targets.all,
                               .targets = phase_.targets.ranges,
                               .arrived = phase_.arrived,
                               .group = phase_.group};
  if (phase_.state == PhaseState::kHolding)
    request.claim = Claim::kHeld;
  else if (std::exchange(phase_.asked, true))
    request.claim = Claim::kWaited;
  connection_->send({.frame = wire::encode(request, {.tag = ask_.tag})});
}

void GateClient::send_renew() {
  renew_ = {++last_tag_, now()};
  connection_->send({.frame = wire::encode(wire::GateRenewRequest{phase_.ticket}, {.tag = renew_.tag})});
}

// Releases or withdraws the request, if it was sent. Later answers to it are ignored.
void GateClient::send_release() {
  // An open without a reply told the gate to keep the request of the earlier connection.
  const bool known = connection_ && (ask_.tag != 0 || (open_.tag != 0 && phase_.asked));
  ask_ = renew_ = {};
  if (known) connection_->send({.frame = wire::encode(wire::GateRelease{phase_.ticket}, {.tag = ++last_tag_})});
}

void GateClient::ask_again() {
  send_release();
  phase_.ticket = ++last_ticket_;
  phase_.asked = false;
  phase_.arrived = {};
  send_ask();
}

// ---- messages from the gate ----

void GateClient::received(const net::ConnectionPointer& from, net::Incoming message) {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    const std::uint64_t tag = message.header.tag;
    if (from != connection_ || tag == 0 || stopping_) return;
    if (tag == open_.tag)
      handle_open_reply(message, deferred);
    else if (tag == ask_.tag)
      handle_answer<wire::GateAskRequest>(message, ask_, deferred);
    else if (tag == renew_.tag)
      handle_answer<wire::GateRenewRequest>(message, std::exchange(renew_, {}), deferred);
    else
      return;
    set_timer();
  }
  deferred.run(*this);
}

void GateClient::handle_open_reply(const net::Incoming& message, DeferredCalls& deferred) {
  open_ = {};
  const auto reply = wire::decode<wire::GateOpenReply>(message.header, message.body);
  if (!reply) return give_up(GateOutcome::kRefused, reply.error().message, deferred);
  if (reply->head.status != wire::kOk) return give_up(GateOutcome::kRefused, reply->head.message, deferred);
  close_unresponsive(deferred);  // this connection replaces it
  lease_ = reply->lease;
  gate_answered_ = true;
  gate_unavailable_ = false;
  phase_.connect_by = TimePoint::max();
  if (phase_.state == PhaseState::kHolding && now() >= phase_.lease_until)
    lose("the gate was unreachable for longer than the lease", deferred);
  if (phase_.state == PhaseState::kAsking || phase_.state == PhaseState::kHolding) send_ask();
}

// An answer to `sent`, an ask or a renewal. An ask has several answers.
template <typename Request>
void GateClient::handle_answer(const net::Incoming& message, const SentRequest& sent, DeferredCalls& deferred) {
  constexpr bool kAsk = std::is_same_v<Request, wire::GateAskRequest>;
  const auto reply = wire::decode<typename Request::Reply>(message.header, message.body);
  if (!reply) return give_up(GateOutcome::kRefused, reply.error().message, deferred);
  const bool asking = phase_.state == PhaseState::kAsking, holding = phase_.state == PhaseState::kHolding;
  const bool direct = !kAsk || !std::exchange(ask_answered_, true);
  if (direct) phase_.acknowledged = sent.at;
  if (reply->head.status != wire::kOk) {
    if (asking && !kAsk) return ask_again();  // the gate does not know this request any more
    ask_ = renew_ = {};
    if (holding) return lose(reply->head.message, deferred);
    if (!asking) return;
    say_once(said_refused_, "the gate refused the request: " + reply->head.message, deferred);
    const bool wrong = wire::to_error(reply->head).code == ErrorCode::kInvalid;
    return decide(PhaseState::kWithoutTurn, wrong ? GateOutcome::kInvalid : GateOutcome::kRefused, deferred);
  }
  switch (reply->state) {
    case wire::GateState::kQueued:
      if (asking) phase_.arrived = reply->arrived;
      return;
    case wire::GateState::kHolding:
      if (holding && direct) {
        phase_.lease_until = sent.at + provable_lease();
        phase_.confirmed = true;
      }
      if (!asking || !kAsk) return;
      phase_.arrived = reply->arrived;
      phase_.group = reply->group;
      return granted(deferred);
    case wire::GateState::kLost:
      if (asking) return ask_again();
      ask_ = renew_ = {};
      if (holding) lose("the lease expired", deferred);
      return;
  }
}

void GateClient::granted(DeferredCalls& deferred) {
  // The lease started when the gate granted, which was after it read the last message that it answered.
  phase_.lease_until = phase_.acknowledged + provable_lease();
  phase_.confirmed = true;
  if (now() >= phase_.lease_until) return ask_again();  // suspended for too long: another job may hold the targets
  decide(PhaseState::kHolding, GateOutcome::kGranted, deferred);
}

// ---- the connection ----

void GateClient::connect() {
  net::ConnectOptions options = options_.connect;
  options.timeout = options_.answer_bound;
  options.watch = true;
  transport_->connect(options_.endpoint, std::move(options), *this,
                      [this](Result<net::ConnectionPointer> connection) { connected(std::move(connection)); });
}

void GateClient::connected(Result<net::ConnectionPointer> connection) {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    if (stopping_) return;
    connecting_ = false;
    next_connect_ = now() + retry_after();
    const bool early = connection && closed_early_ == *connection;
    closed_early_ = nullptr;
    if (connection && !early) {
      connection_ = std::move(*connection);
      send_open();
    } else if (phase_.state == PhaseState::kAsking && !gate_answered_) {  // there may be no gate at all
      const bool silent = !connection && connection.error().code == ErrorCode::kTimeout;
      give_up(silent ? GateOutcome::kNoAnswer : GateOutcome::kUnreachable,
              connection ? "the gate closed the connection" : connection.error().message, deferred);
    }
    set_timer();
  }
  deferred.run(*this);
}

void GateClient::closed(const net::ConnectionPointer& connection, const Error& why) {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    if (stopping_) return;
    if (connection == unresponsive_) {
      unresponsive_ = nullptr;
      phase_.confirmed = false;
      return;
    }
    if (connection != connection_) {
      if (connecting_) closed_early_ = connection;
      return;
    }
    connection_ = nullptr;
    drop_connection(deferred);
    phase_.confirmed = false;
    if (phase_.state == PhaseState::kAsking && !gate_answered_)
      give_up(GateOutcome::kUnreachable, why.message, deferred);
    else if (phase_.state == PhaseState::kAsking &&
             phase_.connect_by == TimePoint::max())  // else the bound of the earlier connection loss still applies
      phase_.connect_by = std::min(now() + options_.answer_bound, phase_.deadline);
    set_timer();
  }
  deferred.run(*this);
}

void GateClient::drop_connection(DeferredCalls& deferred) {
  if (connection_) {
    deferred.close.push_back(std::exchange(connection_, nullptr));
    phase_.confirmed = false;  // the gate ends the turn when the connection closes
  }
  open_ = ask_ = renew_ = {};
}

void GateClient::close_unresponsive(DeferredCalls& deferred) {
  if (unresponsive_) deferred.close.push_back(std::exchange(unresponsive_, nullptr));
}

// ---- time ----

bool GateClient::wants_connection() const {
  return gate_unavailable_ || phase_.state == PhaseState::kAsking || phase_.state == PhaseState::kHolding;
}

Duration GateClient::retry_after() const {
  if (phase_.state == PhaseState::kAsking) return kConnectAgain;
  if (phase_.state == PhaseState::kHolding) return std::clamp<Duration>(lease_ / 20, kConnectAgain, 500ms);
  return std::clamp<Duration>(options_.answer_bound / 2, 50ms, 1s);
}

// Interval of a waiter's renewals: short enough that most of the lease is left when the grant arrives.
Duration GateClient::step() const {
  return std::min(options_.answer_bound / 2, lease_ / 4);
}

std::optional<TimePoint> GateClient::unanswered_since() const {
  std::optional<TimePoint> since;
  const auto add = [&](const SentRequest& sent) {
    if (sent.tag != 0) since = std::min(since.value_or(sent.at), sent.at);
  };
  add(open_);
  add(renew_);
  if (!ask_answered_) add(ask_);
  return since;
}

TimePoint GateClient::renew_at() const {
  if (!connection_ || ask_.tag == 0 || !ask_answered_ || renew_.tag != 0) return TimePoint::max();
  if (phase_.state == PhaseState::kAsking) return phase_.acknowledged + step();
  return phase_.state == PhaseState::kHolding ? phase_.lease_until - lease_ * 2 / 3 : TimePoint::max();
}

// When to call work() next.
TimePoint GateClient::next_wake() const {
  const bool asking = phase_.state == PhaseState::kAsking, holding = phase_.state == PhaseState::kHolding;
  TimePoint next = TimePoint::max();
  if (!pending_.empty()) next = pending_.front().deadline;
  if (const auto since = unanswered_since()) next = std::min(next, *since + options_.answer_bound);
  if (asking) next = std::min(next, phase_.deadline);
  if (asking && !connection_) next = std::min(next, phase_.connect_by);
  if (holding) next = std::min(next, phase_.lease_until);
  if (!connection_ && !connecting_ && wants_connection()) next = std::min(next, next_connect_);
  return std::min(next, renew_at());
}

// A timer that fires too early only costs one call of tick().
void GateClient::set_timer() {
  const TimePoint next = next_wake();
  if (next < timer_at_ && !stopping_) timer_->set(timer_at_ = next);
}

void GateClient::tick() {
  DeferredCalls deferred;
  {
    Lock lock(mutex_);
    timer_at_ = TimePoint::max();
    if (stopping_) return;
    work(deferred);
    set_timer();
  }
  deferred.run(*this);
}

void GateClient::work(DeferredCalls& deferred) {
  const TimePoint time = now();
  while (!pending_.empty() && pending_.front().deadline <= time) {  // proceeds beside the open phase
    ++phase_.depth;
    deferred.done.emplace_back(std::move(pending_.front().done), GateOutcome::kTimedOut);
    pending_.pop_front();
  }
  if (const auto since = unanswered_since(); since && time >= *since + options_.answer_bound) {
    if (phase_.state == PhaseState::kAsking) give_up(GateOutcome::kNoAnswer, "", deferred);
    if (phase_.state == PhaseState::kHolding && !unresponsive_) unresponsive_ = std::exchange(connection_, nullptr);
    drop_connection(deferred);  // a holder reconnects
  }
  if (phase_.state == PhaseState::kAsking && time >= phase_.deadline) {
    send_release();
    say_once(said_timed_out_,
             fmt::format("no turn within {:.1f} s", std::chrono::duration<double>(options_.max_wait).count()),
             deferred);
    decide(PhaseState::kWithoutTurn, GateOutcome::kTimedOut, deferred);
  }
  if (phase_.state == PhaseState::kAsking && !connection_ && time >= phase_.connect_by)
    give_up(gate_answered_ ? GateOutcome::kUnreachable : GateOutcome::kNoAnswer, "", deferred);
  if (phase_.state == PhaseState::kHolding && time >= phase_.lease_until) {
    lose(connection_ ? "the lease expired" : "the gate was unreachable for longer than the lease", deferred);
    send_release();
  }
  if (time >= renew_at()) send_renew();
  if (!connection_ && !connecting_ && wants_connection() && time >= next_connect_)
    deferred.connect = connecting_ = true;
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "node/limit_exchange.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

namespace tutti::node {
namespace {

constexpr Duration kLeastInterval = std::chrono::microseconds(500);  // between two messages to one node
constexpr Duration kLeaseMargin = std::chrono::milliseconds(10);     // for clocks that differ in speed

wire::LimitKey to_wire(const LimitKey& key) {
  return {static_cast<std::uint8_t>(key.kind), key.id};
}
LimitKey from_wire(const wire::LimitKey& key) {
  return {static_cast<LimitKey::Kind>(key.kind), key.id};
}
wire::LimitAmount to_wire(const LimitAmount& amount) {
  constexpr std::uint64_t kMost = wire::LimitAmount::kMost;
  return {std::min(amount.bytes, kMost), std::min(amount.requests, kMost)};
}
LimitAmount from_wire(const wire::LimitAmount& amount) {
  return {amount.bytes, amount.requests};
}

wire::LimitDemand to_wire(const LimitDemand& demand) {
  return {.key = to_wire(demand.key),
          .limit = to_wire(LimitAmount{demand.limit.bytes, demand.limit.requests}),
          .waiting = to_wire(demand.waiting),
          .wanted = to_wire(demand.wanted),
          .next = to_wire(demand.next),
          .returned = to_wire(demand.returned)};
}
LimitDemand from_wire(const wire::LimitDemand& demand) {
  return {.key = from_wire(demand.key),
          .limit = {demand.limit.bytes, demand.limit.requests},
          .waiting = from_wire(demand.waiting),
          .wanted = from_wire(demand.wanted),
          .next = from_wire(demand.next),
          .returned = from_wire(demand.returned)};
}

bool refused(const Error& error) {
  return error.code == ErrorCode::kUnreachable && (error.system == ECONNREFUSED || error.system == ENOENT);
}

}  // namespace

LimitExchange::LimitExchange(Options options, const Dependencies& dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      usable_from_(dependencies.world->clock().steady() + kQuietStart),
      nodes_(options_.nodes.size()),
      distributor_(options_.own),
      given_to_(options_.own) {
  assert(options_.own < options_.nodes.size());
  timer_ = dependencies_.world->make_timer([this] { tick(); });
  dependencies_.limits->enforce_by_grants(options_.nodes.size(), [this] { wake_starved(); });
  wake_at(now());
}

void LimitExchange::stop() {
  {
    Lock lock(timer_mutex_);
    timer_stopped_ = true;
  }
  timer_.reset();
  Actions actions;
  {
    Lock lock(mutex_);
    stopped_ = true;
    disconnect_all(now(), actions);
  }
  carry_out(actions);
}

// ---- time ----

void LimitExchange::wake_at(TimePoint when) {
  Lock lock(timer_mutex_);
  if (when >= wake_at_ || timer_stopped_) return;
  wake_at_ = when;
  timer_->set(when);
}

void LimitExchange::wake_starved() {
  wake_at(std::max(now(), next_ask_.load()));
}

void LimitExchange::tick() {
  {
    Lock lock(timer_mutex_);
    wake_at_ = TimePoint::max();
  }
  const TimePoint now = this->now();
  Actions actions;
  {
    Lock lock(mutex_);
    if (stopped_) return;
    const bool active = dependencies_.limits->active();
    if (active) {
      find_distributor(now, actions);
      ask_distributor(now, actions);
    } else {
      distributor_ = options_.own;
      disconnect_all(now, actions);
    }
    if (shares(now) == 0) mine_.pause();
    if (active || (was_asked_ != TimePoint::min() && now < was_asked_ + kRetryInterval)) {
      if (distributor_ == options_.own) look_for_absent(now, actions);
      actions.wake_at = std::min(actions.wake_at, now + kRenewInterval);
    }
  }
  carry_out(actions);
}

void LimitExchange::carry_out(Actions& actions) {
  const Error done{ErrorCode::kStopped, "not needed any more"};
  for (const net::ConnectionPointer& connection : actions.close) connection->close(done);
  for (Message& message : actions.send) message.to->send({.frame = std::move(message.frame)});
  for (const std::size_t node : actions.connect) {
    net::ConnectOptions connect = options_.connect;
    connect.node = options_.nodes[node].name;
    dependencies_.transport->connect(options_.nodes[node].endpoint, std::move(connect), *this,
                                     [this, node, began = now()](Result<net::ConnectionPointer> connection) {
                                       connect_done(node, began, std::move(connection));
                                     });
  }
  if (!actions.warning.empty() && warnings_.allow(now()))
    spdlog::warn("{}: limits are not shared: {}", options_.nodes[options_.own].name, actions.warning);
  if (actions.wake_at != TimePoint::max()) wake_at(actions.wake_at);
  if (actions.granted) dependencies_.granted();
}

// ---- connections ----

void LimitExchange::reconnect(std::size_t node, TimePoint now, Actions& actions) {
  OtherNode& other = nodes_[node];
  if (other.connection || other.connecting || now < other.retry_at) return;
  other.connecting = true;
  actions.connect.push_back(node);
}

void LimitExchange::disconnect(OtherNode& other, TimePoint now, Actions& actions) {
  if (!other.connection) return;
  actions.close.push_back(std::exchange(other.connection, nullptr));
  other.tag = 0;
  other.answered = other.now_there = {};
  other.retry_at = now + kRetryInterval;
}

void LimitExchange::disconnect_all(TimePoint now, Actions& actions) {
  for (OtherNode& other : nodes_) {
    disconnect(other, now, actions);
    other.retry_at = now;
  }
}

void LimitExchange::connect_done(std::size_t node, TimePoint began, Result<net::ConnectionPointer> connection) {
  const TimePoint now = this->now();
  Actions actions;
  {
    Lock lock(mutex_);
    OtherNode& other = nodes_[node];
    other.connecting = false;
    if (!connection) {
      other.retry_at = now + kRetryInterval;
      if (refused(connection.error())) other.absent_until = began + kAbsentFor;
    } else if (stopped_ || node > options_.own || !dependencies_.limits->active()) {
      actions.close.push_back(std::move(*connection));  // it only showed that the node is there
      other.absent_until = {};
      other.retry_at = now + kRetryInterval;
    } else {
      other.connection = std::move(*connection);
      other.absent_until = {};
      ask(node, {}, now, actions);
    }
  }
  carry_out(actions);
}

void LimitExchange::closed(const net::ConnectionPointer& connection, const Error&) {
  const TimePoint now = this->now();
  Actions actions;
  {
    Lock lock(mutex_);
    for (OtherNode& other : nodes_) {
      if (other.connection != connection) continue;
      disconnect(other, now, actions);
      other.retry_at = now + kRenewInterval;
    }
    actions.close.clear();  // it is closed
    actions.wake_at = now;
  }
  carry_out(actions);
}

// ---- which node distributes, and which shares it has ----

// Whether the node can be asked: it has answered on this connection, and is not late.
bool LimitExchange::answers(std::size_t node, TimePoint now, Actions& actions) {
  OtherNode& other = nodes_[node];
  if (other.tag != 0 && other.asked + kAnswerTimeout <= now) disconnect(other, now, actions);
  reconnect(node, now, actions);
  return other.connection && other.now_there != TimePoint{};
}

void LimitExchange::find_distributor(TimePoint now, Actions& actions) {
  distributor_ = 0;
  while (distributor_ < options_.own && !answers(distributor_, now, actions)) ++distributor_;
}

// The share is given for a lease that begins with the other node's last answer: it ends there no later than here.
bool LimitExchange::gives_share(std::size_t node, TimePoint now) {
  const OtherNode& other = nodes_[node];
  if (node != distributor_ || other.now_there == TimePoint{} || now < usable_from_) return false;
  if (given_to_ != node && now < given_until_) return false;
  given_to_ = node;
  given_until_ = std::max(given_until_, other.answered + kLease + kLeaseMargin);
  return true;
}

bool LimitExchange::has_own_share(TimePoint now) const {
  return distributor_ == options_.own && now >= given_until_ && now >= usable_from_;
}

// Shares of absent nodes count only at a node that has those of most of the others: there is only one such node.
std::size_t LimitExchange::shares(TimePoint now) const {
  std::size_t given = has_own_share(now) ? 1 : 0, absent = 0;
  for (const OtherNode& other : nodes_)
    if (now < other.given_until)
      ++given;
    else if (now < other.absent_until)
      ++absent;
  return given + (2 * given > nodes_.size() - absent ? absent : 0);
}

void LimitExchange::look_for_absent(TimePoint now, Actions& actions) {
  for (std::size_t node = 0; node < nodes_.size(); ++node)
    if (node != options_.own && now >= nodes_[node].given_until) reconnect(node, now, actions);
}

// ---- demands and grants ----

void LimitExchange::ask_distributor(TimePoint now, Actions& actions) {
  if (distributor_ != options_.own) {
    if (nodes_[distributor_].tag != 0) return;  // its answer leads to the next message
    return ask(distributor_, dependencies_.limits->demands(wire::kMaxLimits), now, actions);
  }
  const auto demands = dependencies_.limits->demands(wire::kMaxLimits);
  const LimitDistributor::Shares counted{.counted = shares(now), .nodes = nodes_.size()};
  take(demands, mine_.ask(options_.own, demands, dependencies_.limits->burst(), counted, now), now, actions);
}

void LimitExchange::ask(std::size_t node, std::vector<LimitDemand> demands, TimePoint now, Actions& actions) {
  OtherNode& other = nodes_[node];
  wire::LimitShareRequest request{.node = options_.nodes[options_.own].name,
                                  .share_since = gives_share(node, now) ? other.now_there : TimePoint{},
                                  .burst = std::min<Duration>(dependencies_.limits->burst(), std::chrono::hours(1))};
  for (const LimitDemand& demand : demands) request.demands.push_back(to_wire(demand));
  other.tag = ++last_tag_;
  other.asked = now;
  other.asked_for = std::move(demands);
  actions.send.push_back({other.connection, wire::encode(request, {.tag = other.tag})});
}

// Sets the time of the next message: soon, if the demands were not met.
void LimitExchange::take(std::span<const LimitDemand> demands, std::span<const LimitGrant> grants, TimePoint asked,
                         Actions& actions) {
  dependencies_.limits->grant(grants);
  actions.granted = actions.granted || !grants.empty();
  std::size_t met = 0, wanted = 0;
  for (const LimitDemand& demand : demands) {
    if (demand.wanted == LimitAmount{}) continue;
    ++wanted;
    const auto grant = std::ranges::find(grants, demand.key, &LimitGrant::key);
    met += grant != grants.end() && grant->amount == demand.wanted;
  }
  const bool limited = met < wanted;
  next_ask_ = asked + (limited ? kAskInterval : kLeastInterval);
  if (limited || dependencies_.limits->starving()) actions.wake_at = std::min(actions.wake_at, next_ask_.load());
}

void LimitExchange::received(const net::ConnectionPointer& from, net::Incoming message) {
  const TimePoint now = this->now();
  Actions actions;
  {
    Lock lock(mutex_);
    const auto found = std::ranges::find(nodes_, from, &OtherNode::connection);
    if (found == nodes_.end() || message.header.tag != found->tag || wire::is_notice(message.header.type)) return;
    OtherNode& other = *found;
    const auto reply = wire::decode<wire::LimitShareReply>(message.header, message.body);
    if (!reply || reply->head.status != wire::kOk) {
      const std::string why = reply ? reply->head.message : reply.error().message;
      actions.warning = options_.nodes[static_cast<std::size_t>(found - nodes_.begin())].name + ": " + why;
      disconnect(other, now, actions);
    } else {
      other.tag = 0;
      other.answered = now;
      const bool first = std::exchange(other.now_there, reply->now) == TimePoint{};
      std::vector<LimitGrant> grants;
      for (const wire::LimitGrant& grant : reply->grants)
        grants.push_back({from_wire(grant.key), from_wire(grant.amount)});
      take(other.asked_for, grants, other.asked, actions);
      if (first) actions.wake_at = now;  // it may be the distributor from now on
    }
  }
  carry_out(actions);
}

Result<wire::LimitShareReply> LimitExchange::answer(const wire::LimitShareRequest& request) {
  const auto found = std::ranges::find(options_.nodes, request.node, &Options::ClusterNode::name);
  const auto node = static_cast<std::size_t>(found - options_.nodes.begin());
  if (found == options_.nodes.end() || node == options_.own)
    return fail(ErrorCode::kInvalid,
                fmt::format("{} knows no other node \"{}\": use the same cluster.toml on all nodes, and restart them",
                            options_.nodes[options_.own].name, request.node));
  std::vector<LimitDemand> demands;
  for (const wire::LimitDemand& demand : request.demands) demands.push_back(from_wire(demand));
  const TimePoint now = this->now();
  wire::LimitShareReply reply;
  {
    Lock lock(mutex_);
    was_asked_ = now;
    nodes_[node].given_until =
        request.share_since == TimePoint{} ? TimePoint{} : std::min(request.share_since, now) + kLease;
    const LimitDistributor::Shares counted{.counted = shares(now), .nodes = nodes_.size()};
    if (counted.counted == 0) mine_.pause();
    for (const LimitGrant& grant : mine_.ask(node, demands, request.burst, counted, now))
      reply.grants.push_back({to_wire(grant.key), to_wire(grant.amount)});
  }
  reply.now = now;
  wake_at(now + kRenewInterval);
  return reply;
}

wire::LimitsReply LimitExchange::status() const {
  Lock lock(mutex_);
  return {.head = {},
          .limited = dependencies_.limits->active(),
          .nodes = static_cast<std::uint32_t>(nodes_.size()),
          .distributor = options_.nodes[distributor_].name,
          .shares = distributor_ == options_.own ? static_cast<std::uint32_t>(shares(now())) : 0};
}

}  // namespace tutti::node

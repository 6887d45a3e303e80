// SPDX-License-Identifier: Apache-2.0
#include "client/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr Duration kReconnect = 1s;
constexpr Duration kBusy = 20ms;    // until a busy node is tried again
constexpr std::size_t kPinged = 3;  // nodes that are pinged when one is lost

}  // namespace

Router::Router(World& world, std::unique_ptr<net::Transport> transport, Options options)
    : world_(world), clock_(world.clock()), options_(std::move(options)), transport_(std::move(transport)) {
  for (std::size_t i = 0; i < options_.cluster.nodes.size(); ++i) {
    const auto& node = options_.cluster.nodes[i];
    for (const auto target : node.targets) owners_[target] = i;
    NodeLink::Options link{i, options_.cluster.request_timeout, options_.cluster.fence_time,
                           *net::parse_endpoint(node.endpoint), options_.connect};
    link.connect.node = node.name;
    links_.push_back(std::make_unique<NodeLink>(clock_, *transport_, std::move(link), *this));
  }
  next_try_.assign(links_.size(), TimePoint::max());
  last_try_.assign(links_.size(), TimePoint{});
  timer_ = world_.make_timer([this] { wake(); });
}

void Router::start(std::function<void(Result<void>)> done) {
  struct Attempts {
    explicit Attempts(std::size_t count) : left(count) {}
    Mutex mutex;
    std::size_t left TUTTI_GUARDED_BY(mutex);
    bool any TUTTI_GUARDED_BY(mutex) = false;
    Result<void> last TUTTI_GUARDED_BY(mutex);
  };
  auto attempts = std::make_shared<Attempts>(links_.size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i]->connect([this, i, attempts, done](const Result<void>& connected) {
      if (!connected) {
        Lock lock(mutex_);
        next_try_[i] = clock_.steady() + kReconnect;
        wake_at(next_try_[i]);
      }
      Lock lock(attempts->mutex);
      attempts->any = attempts->any || connected;
      if (!connected) {
        attempts->last = connected;
        attempts->last.error().message = options_.cluster.nodes[i].name + ": " + connected.error().message;
      }
      if (--attempts->left > 0) return;
      Result<void> all = attempts->any ? Result<void>{} : attempts->last;
      if (!all) all.error().message = "no node of the cluster answers; " + all.error().message;
      lock.unlock();
      done(std::move(all));
    });
  }
}

Router::~Router() {
  stop();
}

void Router::stop() {
  {
    Lock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  timer_.reset();
  for (auto& link : links_) link->disconnect({ErrorCode::kStopped, "the client was closed"});
  transport_.reset();  // closed() was called for every link
  std::multimap<TimePoint, CallPointer> unsent;
  {
    Lock lock(mutex_);
    unsent.swap(later_);
  }
  for (auto& [when, call] : unsent) call->done(fail(ErrorCode::kStopped, "the client was closed"));
}

std::size_t Router::owner(TargetId target) const {
  const auto found = owners_.find(target);
  return found == owners_.end() ? target % links_.size() : found->second;
}

void Router::forget(std::uint64_t file_key) {
  for (auto& link : links_) link->forget(file_key);
}

void Router::submit(CallPointer call) {
  const auto now = clock_.steady();
  call->submitted = now;
  call->give_up = now + options_.give_up;
  if (call->work == Work::kSync && options_.sync_timeout) watch(call->sync_limit = now + *options_.sync_timeout);
  send_or_wait(std::move(call), now, now);
}

void Router::send_or_wait(CallPointer call, TimePoint now, TimePoint next_try) {
  if (try_send(call, now)) return;
  const auto instance = links_[call->preferred]->instance();
  if (!call->only_boot || !instance || instance->boot == call->only_boot) return later(next_try, std::move(call));
  call->done(fail(ErrorCode::kUnreachable, options_.cluster.nodes[call->preferred].name + " has restarted"));
}

bool Router::try_send(const CallPointer& call, TimePoint now) {
  if (call->overdue_at != TimePoint{} && send_to_next(call, now, call->overdue_at)) return true;
  return send_to_next(call, now, TimePoint{});
}

// To the preferred node if it is up, else to the next node that is up. Only to nodes that sent something since then.
bool Router::send_to_next(const CallPointer& call, TimePoint now, TimePoint heard_since) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto node = (call->preferred + static_cast<std::size_t>(call->node_offset) + i) % links_.size();
    if (heard_since != TimePoint{} && links_[node]->heard() < heard_since) continue;
    if (links_[node]->send(call, now)) return true;
  }
  return false;
}

// Only a few nodes, because all clients may lose a node at the same time.
void Router::ping_next(std::size_t lost) {
  for (std::size_t i = 1; i < std::min(links_.size(), kPinged + 1); ++i) links_[(lost + i) % links_.size()]->ping();
}

void Router::later(TimePoint when, CallPointer call) {
  {
    Lock lock(mutex_);
    if (!stopping_) {
      wake_at(std::min(when, call->give_up));
      later_.emplace(when, std::move(call));
      return;
    }
  }
  call->done(fail(ErrorCode::kStopped, "the client was closed"));
}

void Router::answered(CallPointer call, std::int32_t status) {
  if (status == wire::kOk) return call->done({});
  const auto now = clock_.steady();
  switch (status) {
    case wire::kUnknownFile:
      call->force_path = true;
      return later(now, std::move(call));
    case wire::kExpired:  // was not applied and will not be
      return later(now + kBusy, std::move(call));
    case wire::kStopping:  // was not applied and will not be
      ++call->node_offset;
      return later(now + kBusy, std::move(call));
    case EAGAIN:
      return later(now + kBusy, std::move(call));
    default:
      call->done({});
  }
}

void Router::lost(std::size_t link, std::vector<CallPointer> sent, std::vector<CallPointer> unsent, const Error& why) {
  const auto now = clock_.steady();
  {
    Lock lock(mutex_);
    next_try_[link] = why.code == ErrorCode::kTimeout ? now + kReconnect : std::max(now, last_try_[link] + kReconnect);
    wake_at(next_try_[link]);
  }
  const bool overdue = why.code == ErrorCode::kTimeout;
  const auto at_once = overdue ? now + kBusy : now;  // until the answers to pings have arrived
  if (overdue) ping_next(link);
  for (auto& call : unsent) {
    if (overdue) call->overdue_at = now;
    later(at_once, std::move(call));
  }
  for (auto& call : sent) {
    if (overdue) ++call->node_offset, call->overdue_at = now;  // this node may be reachable and not work
    if (call->work == Work::kSync) {                           // the time in which it ran does not count
      const TimePoint began = call->deadline - options_.cluster.request_timeout;
      call->give_up = std::min(call->give_up + (now - began), call->sync_limit);
    }
    if (call->retry == Retry::kNever) {
      const auto& name = options_.cluster.nodes[call->node].name;
      call->done(fail(ErrorCode::kUnreachable,
                      fmt::format("{} was lost; the request may or may not have been applied: {}", name, why.message)));
      continue;
    }
    const auto when = call->retry == Retry::kAnytime ? at_once : call->deadline + call->fence_time;
    later(when, std::move(call));
  }
}

// "node2 does not answer; retrying on node3 in 28 s".
std::string Router::describe_retry(const Call& call, TimePoint now, TimePoint when) const {
  const auto& nodes = options_.cluster.nodes;
  const auto seconds = [&](TimePoint time) { return std::max<std::int64_t>(0, (time - now) / 1s); };
  const std::string lost = call.tag == 0 ? "no node" : nodes[call.node].name + " does not answer; no other node";
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto node = (call.preferred + static_cast<std::size_t>(call.node_offset) + i) % links_.size();
    if (links_[node]->is_up())
      return fmt::format("{} does not answer; retrying on {} in {} s", nodes[call.node].name, nodes[node].name,
                         seconds(when));
  }
  return fmt::format("{} can be reached; trying again for {} s", lost, seconds(call.give_up));
}

std::string Router::waiting_for(Duration since) {
  const auto now = clock_.steady();
  {
    Lock lock(mutex_);
    for (const auto& [when, call] : later_)
      if (call->submitted <= now - since) return describe_retry(*call, now, when);
  }
  std::size_t slowest = 0;
  NodeLink::Oldest oldest;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto found = links_[i]->oldest_call();
    if (found.submitted >= oldest.submitted) continue;
    oldest = found;
    slowest = i;
  }
  if (oldest.submitted > now - since) return {};
  const auto& name = options_.cluster.nodes[slowest].name;
  const auto waited = (now - oldest.submitted) / 1s;
  if (oldest.progress > oldest.submitted + options_.cluster.request_timeout)
    return fmt::format("{} has been working on a request for {} s; it is in its queue or being synced", name, waited);
  return fmt::format("{} has not answered for {} s; after {} s its requests are sent to another node", name, waited,
                     options_.cluster.request_timeout / 1s);
}

void Router::watch(TimePoint deadline) {
  Lock lock(mutex_);
  wake_at(deadline + 1ns);  // a call is overdue once its deadline has passed
}

void Router::wake_at(TimePoint when) {
  if (when >= wake_at_ || stopping_) return;
  wake_at_ = when;
  timer_->set(when);
}

void Router::wake() {
  const auto now = clock_.steady();
  {
    Lock lock(mutex_);
    wake_at_ = TimePoint::max();
  }
  const auto overdue = disconnect_overdue(now);
  const auto next = std::min({overdue, reconnect(now), resend(now)});
  Lock lock(mutex_);
  wake_at(next);
}

// This and the next two functions return when they must be called again.
TimePoint Router::disconnect_overdue(TimePoint now) {
  TimePoint next = TimePoint::max();
  for (const auto& link : links_) {
    for (const auto& call : link->take_late_syncs(now))
      call->done(fail(ErrorCode::kTimeout, "the sync did not end within sync_timeout"));
    auto deadline = link->next_deadline();
    if (deadline < now) {
      link->disconnect(
          {ErrorCode::kTimeout, fmt::format("no reply within {} ms", options_.cluster.request_timeout / 1ms)});
      deadline = TimePoint::max();
    }
    if (deadline != TimePoint::max()) next = std::min(next, deadline + 1ns);
  }
  return next;
}

TimePoint Router::reconnect(TimePoint now) {
  std::vector<std::size_t> due;
  TimePoint next = TimePoint::max();
  {
    Lock lock(mutex_);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (next_try_[i] <= now) {
        due.push_back(i);
        next_try_[i] = TimePoint::max();
        last_try_[i] = now;
      }
      next = std::min(next, next_try_[i]);
    }
  }
  for (const auto i : due) {
    links_[i]->connect([this, i](const Result<void>& connected) {
      const auto ended = clock_.steady();
      if (connected) release_fenced(i, ended);
      Lock lock(mutex_);
      if (!connected) wake_at(next_try_[i] = ended + kReconnect);
      if (connected && !later_.empty()) wake_at(ended);  // send them to this node
    });
  }
  return next;
}

// Calls that wait for the end of an earlier process of this node need not wait any more.
void Router::release_fenced(std::size_t node, TimePoint now) {
  const auto instance = links_[node]->instance();
  if (!instance || instance->process == 0) return;
  Lock lock(mutex_);
  std::vector<CallPointer> free;
  for (auto it = later_.upper_bound(now); it != later_.end();) {
    const auto& call = it->second;
    const auto& old = call->instance;
    const bool ended = call->retry == Retry::kAfterFence && call->node == node && old.boot == instance->boot &&
                       old.process != 0 && old.process != instance->process;
    if (!ended) {
      ++it;
      continue;
    }
    free.push_back(std::move(it->second));
    it = later_.erase(it);
  }
  for (auto& call : free) later_.emplace(now, std::move(call));
}

// Sends calls that are due, and fails calls after their give_up time.
TimePoint Router::resend(TimePoint now) {
  std::vector<CallPointer> old, due;
  TimePoint next = TimePoint::max();
  {
    Lock lock(mutex_);
    for (auto it = later_.begin(); it != later_.end();) {
      const bool over = now > it->second->give_up;
      if (over || it->first <= now) {
        (over ? old : due).push_back(std::move(it->second));
        it = later_.erase(it);
      } else {
        next = std::min({next, it->first, it->second->give_up + 1ns});
        ++it;
      }
    }
  }
  for (auto& call : old) {
    call->done(fail(ErrorCode::kTimeout, "no node answered the request in time; it may or may not have been applied"));
  }
  for (auto& call : due) send_or_wait(std::move(call), now, now + kBusy);
  return next;
}

}  // namespace tutti

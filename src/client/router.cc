// SPDX-License-Identifier: Apache-2.0
#include "client/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr Duration kReconnect = 1s;
constexpr Duration kConnectTimeout = 2s;
constexpr Duration kBusy = 20ms;  // a node that is full is asked again after this

}  // namespace

Router::Router(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Router>> Router::create(Options options) {
  if (auto fine = check_cluster(options.cluster); !fine) return Failure(fine.error());
  std::unique_ptr<Router> router(new Router(std::move(options)));
  if (auto started = router->start(); !started) return Failure(started.error());
  return router;
}

Result<void> Router::start() {
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  transport_ = std::move(*transport);
  net::ConnectOptions connect{.job = options_.job, .munge = options_.cluster.munge, .timeout = kConnectTimeout};
  if (!options_.cluster.key_file.empty()) {
    auto key = net::load_key(options_.cluster.key_file);
    if (!key) return Failure(key.error());
    connect.key = std::move(*key);
  }
  connect.pool = net::BufferPool::create(Bytes(std::uint64_t{64} << 20));
  Result<void> last;
  bool any = false;
  for (std::size_t i = 0; i < options_.cluster.nodes.size(); ++i) {
    const auto& node = options_.cluster.nodes[i];
    for (const auto target : node.targets) owners_[target] = i;
    NodeLink::Options link{i, *net::parse_endpoint(node.endpoint), connect, options_.cluster.request_timeout};
    links_.push_back(std::make_unique<NodeLink>(*transport_, std::move(link), *this));
    next_try_.push_back({});
    auto connected = links_.back()->connect();
    any = any || connected.has_value();
    if (!connected) last = connected;
  }
  if (!any) return last;
  keeper_ = std::thread([this] { run(); });
  return {};
}

Router::~Router() {
  stop();
}

void Router::stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  wakeup_.notify_all();
  if (keeper_.joinable()) keeper_.join();
  for (auto& link : links_) link->disconnect({ErrorCode::kStopped, "the client was closed"});
  transport_.reset();  // every link has been told
  for (auto& [when, call] : later_) call->done(fail(ErrorCode::kStopped, "the client was closed"));
  later_.clear();
}

std::size_t Router::owner(TargetId target) const {
  const auto found = owners_.find(target);
  return found == owners_.end() ? target % links_.size() : found->second;
}

void Router::forget(std::uint64_t file_key) {
  for (auto& link : links_) link->forget(file_key);
}

void Router::submit(CallPointer call) {
  call->give_up = net::steady_now() + options_.give_up;
  if (!try_send(call)) later(net::steady_now(), std::move(call));
}

void Router::submit_to(std::size_t node, CallPointer call) {
  call->give_up = net::steady_now() + options_.give_up;
  if (links_[node]->send(call)) return;
  call->done(fail(ErrorCode::kUnreachable, fmt::format("{} is down", options_.cluster.nodes[node].name)));
}

// To the owner if it is up, else to the next node that is.
bool Router::try_send(const CallPointer& call) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto node = (call->preferred + static_cast<std::size_t>(call->detours) + i) % links_.size();
    if (links_[node]->send(call)) return true;
  }
  return false;
}

void Router::later(TimePoint when, CallPointer call) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      later_.emplace(when, std::move(call));
      wakeup_.notify_all();
      return;
    }
  }
  call->done(fail(ErrorCode::kStopped, "the client was closed"));
}

void Router::answered(CallPointer call, net::Incoming message) {
  auto head = wire::decode_head(message.body);
  const auto status = head ? head->status : static_cast<std::int32_t>(wire::kOk);
  const auto now = net::steady_now();
  switch (status) {
    case wire::kUnknownFile:
      call->force_path = true;
      return later(now, std::move(call));
    case wire::kExpired:  // not applied, and never will be
      return later(now, std::move(call));
    case wire::kStopping:  // neither
      ++call->detours;
      return later(now + kBusy, std::move(call));
    case EAGAIN:
      return later(now + kBusy, std::move(call));
    default:
      call->done(std::move(message));
  }
}

void Router::lost(std::vector<CallPointer> sent, std::vector<CallPointer> unsent, const Error& why) {
  const auto now = net::steady_now();
  for (auto& call : unsent) later(now, std::move(call));
  for (auto& call : sent) {
    if (call->retry == Retry::kNever) {
      const auto& name = options_.cluster.nodes[call->node].name;
      call->done(
          fail(ErrorCode::kUnreachable,
               fmt::format("{} was lost; the request may or may not have been carried out: {}", name, why.message)));
      continue;
    }
    const auto when = call->retry == Retry::kAnytime ? now : call->deadline + options_.cluster.lease;
    later(when, std::move(call));
  }
}

void Router::run() {
  const auto period = std::clamp<Duration>(options_.cluster.request_timeout / 8, 5ms, 100ms);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] { return !later_.empty() && later_.begin()->first <= net::steady_now(); };
      wakeup_.wait_for(lock, period, [&] { return stopping_ || due(); });
      if (stopping_) return;
    }
    const auto now = net::steady_now();
    check_links(now);
    give_up_on_old(now);
    send_due(now);
  }
}

void Router::check_links(TimePoint now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->overdue(now)) {
      links_[i]->disconnect(
          {ErrorCode::kTimeout, fmt::format("no answer within {} ms", options_.cluster.request_timeout / 1ms)});
      next_try_[i] = now + kReconnect;
    }
    if (!links_[i]->up() && now >= next_try_[i]) reconnect(i, now);
  }
}

void Router::reconnect(std::size_t node, TimePoint now) {
  next_try_[node] = now + kReconnect;
  (void)links_[node]->connect();
}

void Router::give_up_on_old(TimePoint now) {
  std::vector<CallPointer> old;
  {
    std::lock_guard lock(mutex_);
    for (auto it = later_.begin(); it != later_.end();) {
      const bool over = now > it->second->give_up;
      if (over) old.push_back(std::move(it->second));
      it = over ? later_.erase(it) : std::next(it);
    }
  }
  for (auto& call : old) {
    call->done(fail(ErrorCode::kTimeout, "no node carried out the request in time; it may or may not have happened"));
  }
}

void Router::send_due(TimePoint now) {
  std::vector<CallPointer> due;
  {
    std::lock_guard lock(mutex_);
    const auto end = later_.upper_bound(now);
    for (auto it = later_.begin(); it != end; ++it) due.push_back(std::move(it->second));
    later_.erase(later_.begin(), end);
  }
  for (auto& call : due) {
    if (!try_send(call)) later(now + kBusy, std::move(call));
  }
}

}  // namespace tutti

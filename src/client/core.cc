// SPDX-License-Identifier: Apache-2.0
#include "client/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "base/mutex.h"
#include "layout/discovery.h"

namespace tutti {
namespace {

std::vector<TargetId> all_targets(const Cluster& cluster) {
  std::vector<TargetId> targets;
  for (const auto& node : cluster.nodes) targets.insert(targets.end(), node.targets.begin(), node.targets.end());
  std::ranges::sort(targets);
  return targets;
}

}  // namespace

Core::Core(World& world, std::unique_ptr<net::Transport> transport, ClientOptions options, job::Identity identity,
           net::ConnectOptions connect, std::unique_ptr<job::Turns> turns)
    : options_(std::move(options)),
      identity_(std::move(identity)),
      clock_(world.clock()),
      targets_(all_targets(options_.cluster)),
      one_machine_(std::ranges::all_of(options_.cluster.nodes,
                                       [](const NodeAddress& node) { return node.endpoint.starts_with("unix:"); })),
      // The ids of operations must be unique among the processes of an application: random upper half, counter below.
      last_operation_(world.random() << 32),
      phases_({.application = identity_.application,
               .order = identity_.order,
               .processes = identity_.processes,
               .targets = static_cast<std::uint32_t>(targets_.size()),
               .gap = options_.phase_gap}),
      router_(std::make_unique<Router>(
          world, std::move(transport),
          Router::Options{options_.cluster, std::move(connect), options_.give_up, options_.sync_timeout})),
      turns_(std::move(turns)) {}

Core::~Core() {
  stop();
}

void Core::stop() {
  end_phase();
  router_->stop();
  Lock lock(mutex_);
  phases_.end();
}

std::uint64_t Core::opened(const std::shared_ptr<const Layout>& layout) {
  Lock lock(mutex_);
  phases_.opened(++last_key_, layout);
  return last_key_;
}

void Core::closed(std::uint64_t file_key) {
  Lock lock(mutex_);
  phases_.closed(file_key);
}

Stamp Core::issue(std::span<const TargetShare> shares) {
  Lock lock(mutex_);
  return phases_.issue(++last_operation_, shares, clock_.now());
}

Stamp Core::issue_together(std::span<const TargetShare> shares_of_all) {
  Lock lock(mutex_);
  return phases_.issue_together(++last_operation_, shares_of_all, clock_.now());
}

void Core::joined() {
  Lock lock(mutex_);
  phases_.joined(clock_.now());
}

void Core::completed() {
  Lock lock(mutex_);
  phases_.completed(clock_.now());
}

void Core::begin_phase(const PhaseAnnouncement& announcement, Done<void> done, std::optional<std::uint64_t> file_key) {
  if (!turns_) return done(begin_now(announcement, file_key));
  end_phase();
  job::TurnRequest request;
  std::uint64_t turn = 0, earlier = 0;
  {
    Lock lock(mutex_);
    turn = ++last_turn_;
    earlier = std::exchange(turn_, turn);
    request.targets = phases_.targets(file_key);
    request.bytes = announcement.total > Bytes{} ? announcement.total : phases_.learned(announcement.kind);
  }
  turns_->begin(request, [this, announcement, file_key, turn, earlier,
                          done = std::move(done)](const Result<job::TurnOutcome>& outcome) {
    auto begun = outcome ? begin_now(announcement, file_key) : Result<void>(Failure(outcome.error()));
    if (outcome && !begun) end_phase();
    if (!outcome) forget_turn(turn, earlier);
    done(std::move(begun));
  });
}

// The request failed, so there is no turn to end, except one of another thread.
void Core::forget_turn(std::uint64_t turn, std::uint64_t earlier) {
  Lock lock(mutex_);
  if (turn_ == turn) turn_ = earlier;
}

Result<void> Core::begin_now(const PhaseAnnouncement& announcement, std::optional<std::uint64_t> file_key) {
  Lock lock(mutex_);
  return phases_.begin(announcement, file_key);
}

void Core::end_phase() {
  std::uint64_t turn = 0;
  {
    Lock lock(mutex_);
    phases_.end();
    turn = std::exchange(turn_, 0);
  }
  if (turn != 0) turns_->end();
}

void Core::with_phases(const std::function<void(job::Phases&)>& use) {
  Lock lock(mutex_);
  use(phases_);
}

Layout Core::default_layout(std::uint64_t inode) const {
  const auto& cluster = options_.cluster;
  const auto count = static_cast<std::uint32_t>(targets_.size());
  Layout layout{.stripe_size = cluster.stripe_size,
                .stripe_count = cluster.stripe_count == 0 ? count : cluster.stripe_count,
                .object_size = {},
                .targets = {},
                .source = "cluster configuration"};
  for (std::uint32_t i = 0; i < layout.stripe_count; ++i) layout.targets.push_back(targets_[(inode + i) % count]);
  return layout;
}

std::size_t Core::choose_node_for_change(std::string_view path) {
  if (!one_machine_) return next_node_++ % router_->nodes();
  const std::size_t slash = path.rfind('/');
  return std::hash<std::string_view>{}(path.substr(0, slash == path.npos ? 0 : slash)) % router_->nodes();
}

// Reads the extended attributes that can contain a layout, one after the other, until one of them does.
struct Core::Discovery {
  std::string path;
  std::uint64_t inode;
  std::function<void(Layout)> done;
  std::size_t next = 0;  // index in layout_attributes()
};

void Core::find_layout(const std::string& path, std::uint64_t inode, std::function<void(Layout)> done) {
  if (!options_.cluster.discover_layouts) return done(default_layout(inode));
  discover_next(std::make_shared<Discovery>(Discovery{path, inode, std::move(done)}));
}

void Core::discover_next(const std::shared_ptr<Discovery>& discovery) {
  const auto& names = layout_attributes();
  if (discovery->next == names.size()) return discovery->done(default_layout(discovery->inode));
  const auto& name = names[discovery->next++];
  ask(wire::GetXattrRequest{discovery->path, name}, Retry::kAnytime,
      [this, discovery, name](Result<wire::GetXattrReply> value) {
        if (!value) return discover_next(discovery);
        auto found = discover(
            [&](const std::string& asked) { return asked == name ? std::optional(value->value) : std::nullopt; },
            static_cast<std::uint32_t>(targets_.size()));
        if (found && *found) return discovery->done(**found);
        discover_next(discovery);
      });
}

Result<std::string> normalise(const std::string& path) {
  std::string result;
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    const auto name = path.substr(at, end - at);
    at = end + 1;
    if (name.empty() || name == ".") continue;
    if (!result.empty()) result += '/';
    result += name;
  }
  if (auto fine = wire::check_path(result); !fine) {
    return fail(ErrorCode::kInvalid, fmt::format("path \"{}\" {}", path, fine.error().message), EINVAL);
  }
  return result;
}

}  // namespace tutti

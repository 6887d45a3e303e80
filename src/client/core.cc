// SPDX-License-Identifier: Apache-2.0
#include "client/core.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <random>

#include "base/clock.h"
#include "client/identity.h"
#include "layout/discovery.h"

namespace tutti {

Core::Core(ClientOptions options) : options_(std::move(options)) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (!options_.processes) options_.processes = options_.application ? 1 : processes_from(environment);
  if (!options_.application) options_.application = application_from(environment);
  if (options_.job.empty()) options_.job = job_from(environment);
  if (options_.state_directory.empty()) {
    if (const char* state = environment("TUTTI_STATE")) options_.state_directory = state;
  }
  for (const auto& node : options_.cluster.nodes)
    targets_.insert(targets_.end(), node.targets.begin(), node.targets.end());
  std::ranges::sort(targets_);
  // Operations of all processes of an application have numbers of their own: a random upper half, a counter below.
  last_operation_ = std::uint64_t{std::random_device{}()} << 32;
  phases_.emplace(Phases::Options{.application = *options_.application,
                                  .gap = options_.phase_gap,
                                  .targets = static_cast<std::uint32_t>(targets_.size()),
                                  .processes = *options_.processes,
                                  .memory_file = memory_file()});
}

std::string Core::memory_file() const {
  if (options_.state_directory.empty()) return {};
  std::string name = options_.job;
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '_';
  }
  return options_.state_directory + "/" + name + ".phases";
}

Result<std::shared_ptr<Core>> Core::create(ClientOptions options) {
  std::shared_ptr<Core> core(new Core(std::move(options)));
  auto router = Router::create({core->options_.cluster, core->options_.job, core->options_.give_up});
  if (!router) return Failure(router.error());
  core->router_ = std::move(*router);
  return core;
}

Core::~Core() {
  stop();
}

void Core::stop() {
  if (router_) router_->stop();
  std::lock_guard lock(mutex_);
  (void)phases_->save();  // a guess for next time; nobody waits for it
}

Stamp Core::issue(std::vector<TargetShare> shares) {
  std::lock_guard lock(mutex_);
  return phases_->issue(++last_operation_, std::move(shares), real_clock().now());
}

void Core::completed() {
  std::lock_guard lock(mutex_);
  phases_->completed(real_clock().now());
}

void Core::begin_phase(const PhaseAnnouncement& announcement) {
  std::lock_guard lock(mutex_);
  phases_->begin(announcement, real_clock().now());
}

void Core::end_phase() {
  std::lock_guard lock(mutex_);
  phases_->end();
}

Layout Core::layout_of(const std::string& path, std::uint64_t inode) {
  const auto& cluster = options_.cluster;
  const auto count = static_cast<std::uint32_t>(targets_.size());
  if (cluster.discover_layouts) {
    auto found = discover(
        [&](const std::string& name) -> std::optional<std::string> {
          auto value = ask(wire::GetXattrRequest{path, name}, Retry::kAnytime);
          return value ? std::optional(std::move(value->value)) : std::nullopt;
        },
        count);
    if (found && *found) return **found;
  }
  Layout layout{.stripe_size = cluster.stripe_size,
                .stripe_count = cluster.stripe_count == 0 ? count : cluster.stripe_count,
                .object_size = {},
                .targets = {},
                .source = "cluster configuration"};
  for (std::uint32_t i = 0; i < layout.stripe_count; ++i) layout.targets.push_back(targets_[(inode + i) % count]);
  return layout;
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

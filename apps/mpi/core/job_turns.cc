// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/job_turns.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/print_error.h"

namespace tutti::mpi {
namespace {

bool covers(const gate::TargetList& held, const gate::TargetList& wanted) {
  if (held.all || wanted.all) return held.all;
  return std::all_of(wanted.ranges.begin(), wanted.ranges.end(), [&held](const auto& want) {
    return std::any_of(held.ranges.begin(), held.ranges.end(),
                       [&want](const auto& have) { return have.first <= want.first && want.last <= have.last; });
  });
}

}  // namespace

gate::TargetList targets_of(const Layout& layout) {
  if (layout.source == "default" || layout.targets.size() >= gate::kMaxTargets) return gate::TargetList::everything();
  std::vector<TargetId> targets = layout.targets;
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return gate::TargetList::of(targets);
}

Result<std::optional<gate::CoordinatorOptions>> turn_options(std::uint64_t number, const std::string& job) {
  auto options = gate::CoordinatorOptions::from_environment();
  if (!options) return Failure(options.error());
  const char* variable = std::getenv("TUTTI_GATE");
  const bool named = variable && *variable;
  if (!named && ::access(options->client.address.c_str(), F_OK) != 0) options->client.address = "off";
  if (options->client.address == "off" && options->prober.directory.empty()) return std::nullopt;
  options->client.number = number + 1;  // 0 means no number at the gate
  options->client.job = job;
  options->client.say = [](const std::string& line) { print_error("tutti: {}\n", line); };
  return std::optional(std::move(*options));
}

JobTurns::JobTurns(World& world, gate::CoordinatorOptions options) : world_(world) {
  auto made = gate::Coordinator::create(std::move(options));
  if (made)
    coordinator_ = std::move(*made);
  else
    print_error("tutti: {}; continuing without turns\n", made.error().message);
  timer_ = world_.make_timer([this] { expire(); });
}

JobTurns::~JobTurns() {
  timer_.reset();
  Lock lock(mutex_);
  finish();
}

gate::TargetList JobTurns::wanted() const {
  gate::TargetList all;
  for (const auto& [key, file] : files_) {
    if (file.targets.all) return file.targets;
    all.ranges.insert(all.ranges.end(), file.targets.ranges.begin(), file.targets.ranges.end());
  }
  return all;
}

void JobTurns::begin(const FileUse& use) {
  if (!coordinator_) return;
  Lock asking(asking_);
  gate::TargetList targets;
  {
    Lock lock(mutex_);
    ActiveFile& file = files_[use.file];
    file.targets = targets_of(*use.layout);
    file.gap = use.gap;
    ++file.uses;
    if (holding_ && covers(held_, file.targets)) return;
    finish();
    targets = wanted();
  }
  ask(targets, use.bytes);
}

void JobTurns::ask(const gate::TargetList& targets, Bytes bytes) {
  gate::TargetList asked = targets;
  auto turn = coordinator_->begin(asked, bytes);
  if (turn.outcome == gate::GateOutcome::kInvalid && !asked.all) {  // the gate does not have all these targets
    coordinator_->end();
    asked = gate::TargetList::everything();
    turn = coordinator_->begin(asked, bytes);
  }
  Lock lock(mutex_);
  holding_ = true;  // also without a turn: the phase has begun, and ends with end()
  held_ = asked;
}

void JobTurns::done(OpenFileId key) {
  if (!coordinator_) return;
  Lock lock(mutex_);
  const auto found = files_.find(key);
  if (found == files_.end()) return;
  ActiveFile& file = found->second;
  if (file.uses > 0) --file.uses;
  file.last = world_.clock().steady();
  if (file.uses == 0 && file.gap != Duration::max()) timer_->set(file.last + file.gap);
}

void JobTurns::expire() {
  Lock lock(mutex_);
  const TimePoint now = world_.clock().steady();
  TimePoint next = TimePoint::max();
  for (auto file = files_.begin(); file != files_.end();) {
    const bool fixed = file->second.uses > 0 || file->second.gap == Duration::max();
    const TimePoint end = fixed ? TimePoint::max() : file->second.last + file->second.gap;
    if (end <= now) {
      file = files_.erase(file);
      continue;
    }
    next = std::min(next, end);
    ++file;
  }
  if (files_.empty()) finish();
  if (next != TimePoint::max()) timer_->set(next);
}

void JobTurns::ended(OpenFileId key) {
  if (!coordinator_) return;
  Lock lock(mutex_);
  files_.erase(key);
  if (files_.empty()) finish();
}

void JobTurns::finish() {
  if (!holding_) return;
  holding_ = false;
  coordinator_->end();
}

void JobTurns::abandon_after_fork() {
  if (coordinator_ && coordinator_->client()) coordinator_->client()->abandon_after_fork();
}

}  // namespace tutti::mpi

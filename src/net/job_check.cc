// SPDX-License-Identifier: Apache-2.0
#include "net/job_check.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "net/transport.h"

namespace tutti::net {
namespace {

constexpr Duration kRefusalPeriod = std::chrono::minutes(1);
constexpr std::size_t kMostUsers = 4096;

// Removes the first part of a path: "/a/b" gives "a" and leaves "/b".
std::string_view next_part(std::string_view& path) {
  if (path.empty() || path.front() != '/') return {};
  path.remove_prefix(1);
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  return part;
}

template <typename Number>
std::optional<Number> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<ApplicationId> job_of_path(std::string_view path, UserId user) {
  const std::string_view first = next_part(path), second = next_part(path), third = next_part(path);
  const bool version_1 = first.starts_with("slurm") && number_after<UserId>("uid_", second) == user;
  const bool version_2 = first == "system.slice" && second.ends_with("slurmstepd.scope");
  return version_1 || version_2 ? number_after<ApplicationId>("job_", third) : std::nullopt;
}

// For error messages.
std::string advice(ApplicationId application) {
  return fmt::format("Unset TUTTI_APP, or run the program in job {} (the number is from TUTTI_APP or SLURM_JOB_ID).",
                     application);
}

}  // namespace

std::optional<ApplicationId> job_of_cgroup(std::string_view text, UserId user) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    for (int colons = 0; colons < 2; ++colons)  // "hierarchy:controllers:path"
      line.remove_prefix(std::min(line.size(), line.find(':') == line.npos ? line.size() : line.find(':') + 1));
    if (const auto job = job_of_path(line, user)) return job;
  }
  return std::nullopt;
}

LocalJob JobCheck::local_job(int socket, UserId user) const {
  if (!checks(user) || !options_.local_job) return std::optional<ApplicationId>{};
  return options_.local_job(socket, user);
}

bool JobCheck::may_ask(UserId user, const LocalJob& local_job) const {
  return checks(user) && options_.batch && local_job && !*local_job;
}

Result<std::optional<ApplicationId>> JobCheck::bind(const Peer& peer, const JobClaim& claim,
                                                    const LocalJob& local_job) {
  const UserId user = peer.identity.uid;
  using Bound = std::optional<ApplicationId>;
  if (peer.method == wire::Method::kKey || !checks(user)) return Bound{};
  if (!local_job) return Failure(local_job.error());
  if (*local_job) {
    if (claim.numbered && claim.application != **local_job)
      return fail(ErrorCode::kDenied, fmt::format("the client states job {}, but runs in job {}. {}", claim.application,
                                                  **local_job, advice(claim.application)));
    return *local_job;
  }
  if (!options_.batch) return Bound{};
  if (!claim.numbered) return Bound{0};
  const Owner owner = ask({user, claim.application});
  if (owner == Owner::kNotKnown) return Bound{0};
  if (owner == Owner::kThisUser) return Bound{claim.application};
  return fail(ErrorCode::kDenied, fmt::format("job {} is not a running job of user {}. {}", claim.application, user,
                                              advice(claim.application)));
}

bool JobCheck::proves(const Peer& peer) const {
  return peer.application || !checks(peer.identity.uid);
}

JobCheck::Owner JobCheck::ask(const Key& key) {
  {
    Lock lock(mutex_);
    if (const auto found = known(key)) return *found;
  }
  Lock asking(asking_);
  {
    Lock lock(mutex_);
    if (const auto found = known(key)) return *found;  // another thread has asked
  }
  const auto owns = options_.batch->owns(key.first, key.second);
  Lock lock(mutex_);
  if (owns) {
    remember(key, *owns);
    return *owns ? Owner::kThisUser : Owner::kOther;
  }
  silent_until_ = options_.now() + options_.keep_negative;
  lock.unlock();
  if (options_.warn) options_.warn(owns.error().message);
  return Owner::kNotKnown;
}

// What need not be asked.
std::optional<JobCheck::Owner> JobCheck::known(const Key& key) {
  const TimePoint now = options_.now();
  const auto found = answers_.find(key);
  if (found != answers_.end() && found->second.until > now) return found->second.yes ? Owner::kThisUser : Owner::kOther;
  if (over_refusals(key.first)) return Owner::kOther;
  if (now < silent_until_) return Owner::kNotKnown;
  return std::nullopt;
}

void JobCheck::remember(const Key& key, bool yes) {
  const TimePoint now = options_.now();
  if (answers_.size() >= options_.most_answers) {
    std::erase_if(answers_, [&](const auto& entry) { return entry.second.until <= now; });
    if (answers_.size() >= options_.most_answers) answers_.clear();  // they are asked again
  }
  answers_[key] = {yes, now + (yes ? options_.keep : options_.keep_negative)};
  if (yes) return;
  if (refusals_.size() >= kMostUsers)
    std::erase_if(refusals_, [&](const auto& entry) { return entry.second.until <= now; });
  if (refusals_.size() >= kMostUsers) refusals_.clear();
  Refusals& refusals = refusals_[key.first];
  if (refusals.until <= now) refusals = {0, now + kRefusalPeriod};
  ++refusals.count;
}

bool JobCheck::over_refusals(UserId user) {
  const auto found = refusals_.find(user);
  return found != refusals_.end() && found->second.until > options_.now() &&
         found->second.count >= options_.most_refusals;
}

}  // namespace tutti::net

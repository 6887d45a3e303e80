// SPDX-License-Identifier: Apache-2.0
#include "node/open_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/session.h"

namespace tutti::node {
namespace {

constexpr std::size_t kPart = 16;  // of the share of a user is closed at once: a search looks at all files

}  // namespace

void OpenFiles::joined(const std::shared_ptr<Session>& session) {
  Lock lock(mutex_);
  users_[session->caller()->uid].sessions.push_back(session);
}

void OpenFiles::left(const Session& session) {
  const UserId user = session.caller()->uid;
  Lock lock(mutex_);
  std::erase_if(users_[user].sessions, [&](const auto& other) {
    const auto alive = other.lock();
    return !alive || alive.get() == &session;
  });
  forget_if_unused(user);
}

void OpenFiles::count(UserId user, std::ptrdiff_t more) {
  Lock lock(mutex_);
  users_[user].files += static_cast<std::size_t>(more);
  files_ += static_cast<std::size_t>(more);
  forget_if_unused(user);
}

void OpenFiles::forget_if_unused(UserId user) {
  const auto found = users_.find(user);
  if (found->second.sessions.empty() && found->second.files == 0 && found->second.syncs == 0) users_.erase(found);
}

// How many files a user may have.
std::size_t OpenFiles::share() const {
  return std::max(kLeast, most_ - std::min(most_, files_));
}

Result<void> OpenFiles::limit(UserId user) {
  {
    Lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end() || found->second.files <= share()) return {};
  }
  return make_room(user);
}

std::vector<std::shared_ptr<Session>> OpenFiles::sessions_of(User& user) {
  std::vector<std::shared_ptr<Session>> sessions;
  const std::size_t count = user.sessions.size();
  for (std::size_t i = 0; i < count; ++i)
    if (auto session = user.sessions[(user.next + i) % count].lock()) sessions.push_back(std::move(session));
  ++user.next;
  return sessions;
}

Result<void> OpenFiles::make_room(UserId user) {
  Search search;
  std::vector<std::shared_ptr<Session>> sessions;
  std::size_t files = 0;
  bool waits = false;  // for syncs: until then a search would find nothing
  {
    Lock lock(mutex_);
    User& owner = users_[user];
    files = owner.files;
    waits = owner.syncs > kSyncs / 2;
    if (!waits) sessions = sessions_of(owner);
    search.most = std::max<std::size_t>(1, share() / kPart);
    forget_if_unused(user);
  }
  for (const bool unused_only : {true, false}) {
    search.unused_only = unused_only;
    for (const auto& session : sessions)
      if (search.closed < search.most) session->close_idle(search);
    if (search.closed > 0) return {};
  }
  start_syncs(user, search.unsynced);
  return fail(ErrorCode::kFull,
              fmt::format("user {} has {} files open on this node, all users may have {}; none can be closed now", user,
                          files, most_));
}

void OpenFiles::start_syncs(UserId user, const std::vector<std::shared_ptr<BackingFile>>& files) {
  std::vector<Operation*> started;
  {
    Lock lock(mutex_);
    std::size_t& syncs = users_[user].syncs;
    for (const auto& file : files) {
      const bool known = std::ranges::any_of(syncs_, [&](const Sync& sync) { return sync.file == file; });
      if (known || syncs == kSyncs) continue;
      Sync& sync = syncs_.emplace_back();
      sync.kind = Operation::Kind::kSync;
      sync.file = file;
      sync.sink = this;
      sync.user = user;
      sync.covered = file->changes.ended();
      started.push_back(&sync);
      ++syncs;
    }
    forget_if_unused(user);
  }
  if (!started.empty()) engine_.submit(started);
}

void OpenFiles::completed(std::span<Operation* const> operations) {
  std::vector<std::shared_ptr<BackingFile>> released;  // may be closed: without the lock
  bool idle = false;
  {
    Lock lock(mutex_);
    for (Operation* operation : operations) {
      Sync& sync = static_cast<Sync&>(*operation);
      if (sync.error == 0) sync.file->changes.synced(sync.covered);
      released.push_back(std::move(sync.file));
      --users_[sync.user].syncs;
      forget_if_unused(sync.user);
      std::erase_if(syncs_, [&](const Sync& other) { return &other == &sync; });
    }
    idle = syncs_.empty();
  }
  if (idle && when_idle_) when_idle_();
}

bool OpenFiles::idle() const {
  Lock lock(mutex_);
  return syncs_.empty();
}

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// Bounds how many files the clients of a node have open. Each key of a connection counts: it takes memory, and often a
// descriptor.
//
// A user may have as many as are still free, so there is always room for further users. If a user needs more, idle
// files of the same user are closed; a client that uses such a file again sends its path again (wire::kUnknownFile).
//
// Which files may be closed: the kernel reports that data was lost after a write only to descriptors that are open at
// that time, and to one that is opened later only if no other has reported it and the inode has not left the kernel's
// memory. So a file that was changed through a key stays open until a sync has succeeded that started after the last of
// these changes ended. The node starts such syncs itself if there is nothing else to close. After a failed sync the
// file stays open until its client closes it, and all its syncs fail. Changes through other keys do not count: a sync
// promises nothing about them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/world.h"
#include "engine/engine.h"

namespace tutti::node {

class Session;

// Thread-safe.
class OpenFiles final : private CompletionSink {
 public:
  // A search for files to close among those of a user.
  struct Search {
    std::size_t most = 1;      // to be closed
    bool unused_only = false;  // skip files that were used since the last search
    std::size_t closed = 0;
    // Those that can be closed after a sync, at most kSyncs.
    std::vector<std::shared_ptr<BackingFile>> unsynced{};
  };
  static constexpr std::size_t kLeast = 4;   // files that a user may have in any case
  static constexpr std::size_t kSyncs = 32;  // of one user that run at the same time

  // The engine outlives it. `when_idle` is called without locks when idle() becomes true.
  OpenFiles(std::size_t most, Engine& engine, Task when_idle)
      : most_(most), engine_(engine), when_idle_(std::move(when_idle)) {}

  void joined(const std::shared_ptr<Session>& session);
  void left(const Session& session);
  // Files of the user were opened or closed; may be called with locks of sessions.
  void count(UserId user, std::ptrdiff_t more);

  // Call before a file is opened, which was counted. Closes files of the user if there are more than the user may
  // have. kFull: none can be closed now.
  Result<void> limit(UserId user);
  // Closes files of the user. kFull as above.
  Result<void> make_room(UserId user);

  // True if none of its syncs runs.
  bool idle() const;

 private:
  struct User {
    std::vector<std::weak_ptr<Session>> sessions{};  // in order of arrival
    std::size_t next = 0;                            // where the next search starts
    std::size_t files = 0;
    std::size_t syncs = 0;  // that run
  };
  struct Sync : Operation {
    UserId user = 0;
    std::uint64_t covered = 0;  // as in BackingFile::Changes::synced()
  };

  void completed(std::span<Operation* const> operations) override;
  std::size_t share() const TUTTI_REQUIRES(mutex_);
  void forget_if_unused(UserId user) TUTTI_REQUIRES(mutex_);
  std::vector<std::shared_ptr<Session>> sessions_of(User& user) TUTTI_REQUIRES(mutex_);
  void start_syncs(UserId user, const std::vector<std::shared_ptr<BackingFile>>& files);

  const std::size_t most_;
  Engine& engine_;
  const Task when_idle_;

  mutable Mutex mutex_;
  std::map<UserId, User> users_ TUTTI_GUARDED_BY(mutex_);
  std::size_t files_ TUTTI_GUARDED_BY(mutex_) = 0;  // of all users
  std::list<Sync> syncs_ TUTTI_GUARDED_BY(mutex_);  // that run; the engine has pointers to them
};

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// Which job a connection belongs to. Clients state a job number; a node checks it once per connection, where it can.
#pragma once

#include <tutti/sched.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "wire/messages.h"

namespace tutti::net {

struct Peer;

// Knows whose jobs are running. Calls may block for a bounded time. Thread-safe.
class BatchSystem {
 public:
  virtual ~BatchSystem() = default;
  // Whether this is a running job of this user. An error: it cannot be asked now.
  virtual Result<bool> owns(UserId user, ApplicationId job) = 0;
};

// The job in whose cgroup a client on this machine runs; nothing: in none. An error: it cannot be found out, and the
// client is refused.
using LocalJob = Result<std::optional<ApplicationId>>;

// What a client says about its job in its Hello.
struct JobClaim {
  ApplicationId application = 0;
  bool numbered = false;  // the number is a job's; else the client made one, and states nothing
};

// Decides under which job number a connection is counted:
// - Users that may act for others (root, the node's own user, holders of the cluster key) and users of nodes without
//   a check: the number of each request, as the client states it.
// - The kernel says in which job's cgroup the client runs: that job. A client that states another one is refused.
// - Else, if there is a batch system: the job that the client states, if the batch system says that it is the user's; a
//   client that states a job of another user, or one that does not run, is refused. Without a job, or if the batch
//   system does not answer, 0: all that a user does outside of proven jobs counts as one job.
//
// The batch system is asked once per user and job; the answer is kept for a while. After a failure it is not asked
// for a while, and after many refused numbers of one user this user is refused without asking. Fixed memory.
// Thread-safe.
class JobCheck {
 public:
  struct Options {
    std::shared_ptr<BatchSystem> batch{};                          // nullptr: only cgroups are checked
    UserId own_user = 0;                                           // that the node runs as
    std::function<LocalJob(int socket, UserId user)> local_job{};  // as job_of_peer(); empty: nothing is known
    std::function<TimePoint()> now{};                              // a monotonic clock
    std::function<void(const std::string&)> warn = {};             // the batch system does not answer
    Duration keep = std::chrono::hours(1);                         // a positive answer
    Duration keep_negative = std::chrono::seconds(10);             // a negative answer, or that there was none
    std::size_t most_refusals = 16;                                // wrong numbers per user and minute
    std::size_t most_answers = 4096;                               // in memory
  };
  explicit JobCheck(Options options) : options_(std::move(options)) {}

  std::string_view kind() const { return options_.batch ? "slurm" : "cgroup"; }  // as in make_job_check()

  // As in Options. Nothing for users that are not checked. Does not block.
  LocalJob local_job(int socket, UserId user) const;
  // True: bind() may have to ask the batch system, which may block.
  bool may_ask(UserId user, const LocalJob& local_job) const;
  // Nothing: the number of each request counts. kDenied: the claim is wrong; the message says what to do.
  // `local_job`: from local_job().
  Result<std::optional<ApplicationId>> bind(const Peer& peer, const JobClaim& claim, const LocalJob& local_job);

  // Whether a client that bind() accepted is known to state only its own jobs: its number is bound, or its user is root
  // or the node's own, who could change the policy instead. (With a cluster key, clients state the user, too.)
  bool proves(const Peer& peer) const;

 private:
  struct Answer {
    bool yes = false;
    TimePoint until{};
  };
  struct Refusals {
    std::size_t count = 0;
    TimePoint until{};
  };
  using Key = std::pair<UserId, ApplicationId>;
  enum class Owner { kThisUser, kOther, kNotKnown };  // of a job

  bool checks(UserId user) const { return user != 0 && user != options_.own_user; }
  std::optional<Owner> known(const Key& key) TUTTI_REQUIRES(mutex_);
  void remember(const Key& key, bool yes) TUTTI_REQUIRES(mutex_);
  bool over_refusals(UserId user) TUTTI_REQUIRES(mutex_);
  Owner ask(const Key& key);

  const Options options_;
  Mutex asking_;  // held while the batch system is asked: one question at a time. Before `mutex_`
  Mutex mutex_;   // guards the rest
  std::map<Key, Answer> answers_ TUTTI_GUARDED_BY(mutex_);
  std::map<UserId, Refusals> refusals_ TUTTI_GUARDED_BY(mutex_);
  TimePoint silent_until_ TUTTI_GUARDED_BY(mutex_){};  // the batch system did not answer
};

// The job in the text of /proc/PID/cgroup of a process of this user: "/slurm*/uid_N/job_N/..." of version 1, or
// "/system.slice/*slurmstepd.scope/job_N/..." of version 2. Only the batch system can create these; a directory named
// job_N elsewhere may be the user's own and counts as nothing.
std::optional<ApplicationId> job_of_cgroup(std::string_view text, UserId user);

// The job in whose cgroup the process runs that has connected this Unix socket. kDenied: the process has ended. A
// client could otherwise leave its job by a child process that connects for it and ends.
LocalJob job_of_peer(int socket, UserId user);

// Runs `command JOB`, which prints the ids of the users of the job, one per line; nothing if it does not run. It is
// killed after `timeout`. No shell: words are separated by spaces.
std::shared_ptr<BatchSystem> make_batch_command(const std::string& command, Duration timeout);
inline constexpr std::string_view kSlurmCommand = "squeue --noheader --format=%U --jobs";

// The check of a server of this process. `kind`: "cgroup" checks processes on this machine only, "slurm" asks the batch
// system, too; kInvalid: it is neither. `command`: for make_batch_command(); empty: kSlurmCommand.
Result<std::shared_ptr<JobCheck>> make_job_check(std::string_view kind, const std::string& command,
                                                 std::function<void(const std::string&)> warn);

}  // namespace tutti::net

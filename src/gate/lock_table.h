// SPDX-License-Identifier: Apache-2.0
// The gate's lock table: who holds which targets, who waits, who goes next.
//
// A state machine with no threads, no clock and no I/O: time comes in as an argument, answers go out through
// answers(). The daemon (gate/server.h) and the simulator drive the same code. Not thread-safe.
//
// Each target is one lock, as each file server is in the thesis (section 3.2.1): idle, or active while somebody holds
// it. A request names a set of targets and gets them all or waits. A session has one request at a time, named by its
// ticket. What the thesis draws as the error state is an answer here (kRefused): it changes nothing for anybody.
//
// Invariants: a target has at most one holder per group (Placement::group; one group but for `set10` with shared
// bandwidth); a request that waits is blocked, by a holder or by a reservation of its group, unless the table is
// recovering.
//
// Leases: a holder that has not renewed for Options::lease loses the lock (kLost), as does one that disconnects.
//
// Restart: a table made with `recover_until` grants nothing before that time, so that those who held or waited under
// the table's predecessor can re-assert. Holders are taken at their word if nobody else claims their targets; waiters
// get back the place that their arrival stamp gives them.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gate/discipline.h"
#include "gate/targets.h"

namespace tutti::gate {

using SessionId = std::uint64_t;  // one client of the gate, for as long as it lives
using Ticket = std::uint64_t;     // chosen by the client, one per request, so that late answers match nothing else

struct Ask {
  Ticket ticket = 0;
  std::string job;    // what the job is called from run to run; its history is kept under it
  TargetSet targets;  // not empty
  Bytes bytes{};      // announced size of the phase; 0: unknown
};

// Why a message was refused. Nothing has changed by it.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kSecondRequest = 1,  // the session waits or holds already
  kNotHeld = 2,        // release or renewal without a lock
  kExpired = 3,        // the lease ran out before
  kConflict = 4,       // re-asserted targets that somebody else holds
  kFull = 5,           // too many wait
  kTargets = 6,        // a target that the gate does not have (found before the table is asked)
  kProtocol = 7,       // a malformed or unexpected message (found before the table is asked)
};
const char* explain(Refusal refusal);

struct Answer {
  enum class Kind : std::uint8_t {
    kQueued,   // waits; `arrived` is the stamp that keeps the place over a restart of the gate
    kGranted,  // holds, for one lease from now on unless renewed
    kRenewed,  // holds for another lease, or still waits
    kLost,     // held, and the lease has run out
    kRefused,  // see `refusal`
  };
  SessionId session = 0;
  Ticket ticket = 0;
  Kind kind = Kind::kRefused;
  TimePoint arrived{};
  std::uint32_t group = 0;  // kGranted: to be given back when re-asserting
  Refusal refusal = Refusal::kNone;
};

class LockTable {
 public:
  struct Options {
    std::uint32_t targets = 1;
    Duration lease = std::chrono::seconds(10);
    std::string discipline = "fifo";
    OptionTexts discipline_options{};
    std::size_t max_waiting = 100'000;  // requests past it are refused (kFull)
    std::size_t max_jobs = 65'536;      // histories kept of jobs that have no session; one long unused goes
    std::optional<TimePoint> recover_until{};
  };

  // What is remembered of a job from phase to phase.
  struct JobHistory {
    const std::string* job = nullptr;
    std::optional<Duration> period;
    std::uint32_t periods = 0;  // samples in `period`
    std::optional<Duration> hold;
    TimePoint ended{};
    std::uint32_t sessions = 0;  // that name this job
    bool used = true;            // since evict_one() came by
  };

  struct Entry {
    enum class State : std::uint8_t { kIdle, kWaiting, kHolding, kLost };
    SessionId session = 0;
    Ask ask;
    State state = State::kIdle;
    JobHistory* history = nullptr;  // of ask.job
    Placement place{};
    bool overdue = false;
    TimePoint arrived{};
    std::uint64_t sequence = 0;             // among equal arrivals
    TimePoint granted{};                    // kHolding
    TimePoint deadline = TimePoint::max();  // kHolding: end of the lease; kWaiting: becomes overdue
  };

  struct Counts {
    std::uint64_t requests = 0;
    std::uint64_t grants = 0;
    std::uint64_t releases = 0;
    std::uint64_t withdrawn = 0;     // stopped waiting of its own accord
    std::uint64_t disconnected = 0;  // while holding or waiting
    std::uint64_t expired = 0;
    std::uint64_t refused = 0;
    std::uint64_t reasserted = 0;
    Duration waited{};  // over all grants
    Duration longest_wait{};
  };

  // kNotFound, kInvalid: discipline or options.
  static Result<LockTable> create(Options options);

  // REQ: granted at once or queued.
  void request(SessionId session, Ask ask, TimePoint now);
  // REL by a holder; by a waiter: it does not want to wait any longer.
  void release(SessionId session, Ticket ticket, TimePoint now);
  // By a holder: another lease. By a waiter: is the gate there?
  void renew(SessionId session, Ticket ticket, TimePoint now);
  // After the gate was restarted or the connection lost. `arrived` and `group` as they were answered.
  void reassert_waiting(SessionId session, Ask ask, TimePoint arrived, TimePoint now);
  void reassert_holding(SessionId session, Ask ask, std::uint32_t group, TimePoint now);
  // The session is gone for good; no answer.
  void disconnect(SessionId session, TimePoint now);

  // Lets time pass: leases run out, waiters become overdue, recovery ends.
  void advance(TimePoint now);
  // When advance() is due next.
  std::optional<TimePoint> next_deadline() const;

  // What to send, in this order; cleared by clear_answers().
  std::span<const Answer> answers() const { return answers_; }
  void clear_answers() { answers_.clear(); }

  const Options& options() const { return options_; }
  const Counts& counts() const { return counts_; }
  bool recovering() const { return recovering_; }
  std::size_t waiting() const { return waiting_; }
  std::size_t holding() const { return holding_; }
  std::vector<const Entry*> holders() const;  // by time of the grant
  std::vector<const Entry*> queue() const;    // in the order they would go, group by group

 private:
  struct Before {
    bool operator()(const Entry* a, const Entry* b) const;
  };
  struct Group {
    explicit Group(std::uint32_t targets) : held(targets), wanted(targets), waiting_for(targets) {}
    std::set<Entry*, Before>::iterator remove(std::set<Entry*, Before>::iterator at);
    void add(Entry& entry);

    std::set<Entry*, Before> waiting;
    TargetSet held;
    TargetSet wanted;                        // by anybody who waits
    std::vector<std::uint32_t> waiting_for;  // how many wait, by target
  };

  LockTable(Options options, std::unique_ptr<Discipline> discipline);

  void move_to(TimePoint now) { now_ = std::max(now_, now); }
  Entry* find(SessionId session, Ticket ticket);
  bool busy(SessionId session) const;  // waits or holds
  static bool busy(const Entry& entry);
  Entry& entry_for(SessionId session, Ask ask, TimePoint arrived);
  void enqueue(SessionId session, Ask ask, TimePoint arrived);
  void hold(Entry& entry);
  void grant(Entry& entry, Group& group);
  void dispatch(std::uint32_t group, const TargetSet& freed);
  void dispatch_all();
  void leave(Entry& entry, Entry::State becomes);  // takes it out of its group and dispatches; the entry stays
  void set_deadline(Entry& entry, TimePoint deadline);
  void expire(Entry& entry);
  void become_overdue(Entry& entry);
  Group& group(std::uint32_t number);
  void answer(const Entry& entry, Answer::Kind kind);
  void refuse(SessionId session, Ticket ticket, Refusal refusal);
  History learn_period(JobHistory& past);
  void learn_hold(const Entry& entry);
  JobHistory& history_of(const std::string& job);
  void evict_one();

  Options options_;
  std::unique_ptr<Discipline> discipline_;
  TimePoint now_ = TimePoint::min();  // time never runs backwards in here
  bool recovering_;
  std::unordered_map<SessionId, Entry> sessions_;
  std::map<std::uint32_t, Group> groups_;
  std::set<std::pair<TimePoint, SessionId>> deadlines_;
  std::unordered_map<std::string, JobHistory> histories_;  // by job
  std::deque<JobHistory*> round_;                          // each once; evict_one() goes round
  double rate_bytes_ = 0, rate_seconds_ = 0;               // sums over past phases, fading
  double period_logarithms_ = 0, periods_ = 0;             // of all jobs, fading
  std::uint64_t next_sequence_ = 0;
  std::size_t waiting_ = 0, holding_ = 0;
  Counts counts_;
  std::vector<Answer> answers_;
};

}  // namespace tutti::gate

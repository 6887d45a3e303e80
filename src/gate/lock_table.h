// SPDX-License-Identifier: Apache-2.0
// The gate's lock table: which jobs hold which targets, which jobs wait, and in which order.
//
// A state machine without threads, clock or I/O: time is an argument, and answers are read with answers(). The service
// (gate/service.h) and the simulator use the same code. Not thread-safe.
//
// Each target is one lock, as each file server in the thesis (section 3.2.1): idle, or active while a job holds it. A
// turn has a set of targets; it gets all of them at once, or waits. A session (one process) is part of one turn at a
// time, identified by its ticket. The error state of the thesis is an answer here (kRefused), which changes nothing.
//
// Jobs with several processes: the first process that asks creates the turn. Other processes of the same job (JobId)
// that ask for targets of that turn join it. They wait and are granted together. The turn ends when the last of them
// has released it, disconnected or lost its lease. A held turn can be joined for one lease after the grant. After that
// it can only be joined while no other request waits for its targets, so a job cannot extend its turn forever.
//
// Invariants:
//  - A target has at most one holding turn per group (Placement::group). There is one group, except in `set10` with
//    shared bandwidth.
//  - A waiting turn is blocked by a holder or by a reservation in its group, unless the table is recovering.
//  - Every turn has at least one session.
//
// Leases: each session renews its own lease. A session that has not renewed for Options::lease leaves the turn (kLost).
//
// Restart: a table created with `recover_until` grants nothing before that time, so that sessions that held or waited
// at the previous gate can re-assert. A holder is accepted if no other job claims its targets. A waiter gets the
// position of its arrival stamp. Sessions of one job with the same stamp form one turn again.
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
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gate/discipline.h"
#include "gate/targets.h"

namespace tutti::gate {

using SessionId = std::uint64_t;  // one process at the gate
using Ticket = std::uint64_t;     // chosen by the client, one per request, to recognise late answers

// Processes of one user with the same number are one job. Number 0: the process is a job of its own.
struct JobId {
  std::uint32_t user = 0;
  std::uint64_t number = 0;
  friend bool operator==(const JobId&, const JobId&) = default;
};

struct Ask {
  Ticket ticket = 0;
  JobId id{};
  std::string job;    // job name, the same in every run; key of the job's history
  TargetSet targets;  // not empty
  Bytes bytes{};      // announced size of the phase; 0: unknown
};

// Why a message was refused. A refused message changes nothing.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kSecondRequest = 1,  // the session already waits or holds
  kNotHeld = 2,        // release or renewal without a turn
  kExpired = 3,        // the lease has expired
  kConflict = 4,       // re-asserted targets that another job holds
  kFull = 5,           // too many waiting requests, of all jobs or of this one
};
const char* explain(Refusal refusal);

enum class AnswerKind : std::uint8_t {
  kQueued,   // waits; `arrived` keeps its position over a restart of the gate
  kGranted,  // holds for one lease, unless renewed
  kRenewed,  // holds for another lease
  kLost,     // the lease has expired
  kRefused,  // see `refusal`
};

struct Answer {
  SessionId session = 0;
  Ticket ticket = 0;
  AnswerKind kind = AnswerKind::kRefused;
  TimePoint arrived{};
  std::uint32_t group = 0;  // kGranted: the client sends it back to re-assert
  Refusal refusal = Refusal::kNone;
};

class LockTable {
 public:
  struct Turn;
  // Is called with what happens to turns, in order of time. It must not call the table.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void asked(const Turn& turn, TimePoint now) = 0;
    virtual void granted(const Turn& turn, TimePoint now) = 0;
    virtual void ended(const Turn& turn, TimePoint now) = 0;  // by the last process; turn.holding: it was granted
  };

  // Of a job at an earlier gate: it asked for a turn or, with `held`, its turn ended.
  struct PastEvent {
    std::uint32_t user = 0;
    std::string job{};
    TimePoint time{};
    std::optional<Duration> held{};
    Bytes announced{};  // with `held`; 0: unknown size
  };

  struct Options {
    std::uint32_t targets = 1;
    Duration lease = std::chrono::seconds(10);
    std::string discipline = "fifo";
    OptionTexts discipline_options{};
    std::size_t max_waiting = 100'000;   // turns; further requests are refused (kFull)
    std::size_t max_turns_per_job = 64;  // for targets that its other turns do not cover; then kFull
    std::size_t max_jobs = 65'536;       // histories of jobs without a session; then old ones are dropped
    std::optional<TimePoint> recover_until{};
    std::shared_ptr<Observer> observer{};  // may be empty
    std::vector<PastEvent> past{};         // in order of time: jobs have a history from the start
  };

  // Measurements of a job, kept between its phases.
  struct JobHistory {
    std::uint32_t user = 0;
    std::string job;
    std::optional<Duration> period;
    std::uint32_t periods = 0;              // samples in `period`
    std::optional<Duration> hold;           // of the last turn
    std::optional<Duration> expected_hold;  // of the next one
    std::optional<TimePoint> ended;         // nothing: at an earlier gate
    std::uint32_t uses = 0;                 // number of turns and sessions that refer to it
    bool used = true;                       // since evict_one() last checked it
  };

  // The state of one session.
  struct SessionEntry {
    enum class State : std::uint8_t { kIdle, kWaiting, kHolding, kLost };
    SessionId id = 0;
    Ticket ticket = 0;
    State state = State::kIdle;
    Turn* turn = nullptr;                   // kWaiting, kHolding
    TimePoint deadline = TimePoint::max();  // kHolding: end of the lease
    JobHistory* history = nullptr;          // of the last turn that it created
  };

  // One request of a job.
  struct Turn {
    Ask ask;  // of the process that created the turn
    bool holding = false;
    JobHistory* history = nullptr;  // of ask.job
    Placement placement{};
    bool overdue = false;
    TimePoint arrived{};
    std::uint64_t sequence = 0;  // order of creation
    TimePoint granted{};         // holding
    std::vector<SessionEntry*> sessions{};
    double distance = 0;  // waiting: placement.start minus that of the turn before it in its queue
  };

  struct TurnCounts {
    std::uint64_t requests = 0;
    std::uint64_t grants = 0;  // of turns
    std::uint64_t joined = 0;  // sessions that joined a turn
    std::uint64_t releases = 0;
    std::uint64_t withdrawn = 0;     // released while waiting
    std::uint64_t disconnected = 0;  // while holding or waiting
    std::uint64_t expired = 0;
    std::uint64_t refused = 0;
    std::uint64_t reasserted = 0;
    Duration waited{};  // sum over all grants
    Duration longest_wait{};
  };

  // kNotFound, kInvalid: discipline or options.
  static Result<LockTable> create(Options options);

  // REQ of the thesis. Granted at once, queued, or joined to a turn of the same job.
  void request(SessionId session, Ask ask, TimePoint now);
  // REL of the thesis. A holder ends its turn; a waiter withdraws its request.
  void release(SessionId session, Ticket ticket, TimePoint now);
  // A holder gets another lease. A waiter gets an answer, which shows that the gate is alive.
  void renew(SessionId session, Ticket ticket, TimePoint now);
  // After a restart of the gate or a lost connection, the client repeats what the gate answered earlier.
  struct EarlierAnswer {
    TimePoint arrived{};
    std::uint32_t group = 0;
  };
  void reassert_waiting(SessionId session, Ask ask, EarlierAnswer earlier, TimePoint now);
  void reassert_holding(SessionId session, Ask ask, EarlierAnswer earlier, TimePoint now);
  bool holds(SessionId session) const;
  // The session has ended. No answer.
  void disconnect(SessionId session, TimePoint now);

  // Moves time: leases expire, waiters become overdue, recovery ends.
  void advance(TimePoint now);
  // When to call advance() next; empty: not needed.
  std::optional<TimePoint> next_deadline() const;

  // Answers to send, in this order, since the last clear_answers().
  std::span<const Answer> answers() const { return answers_; }
  void clear_answers() { answers_.clear(); }

  const Options& options() const { return options_; }
  const TurnCounts& counts() const { return counts_; }
  bool recovering() const { return recovering_; }
  std::size_t waiting() const { return waiting_; }  // turns
  std::size_t holding() const { return holding_; }  // turns
  std::vector<const Turn*> holders() const;         // by time of the grant
  std::vector<const Turn*> queue() const;           // in the order of service, group by group

 private:
  struct ServedBefore {  // of two turns of one queue
    bool operator()(const Turn* a, const Turn* b) const;
  };
  struct TurnQueue {
    std::set<Turn*, ServedBefore> turns;
    double last_start = 0;  // of the last turn
  };
  struct TurnGroup {
    explicit TurnGroup(std::uint32_t targets) : held(targets), wanted(targets), waiting_for(targets) {}
    void add(Turn& turn);
    void remove(Turn& turn);
    void want(const TargetSet& targets);
    // Adds to the starts of the turns behind one that was removed.
    void delay(Turn& removed, double by);

    std::map<std::uint32_t, TurnQueue> queues;  // of waiting turns
    TargetSet held;
    TargetSet wanted;                        // targets of waiting turns
    std::vector<std::uint32_t> waiting_for;  // by target: number of waiting turns
  };
  // Visits the waiting turns of a group in the order of service. The last visited one may be removed meanwhile.
  class ServiceOrder {
   public:
    explicit ServiceOrder(const TurnGroup& group);
    Turn* next();                            // nullptr: no more
    double start() const { return start_; }  // of the last visited turn

   private:
    struct Front {
      std::set<Turn*, ServedBefore>::const_iterator at, end;
      double start;
    };
    std::vector<Front> fronts_;  // of the queues that have more turns
    double start_ = 0;
  };
  struct JobHash {
    std::size_t operator()(const JobId& id) const {
      return std::hash<std::uint64_t>{}(id.number * 0x9e3779b97f4a7c15 ^ id.user);
    }
  };
  // User and job name: each user has separate histories.
  using HistoryKey = std::pair<std::uint32_t, std::string_view>;
  struct HistoryHash {
    std::size_t operator()(const HistoryKey& key) const {
      return std::hash<std::string_view>{}(key.second) ^ (std::size_t{key.first} << 32);
    }
  };

  LockTable(Options options, std::unique_ptr<Discipline> discipline);

  void move_to(TimePoint now) { now_ = std::max(now_, now); }
  SessionEntry* find(SessionId session, Ticket ticket);
  bool busy(SessionId session) const;  // waits or holds
  Turn& make_turn(SessionId session, Ask ask, TimePoint arrived);
  void enqueue(SessionId session, Ask ask, TimePoint arrived);
  Turn* joinable(const Ask& ask);
  template <typename Fits>
  Turn* find_turn(const JobId& id, Fits fits);
  void join(SessionId session, Ticket ticket, Turn& turn);
  void hold(SessionEntry& session);
  void grant(Turn& turn, TurnGroup& group);
  void dispatch(std::uint32_t group, const TargetSet& freed);
  void dispatch_all();
  void leave(SessionEntry& session, SessionEntry::State becomes);
  void end(Turn& turn);  // removes it from its group and dispatches
  void set_deadline(SessionEntry& session, TimePoint deadline);
  void set_overdue_at(Turn& turn, bool set);
  void expire(SessionEntry& session);
  void become_overdue(Turn& turn);
  TurnGroup& group(std::uint32_t number);
  void answer(const SessionEntry& session, const Turn& turn, AnswerKind kind);
  void refuse(SessionId session, Ticket ticket, Refusal refusal);
  struct EndedTurn {
    Duration held{};
    TimePoint ended{};
  };
  Measurements learn_period(JobHistory& history, TimePoint asked);
  void learn_hold(JobHistory& history, Bytes announced, const EndedTurn& turn);
  void learn(const std::vector<PastEvent>& past);
  JobHistory& history_of(SessionEntry& session, const Ask& ask);
  JobHistory& add_history(std::uint32_t user, const std::string& job);
  void evict_one();

  Options options_;
  std::unique_ptr<Discipline> discipline_;
  TimePoint now_ = TimePoint::min();  // never decreases
  bool recovering_;
  std::unordered_map<SessionId, SessionEntry> sessions_;
  std::deque<Turn> turns_;  // used and unused; unused ones keep their memory for the next request
  std::vector<Turn*> unused_;
  std::unordered_multimap<JobId, Turn*, JobHash> jobs_;  // turns of jobs that have a number
  std::map<std::uint32_t, TurnGroup> groups_;
  std::set<std::pair<TimePoint, SessionId>> leases_;                 // end of each lease
  std::map<std::pair<TimePoint, std::uint64_t>, Turn*> overdue_at_;  // by time and the turn's sequence
  std::unordered_map<HistoryKey, std::unique_ptr<JobHistory>, HistoryHash> histories_;
  std::deque<JobHistory*> round_;               // all histories, in the order in which evict_one() checks them
  std::deque<double> rates_;                    // of the last phases with an announced size
  double typical_rate_ = 1e9;                   // their median
  double period_logarithms_ = 0, periods_ = 0;  // of all jobs, with decreasing weight
  std::uint64_t next_sequence_ = 0;
  std::size_t waiting_ = 0, holding_ = 0;
  TurnCounts counts_;
  std::vector<Answer> answers_;
};

}  // namespace tutti::gate

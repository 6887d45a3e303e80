// SPDX-License-Identifier: Apache-2.0
// Disciplines with jobs in virtual time: wrong announcements, turns that expire and requests that are given up.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "gate/lock_table.h"

namespace tutti::gate {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Bytes kHuge{std::numeric_limits<std::uint64_t>::max()};

// A job computes, asks for its turn, holds it, and starts again.
struct Job {
  Duration compute{}, hold{};
  std::vector<TargetId> targets{0};
  std::optional<Bytes> announced{};       // else what it will write, at 1 GB/s
  Duration patience = Duration::max();    // then it gives its request up and goes on without a turn
  std::function<void(Job&)> before = {};  // is called before each of its requests

  unsigned requests = 0, turns = 0;
  Duration longest_wait{};
  Ticket ticket = 0;
  TimePoint asked{};
  enum class State { kComputes, kWaits, kHolds } state = State::kComputes;
};

class Workload {
 public:
  explicit Workload(LockTable::Options options) : table_(std::move(*LockTable::create(std::move(options)))) {}

  Job& add(Job job, Duration start) {
    Job& added = *jobs_.emplace_back(std::make_unique<Job>(std::move(job)));
    at(now_ + start, [this, id = jobs_.size() - 1] { ask(id); });
    return added;
  }

  void run(Duration time) {
    const TimePoint end = now_ + time;
    while (!events_.empty()) {
      const TimePoint next = std::min(events_.begin()->first.first, table_.next_deadline().value_or(TimePoint::max()));
      if (next > end) break;
      table_.advance(now_ = next);
      receive();
      if (events_.empty() || events_.begin()->first.first > now_) continue;
      events_.extract(events_.begin()).mapped()();
      receive();
    }
    now_ = end;
    for (auto& job : jobs_)
      if (job->state == Job::State::kWaits) job->longest_wait = std::max(job->longest_wait, now_ - job->asked);
  }

 private:
  void at(TimePoint time, std::function<void()> event) { events_.emplace(std::pair(time, next_event_++), event); }

  void ask(std::size_t id) {
    Job& job = *jobs_[id];
    ++job.requests;
    if (job.before) job.before(job);
    job.ticket = ++next_ticket_;
    job.asked = now_;
    job.state = Job::State::kWaits;
    const Bytes size(static_cast<std::uint64_t>(job.hold.count()));
    table_.request(id,
                   {.ticket = job.ticket,
                    .job = "job" + std::to_string(id),
                    .targets = TargetSet::of(table_.options().targets, job.targets),
                    .bytes = job.announced.value_or(size)},
                   now_);
    if (job.patience == Duration::max()) return;
    at(now_ + job.patience, [this, id, ticket = job.ticket] {
      Job& late = *jobs_[id];
      if (late.ticket != ticket || late.state != Job::State::kWaits) return;
      late.longest_wait = std::max(late.longest_wait, late.patience);
      table_.release(id, ticket, now_);
      compute(id);
    });
  }

  void compute(std::size_t id) {
    jobs_[id]->state = Job::State::kComputes;
    at(now_ + jobs_[id]->compute, [this, id] { ask(id); });
  }

  void receive() {
    const std::vector<Answer> answers(table_.answers().begin(), table_.answers().end());
    table_.clear_answers();
    for (const Answer& answer : answers) {
      Job& job = *jobs_[answer.session];
      if (answer.kind == AnswerKind::kLost) compute(answer.session);
      if (answer.kind != AnswerKind::kGranted) continue;
      job.state = Job::State::kHolds;
      ++job.turns;
      job.longest_wait = std::max(job.longest_wait, now_ - job.asked);
      if (job.hold > table_.options().lease) continue;  // hangs
      at(now_ + job.hold, [this, id = answer.session, ticket = answer.ticket] {
        table_.release(id, ticket, now_);
        compute(id);
      });
    }
  }

  TimePoint now_{hours(1)};
  LockTable table_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t next_event_ = 0;
  Ticket next_ticket_ = 0;
};

// Phases of short jobs have a period of about 10 s, those of long ones about 100 s. Six short jobs keep the gate busy.
const Job kShort{.compute = seconds(10), .hold = seconds(5)};
const Job kLong{.compute = seconds(100), .hold = seconds(5)};

void add_short_jobs(Workload& workload) {
  for (int i = 0; i < 6; ++i) workload.add(kShort, seconds(5 * i));
}

struct Measured {
  unsigned turns = 0;
  Duration longest_wait{};
};
Measured sum(const std::vector<Job*>& jobs) {
  Measured result;
  for (const Job* job : jobs) {
    result.turns += job->turns;
    result.longest_wait = std::max(result.longest_wait, job->longest_wait);
  }
  return result;
}

// Four long jobs and a fifth one, which behaves differently in its third phase.
Measured with_third_phase(const std::function<void(Job&)>& change) {
  Workload workload({.discipline = "set10"});
  add_short_jobs(workload);
  std::vector<Job*> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(&workload.add(kLong, seconds(20 * i)));
  Job other = kLong;
  other.before = [&](Job& job) {
    job.hold = kLong.hold;
    job.patience = kLong.patience;
    job.announced.reset();
    if (job.requests == 3) change(job);
  };
  workload.add(other, seconds(90));
  workload.run(hours(2));
  return sum(jobs);
}

TEST(Set10, OneWrongAnnouncementDoesNotStarveItsClass) {
  const Measured honest = with_third_phase([](Job&) {});
  const auto expect_nearly_the_same = [&](const char* what, const std::function<void(Job&)>& change) {
    SCOPED_TRACE(what);
    const Measured wrong = with_third_phase(change);
    EXPECT_LE(std::chrono::duration_cast<seconds>(wrong.longest_wait).count(),
              std::chrono::duration_cast<seconds>(2 * honest.longest_wait).count());
    EXPECT_GE(wrong.turns, honest.turns * 9 / 10);
  };
  expect_nearly_the_same("huge size", [](Job& job) { job.announced = kHuge; });
  expect_nearly_the_same("one byte", [](Job& job) { job.announced = Bytes(1); });
  expect_nearly_the_same("huge size, given up", [](Job& job) {
    job.announced = kHuge;
    job.patience = seconds(1);
  });
  expect_nearly_the_same("huge size, and the lease expires", [](Job& job) {
    job.announced = kHuge;
    job.hold = hours(1);
  });
}

// More long jobs than there is time for: most of their requests are given up. They still get their share, an eleventh.
TEST(Set10, RequestsThatAreGivenUpDoNotCount) {
  Workload workload({.discipline = "set10"});
  add_short_jobs(workload);
  std::vector<Job*> jobs;
  Job job = kLong;
  job.hold = seconds(9);
  job.patience = seconds(600);
  for (int i = 0; i < 30; ++i) jobs.push_back(&workload.add(job, seconds(3 * i)));
  workload.run(hours(1));
  const unsigned before = sum(jobs).turns;
  workload.run(hours(4));
  EXPECT_NEAR((sum(jobs).turns - before) * 9.0, 4 * 3600 / 11.0, 4 * 3600 / 110.0);
}

// Target 0 is used by short jobs and one long job, the other targets by many long jobs.
TEST(Set10, UseOfOtherTargetsStarvesNoJob) {
  Workload workload({.targets = 8, .discipline = "set10"});
  add_short_jobs(workload);
  Job* const job = &workload.add(kLong, seconds(0));
  for (TargetId target = 1; target < 8; ++target)
    for (int i = 0; i < 30; ++i) {
      Job other = kLong;
      other.targets = {target};
      workload.add(other, seconds(3 * i));
    }
  workload.run(hours(2));
  EXPECT_LE(job->longest_wait, seconds(300));
}

}  // namespace
}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// What applications have been served recently, so that a client gains nothing by cutting a phase into small ones.
#pragma once

#include <tutti/sched.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "sched/phase_queue.h"
#include "sched/pool.h"

namespace tutti {

// Counts the bytes that this server has served to each application. What is not forgiven when a phase begins counts as
// a part of that phase. Forgiven are:
//
// - Two fifths of an equal share: when a byte is served while n accounts have waiting requests, 2 / (5 * n) bytes of
// each
//   account. So a job with small phases and short pauses is charged only for what it gets beyond that.
// - As many bytes as the server could serve while the account had no waiting requests, except the first kGrace bytes of
//   each such pause: requests that follow each other are no pause.
//
// Phases that follow each other at once therefore count as one, as far as they get more than that.
//
// An account is that of an application. Applications that are not proven (Request::job_proven) share one account per
// user, else a client could have a new account for each request.
//
// The first size that a phase states on this server is binding: a phase that states a larger one later is unreliable.
//
// Local history: servers that serve different parts of an application may differ. Not thread-safe.
class ServiceAccounts {
 public:
  enum class Of { kAuto, kJob, kUser };  // kAuto: jobs if proven, else users
  explicit ServiceAccounts(Of whose) : whose_(whose) {}

  using Number = std::uint32_t;  // of an account; valid while a request of it waits

  // Of an application with waiting requests: what counts as a part of its current phase.
  struct History {
    std::uint64_t before = 0;  // bytes served before the phase began, not forgiven
    bool reliable = true;      // the stated size has not grown
    TimePoint began;           // arrival of the first request of the phase here
  };

  // A request arrives. `empty`: none waited before it.
  Number arrived(const Request& request, TimePoint now, bool empty) {
    if (empty) resume(now);
    const Number number = open(request);
    Account& account = accounts_[number];
    const bool paused = account.waiting++ == 0;
    if (paused) {
      ++active_;
      forgive(account, pause_of(account));
    }
    if (begins_phase(account, request.stamp, paused)) begin_phase(account, request.stamp, now);
    if (std::min(request.stamp.phase_total.count(), kLargestSize) > account.binding) account.reliable = false;
    return number;
  }
  // A waiting request is served, or leaves without.
  void served(Number number, const Request& request, TimePoint now) {
    const auto bytes = static_cast<std::uint64_t>(cost(request));
    total_ += bytes;
    busy_bytes_ += bytes;
    part_ += static_cast<std::int64_t>(2 * bytes / (5 * active_));
    now_ = now;
    Account& account = accounts_[number];
    account.had =
        std::min(account.had, part_ + static_cast<std::int64_t>(kLargestSize)) + static_cast<std::int64_t>(bytes);
    left(account);
  }
  void cancelled(Number number) { left(accounts_[number]); }

  History of(Number number) const {
    const Account& account = accounts_[number];
    return {account.before, account.reliable, account.began};
  }
  std::size_t size() const { return accounts_.size(); }

  // Prefetches what arrived() and served() will need: first this object and the hint, then the account and its place in
  // the index.
  void expect() const { prefetch_bytes(this, sizeof(*this) - sizeof(hints_)); }
  void expect_hint(const Request& request) const { prefetch_line(&hint_of(key_of(request))); }
  void expect_account(const Request& request) const {
    const AccountKey key = key_of(request);
    expect_account(hint_of(key));
    accounts_.expect(key);
  }
  void expect_account(Number number) const {
    if (number < most_) prefetch_line(&accounts_[number]);
  }

 private:
  static constexpr std::uint64_t kGrace = 16 << 20;
  static constexpr std::size_t kKept = 4096;  // accounts before those that are forgiven are closed

  struct AccountKey {
    ApplicationId application = 0;
    UserId user = 0;
    bool operator==(const AccountKey&) const = default;
    friend std::size_t hash_value(const AccountKey& key) {
      return mix(std::uint64_t{key.user} << 32 | key.application);
    }
  };
  struct alignas(64) Account {  // one cache line
    AccountKey key;
    ApplicationId application = 0;  // of the current phase
    PhaseNumber phase = 0;
    std::uint32_t waiting = 0;  // requests
    bool in_phase = false;
    bool reliable = true;
    std::uint64_t binding = 0;  // the largest size that it may state
    std::int64_t had = 0;       // bytes served and not forgiven, plus part_
    std::uint64_t before = 0;   // as in History
    std::uint64_t paused = 0;   // total_ when its last request left
    TimePoint began;
    void reset() { *this = {}; }
  };
  static_assert(sizeof(Account) == 64);

  AccountKey key_of(const Request& request) const {
    const bool by_job = whose_ == Of::kJob || (whose_ == Of::kAuto && request.job_proven);
    return {by_job ? request.stamp.application : 0, request.stamp.user};
  }
  const std::uint32_t& hint_of(const AccountKey& key) const { return hints_[hash_value(key) % hints_.size()]; }

  std::uint32_t open(const Request& request) {
    const AccountKey key = key_of(request);
    std::uint32_t& hint = hints_[hash_value(key) % hints_.size()];
    if (hint < most_ && accounts_[hint].key == key && accounts_[hint].in_phase) return hint;
    if (accounts_.size() >= tidy_at_) close_forgiven();
    hint = accounts_.open(key);
    most_ = std::max(most_, hint + 1);
    return hint;
  }

  // Bytes that the server could have served while the account had nothing waiting.
  std::uint64_t pause_of(const Account& account) const {
    const std::uint64_t passed = total_ - account.paused;
    return passed > kGrace ? passed - kGrace : 0;
  }
  std::uint64_t charge_of(const Account& account) const {
    return static_cast<std::uint64_t>(
        std::clamp(account.had - part_, std::int64_t{0}, static_cast<std::int64_t>(kLargestSize)));
  }
  void forgive(Account& account, std::uint64_t bytes) {
    account.had -= static_cast<std::int64_t>(std::min(charge_of(account), bytes));
  }

  // A process that is late may still send requests of the phase before.
  static bool begins_phase(const Account& account, const Stamp& stamp, bool paused) {
    if (!account.in_phase || stamp.application != account.application) return true;
    return paused ? stamp.phase != account.phase : stamp.phase > account.phase;
  }

  void begin_phase(Account& account, const Stamp& stamp, TimePoint now) {
    account.application = stamp.application;
    account.phase = stamp.phase;
    account.in_phase = account.reliable = true;
    const std::uint64_t stated = std::min(stamp.phase_total.count(), kLargestSize);
    account.binding = stated + stated / 2;
    account.before = charge_of(account);
    account.had = part_ + static_cast<std::int64_t>(account.before);
    account.began = now;
  }

  void left(Account& account) {
    if (account.waiting > 0 && --account.waiting == 0) --active_;
    account.paused = total_;
  }

  // After an idle period: counts what could have been served in it, at the rate of the last busy period.
  void resume(TimePoint now) {
    const double busy = std::chrono::duration<double>(now_ - busy_since_).count();
    if (busy > 1e-3) rate_ = static_cast<double>(busy_bytes_) / busy;
    const double idle = std::chrono::duration<double>(now - now_).count();
    if (idle > 0) total_ += static_cast<std::uint64_t>(std::min(idle * rate_, 1e15));
    busy_since_ = now_ = now;
    busy_bytes_ = 0;
  }

  void close_forgiven() {
    for (const std::uint32_t number : accounts_.numbers()) {
      const Account& account = accounts_[number];
      if (account.waiting == 0 && charge_of(account) <= pause_of(account)) accounts_.close(number);
    }
    tidy_at_ = 2 * accounts_.size() + kKept;
  }

  const Of whose_;
  Pool<AccountKey, Account> accounts_;
  std::uint32_t most_ = 0;  // numbers of accounts are smaller
  std::size_t tidy_at_ = kKept;
  std::uint64_t total_ = 0;  // bytes served, and bytes that could have been served in idle periods
  std::uint64_t busy_bytes_ = 0;
  std::uint64_t active_ = 0;  // accounts with waiting requests
  std::int64_t part_ = 0;     // two fifths of an equal share of all bytes served
  TimePoint busy_since_{}, now_{};
  double rate_ = 1e8;                        // bytes per second
  std::array<std::uint32_t, 1024> hints_{};  // numbers of accounts, by hash
};

}  // namespace tutti

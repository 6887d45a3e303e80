// SPDX-License-Identifier: Apache-2.0
#include "base/live_world.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/print_error.h"

namespace tutti {
namespace {

// One thread sleeps on a kernel timer that is always set to the earliest time of all timers. CLOCK_BOOTTIME also counts
// the time in which the machine was suspended.
class TimerThread {
 public:
  struct Entry : std::enable_shared_from_this<Entry> {
    Task task;
    TimePoint when = TimePoint::max();
    bool running = false;
  };

  TimerThread() : kernel_timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) {
    if (kernel_timer_ < 0) {  // without timers no timeout would work
      print_error("tutti: cannot make a kernel timer: {}; raise the limit of open files\n", std::strerror(errno));
      std::abort();
    }
    std::thread([this] { run(); }).detach();
  }

  void set(Entry& entry, TimePoint when) {
    Lock lock(mutex_);
    if (entry.when == when) return;
    const TimePoint before = earliest();
    due_.erase({entry.when, &entry});
    entry.when = when;
    if (when != TimePoint::max()) due_.insert({when, &entry});
    if (earliest() < before) arm(earliest());
  }

  void remove(Entry& entry) {
    Lock lock(mutex_);
    due_.erase({entry.when, &entry});
    entry.when = TimePoint::max();
    if (std::this_thread::get_id() == thread_ && entry.running) {
      removed_ = &entry;  // by its own task: run() must not use it any more
      return;
    }
    finished_.wait(lock, [&] { return !entry.running; });
  }

 private:
  TimePoint earliest() const TUTTI_REQUIRES(mutex_) { return due_.empty() ? TimePoint::max() : due_.begin()->first; }

  void arm(TimePoint when) {
    const Duration since = std::max(when.time_since_epoch(), Duration(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    itimerspec setting{};
    setting.it_value = {.tv_sec = seconds.count(), .tv_nsec = (since - seconds).count()};
    ::timerfd_settime(kernel_timer_, TFD_TIMER_ABSTIME, &setting, nullptr);
  }

  void run() {
    {
      Lock lock(mutex_);
      thread_ = std::this_thread::get_id();
    }
    for (;;) {
      std::uint64_t expirations = 0;
      (void)!::read(kernel_timer_, &expirations, sizeof expirations);
      Lock lock(mutex_);
      const TimePoint now = real_clock().steady();
      while (!due_.empty() && due_.begin()->first <= now) run_first(lock);
      if (!due_.empty()) arm(earliest());
    }
  }

  void run_first(Lock& lock) TUTTI_REQUIRES(mutex_) TUTTI_UNCHECKED {  // unlocks for the task
    const auto keep = due_.begin()->second->shared_from_this();        // its task may destroy the timer
    Entry& entry = *keep;
    due_.erase(due_.begin());
    entry.when = TimePoint::max();
    entry.running = true;
    removed_ = nullptr;
    lock.unlock();
    entry.task();
    lock.lock();
    if (std::exchange(removed_, nullptr) == &entry) return;
    entry.running = false;
    finished_.notify_all();
  }

  const int kernel_timer_;
  Mutex mutex_;
  std::condition_variable finished_;
  std::thread::id thread_ TUTTI_GUARDED_BY(mutex_);
  std::set<std::pair<TimePoint, Entry*>> due_ TUTTI_GUARDED_BY(mutex_);
  Entry* removed_ TUTTI_GUARDED_BY(mutex_) = nullptr;
};

// Never destroyed, because its thread may still use it when the process exits. A child made by fork() does not have the
// parent's threads: it starts its own thread when needed, and timers that the parent had set never run in the child.
struct TimersOfProcess {
  std::once_flag once;
  std::atomic<TimerThread*> thread = nullptr;
};

std::atomic<TimersOfProcess*>& timers_of_process() {
  static std::atomic<TimersOfProcess*> current = [] {
    ::pthread_atfork(nullptr, nullptr, [] { timers_of_process() = new TimersOfProcess; });
    return new TimersOfProcess;
  }();
  return current;
}

TimerThread& timer_thread() {
  TimersOfProcess& timers = *timers_of_process().load();
  std::call_once(timers.once, [&] { timers.thread = new TimerThread; });
  return *timers.thread;
}

class LiveTimer final : public Timer {
 public:
  explicit LiveTimer(Task task) {
    entry_->task = std::move(task);
    timer_thread();  // if there can be no thread, here is the place to fail
  }
  ~LiveTimer() override {
    if (TimerThread* const thread = timers_of_process().load()->thread) thread->remove(*entry_);
  }
  void set(TimePoint when) override { timer_thread().set(*entry_, when); }

 private:
  const std::shared_ptr<TimerThread::Entry> entry_ = std::make_shared<TimerThread::Entry>();
};

class LiveWorld final : public World {
 public:
  Clock& clock() override { return real_clock(); }
  std::unique_ptr<Timer> make_timer(Task task) override { return std::make_unique<LiveTimer>(std::move(task)); }
  std::uint64_t random() override {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }
};

class LiveWorkers final : public Workers {
 public:
  explicit LiveWorkers(std::size_t threads) : most_per_owner_(threads) {}
  ~LiveWorkers() override { stop(); }

  void stop() override {
    std::vector<std::thread> threads;
    {
      Lock lock(mutex_);
      if (std::exchange(stopping_, true)) return;
      threads.swap(threads_);
    }
    changed_.notify_all();
    for (std::thread& thread : threads) thread.join();
    {
      Lock lock(mutex_);
      stopped_ = true;
    }
    run();  // tasks posted while the last thread ended
  }

  std::shared_ptr<Strand> make_strand(Owner owner) override {
    auto strand = std::make_shared<LiveStrand>();
    strand->owner = owner;
    return strand;
  }

  void post(const std::shared_ptr<Strand>& strand, Task task) override {
    auto live = std::static_pointer_cast<LiveStrand>(strand);
    {
      Lock lock(mutex_);
      if (stopped_) {
        lock.unlock();
        return task();
      }
      live->tasks.push_back(std::move(task));
      if (live->scheduled) return;
      live->scheduled = true;
      OwnerState& owner = owners_[live->owner];
      owner.ready.push_back(live);
      list(live->owner, owner);
    }
    changed_.notify_one();
  }

 private:
  struct LiveStrand final : Strand {
    Owner owner = kProcess;
    std::deque<Task> tasks;
    bool scheduled = false;  // in `ready` of its owner, or one of its tasks is running
  };
  // Exists while a strand of the owner is scheduled.
  struct OwnerState {
    std::deque<std::shared_ptr<LiveStrand>> ready;
    std::size_t running = 0;  // tasks
    bool listed = false;      // in turns_
  };

  // A thread may run a task of the owner, if it has one and not too many are running.
  void list(Owner number, OwnerState& owner) TUTTI_REQUIRES(mutex_) {
    if (owner.listed || owner.ready.empty() || owner.running >= most_per_owner_) return;
    owner.listed = true;
    turns_.push_back(number);
    if (turns_.size() > idle_ && !stopping_ && threads_.size() < kMostWorkerThreads) start_thread();
  }

  void start_thread() TUTTI_REQUIRES(mutex_) {
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // else the task waits for one of them
    }
  }

  void run() {
    Lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this]() TUTTI_REQUIRES(mutex_) { return stopping_ || !turns_.empty(); });
      --idle_;
      if (turns_.empty()) return;
      const Owner number = turns_.front();
      turns_.pop_front();
      run_task(lock, number);
    }
  }

  void run_task(Lock& lock, Owner number) TUTTI_REQUIRES(mutex_) TUTTI_UNCHECKED {  // unlocks for the task
    OwnerState& owner = owners_[number];
    const std::shared_ptr<LiveStrand> strand = std::move(owner.ready.front());
    owner.ready.pop_front();
    owner.listed = false;
    ++owner.running;
    list(number, owner);
    {
      const Task task = std::move(strand->tasks.front());
      strand->tasks.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
    --owner.running;
    strand->scheduled = !strand->tasks.empty();
    if (strand->scheduled) owner.ready.push_back(strand);
    list(number, owner);
    if (owner.ready.empty() && owner.running == 0) owners_.erase(number);
  }

  const std::size_t most_per_owner_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<Owner, OwnerState> owners_ TUTTI_GUARDED_BY(mutex_);
  std::deque<Owner> turns_ TUTTI_GUARDED_BY(mutex_);  // owners whose next task may run, each once
  std::size_t idle_ TUTTI_GUARDED_BY(mutex_) = 0;     // threads that wait for a task
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;  // no thread is left
  std::vector<std::thread> threads_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace

World& live_world() {
  static LiveWorld world;
  return world;
}

std::unique_ptr<Workers> make_live_workers(std::size_t threads) {
  return std::make_unique<LiveWorkers>(threads);
}

}  // namespace tutti

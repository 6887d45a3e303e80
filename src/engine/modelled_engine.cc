// SPDX-License-Identifier: Apache-2.0
// Engine `modelled`: the data goes to another engine at once, the answer comes when a device would have it.
#include <sys/prctl.h>

#include <cassert>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/prng.h"
#include "engine/device.h"
#include "engine/engine.h"

namespace tutti {
namespace {

constexpr std::uint64_t kBlock = 4096;  // files begin at a multiple of it

// The device keeps its own time: it starts its next request when the last one ended, however late our thread woke up.
class ModelledEngine final : public Engine, private CompletionSink {
 public:
  ModelledEngine(std::unique_ptr<Engine> inner, const ModelledOptions& options)
      : inner_(std::move(inner)), options_(options), device_(options.figures), timer_([this] { run(); }) {
    std::lock_guard lock(mutex_);
    device_.set_slowdown(options.slowdown);
  }

  ~ModelledEngine() override {
    {
      std::lock_guard lock(mutex_);
      assert(pending_.empty());
      stopping_ = true;
    }
    changed_.notify_one();
    timer_.join();
  }

  std::string name() const override { return "modelled " + inner_->name(); }
  bool takes_pages() const override { return inner_->takes_pages(); }

  void submit(std::span<Operation* const> operations) override {
    std::vector<Operation*> done;
    {
      std::lock_guard lock(mutex_);
      const TimePoint now = steady_now();
      drain(now, done);
      const auto before = device_.next_finish();
      for (Operation* operation : operations) enqueue(*operation, now);
      if (device_.next_finish() != before) changed_.notify_one();
    }
    inner_->submit(operations);
    deliver(done);
  }

 private:
  struct Pending {
    CompletionSink* sink = nullptr;
    bool device_done = false;
    bool data_done = false;
  };

  static TimePoint steady_now() {
    return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }

  void enqueue(Operation& operation, TimePoint now) {
    Pending& pending = pending_[&operation];
    pending = {operation.sink, false, false};
    operation.sink = this;
    const Bytes length(operation.length());
    if (operation.kind == Operation::Kind::kSync || length.count() == 0) {
      pending.device_done = true;  // the model's write cache holds what is written, and survives
      return;
    }
    const bool read = operation.kind == Operation::Kind::kRead;
    device_.add({.position = position(operation),
                 .length = length,
                 .direction = read ? Direction::kRead : Direction::kWrite,
                 .tag = reinterpret_cast<std::uint64_t>(&operation)},
                now);
  }

  // A data server keeps the stripes of a file that are its own one after another; files begin anywhere.
  std::uint64_t position(const Operation& operation) const {
    const std::uint64_t begin = Prng(options_.seed ^ operation.file->id()).below(options_.spread.count());
    const std::uint64_t stripe = options_.stripe_size.count();
    const std::uint64_t row = operation.offset / (stripe * options_.stripe_count);
    return begin / kBlock * kBlock + row * stripe + operation.offset % stripe;
  }

  // What the device has finished by `now`, and whose data is there too, goes to `done`.
  void drain(TimePoint now, std::vector<Operation*>& done) {
    while (const auto finish = device_.next_finish()) {
      if (*finish > now) return;
      const auto tag = device_.pop_finished(*finish);
      assert(tag);
      Operation* operation = reinterpret_cast<Operation*>(*tag);
      Pending& pending = pending_.at(operation);
      pending.device_done = true;
      if (pending.data_done) release(*operation, done);
    }
  }

  void release(Operation& operation, std::vector<Operation*>& done) {
    const auto entry = pending_.find(&operation);
    operation.sink = entry->second.sink;
    pending_.erase(entry);
    done.push_back(&operation);
  }

  void completed(std::span<Operation* const> operations) override {
    std::vector<Operation*> done;
    {
      std::lock_guard lock(mutex_);
      for (Operation* operation : operations) {
        Pending& pending = pending_.at(operation);
        pending.data_done = true;
        if (pending.device_done) release(*operation, done);
      }
    }
    deliver(done);
  }

  void run() {
    prctl(PR_SET_TIMERSLACK, 1);  // the default of 50 us would be most of a flash device's latency
    std::vector<Operation*> done;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      drain(steady_now(), done);
      if (!done.empty()) {
        lock.unlock();
        deliver(done);
        done.clear();
        lock.lock();
        continue;
      }
      if (const auto finish = device_.next_finish())
        changed_.wait_until(lock, std::chrono::steady_clock::time_point(finish->time_since_epoch()));
      else
        changed_.wait(lock);
    }
  }

  const std::unique_ptr<Engine> inner_;
  const ModelledOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Device device_;
  std::unordered_map<Operation*, Pending> pending_;
  bool stopping_ = false;
  std::thread timer_;
};

}  // namespace

std::unique_ptr<Engine> make_modelled_engine(std::unique_ptr<Engine> inner, const ModelledOptions& options) {
  return std::make_unique<ModelledEngine>(std::move(inner), options);
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Engine `modelled`: another engine transfers the data at once; the operation completes when the device would finish.
#include <cassert>

#include "base/mutex.h"
#include "base/prng.h"
#include "engine/device.h"
#include "engine/engine.h"

namespace tutti {
namespace {

constexpr std::uint64_t kBlock = 4096;  // files begin at a multiple of it

// The device starts its next request at the modelled end of the last one, even if the timer ran late.
class DeviceEngine final : public ModelledEngine, private CompletionSink {
 public:
  DeviceEngine(World& world, std::unique_ptr<Engine> inner, const ModelledOptions& options)
      : clock_(world.clock()), inner_(std::move(inner)), options_(options), device_(options.figures) {
    device_.set_slowdown(options.slowdown);
    timer_ = world.make_timer([this] { wake(); });
  }

  ~DeviceEngine() override {
    {
      Lock lock(mutex_);
      stopping_ = true;
    }
    timer_.reset();  // a simulated process may end with pending operations
  }

  std::string name() const override { return "modelled " + inner_->name(); }
  void set_slowdown(double factor) override {
    Lock lock(mutex_);
    device_.set_slowdown(factor);
  }
  Duration busy() const override {
    Lock lock(mutex_);
    return device_.busy(clock_.steady());
  }
  bool takes_pages() const override { return inner_->takes_pages(); }

  void submit(std::span<Operation* const> operations) override {
    Operations done;
    {
      Lock lock(mutex_);
      const TimePoint now = clock_.steady();
      drain(now, done);
      for (Operation* operation : operations) enqueue(*operation, now);
      set_timer();
    }
    inner_->submit(operations);
    deliver(done);
  }

 private:
  using Operations = boost::container::small_vector<Operation*, 4>;

  void enqueue(Operation& operation, TimePoint now) TUTTI_REQUIRES(mutex_) {
    operation.modelled = {operation.sink, false, false};
    operation.sink = this;
    const bool copy = operation.kind == Operation::Kind::kCopy;
    const Bytes length(operation.length() * (copy ? 2 : 1));  // of a copy: read and written
    if (operation.kind == Operation::Kind::kSync || length.count() == 0) {
      operation.modelled.device_done = true;  // the model's write cache is persistent
      return;
    }
    const bool read = operation.kind == Operation::Kind::kRead;
    device_.add({.position = position(operation),
                 .length = length,
                 .direction = read ? Direction::kRead : Direction::kWrite,
                 .tag = reinterpret_cast<std::uint64_t>(&operation)},
                now);
  }

  // The file's stripes on this target are contiguous on the device and start at a pseudo-random position.
  std::uint64_t position(const Operation& operation) const {
    if (options_.position) return options_.position(operation);
    const std::uint64_t begin = Prng(options_.seed ^ operation.file->id()).below(options_.spread.count());
    const std::uint64_t stripe = options_.stripe_size.count();
    const std::uint64_t row = operation.offset / (stripe * options_.stripe_count);
    return begin / kBlock * kBlock + row * stripe + operation.offset % stripe;
  }

  // Appends the operations that the device has finished by `now` and whose data transfer is complete to `done`.
  void drain(TimePoint now, Operations& done) TUTTI_REQUIRES(mutex_) {
    while (const auto finish = device_.next_finish()) {
      if (*finish > now) return;
      const auto tag = device_.pop_finished(*finish);
      assert(tag);
      Operation& operation = *reinterpret_cast<Operation*>(*tag);
      operation.modelled.device_done = true;
      if (operation.modelled.data_done) release(operation, done);
    }
  }

  static void release(Operation& operation, Operations& done) {
    operation.sink = operation.modelled.sink;
    done.push_back(&operation);
  }

  void completed(std::span<Operation* const> operations) override {
    Operations done;
    {
      Lock lock(mutex_);
      for (Operation* operation : operations) {
        operation->modelled.data_done = true;
        if (operation->modelled.device_done) release(*operation, done);
      }
    }
    deliver(done);
  }

  void set_timer() TUTTI_REQUIRES(mutex_) {
    const TimePoint next = device_.next_finish().value_or(TimePoint::max());
    if (next == timer_set_ || stopping_) return;
    timer_set_ = next;
    timer_->set(next);
  }

  void wake() {
    Operations done;
    {
      Lock lock(mutex_);
      timer_set_ = TimePoint::max();
      drain(clock_.steady(), done);
      set_timer();
    }
    deliver(done);
  }

  Clock& clock_;
  const std::unique_ptr<Engine> inner_;
  const ModelledOptions options_;
  mutable Mutex mutex_;
  Device device_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<Timer> timer_;
  TimePoint timer_set_ TUTTI_GUARDED_BY(mutex_) = TimePoint::max();
  bool stopping_ TUTTI_GUARDED_BY(mutex_) = false;  // the timer must not be set again
};

}  // namespace

std::unique_ptr<ModelledEngine> make_modelled_engine(World& world, std::unique_ptr<Engine> inner,
                                                     const ModelledOptions& options) {
  return std::make_unique<DeviceEngine>(world, std::move(inner), options);
}

}  // namespace tutti

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
      for (std::size_t i = 0; i < operations.size();) i += enqueue(operations.subspan(i), now);
      set_timer();
    }
    inner_->submit(operations);
    deliver(done);
  }

 private:
  using Operations = boost::container::small_vector<Operation*, 4>;

  // Makes one request of the device of the first operation and of those after it that adjoin it in the same batch.
  // Returns how many these are.
  std::size_t enqueue(std::span<Operation* const> operations, TimePoint now) TUTTI_REQUIRES(mutex_) {
    Operation& first = *operations.front();
    take(first);
    const bool copy = first.kind == Operation::Kind::kCopy;
    Bytes length(first.length() * (copy ? 2 : 1));  // of a copy: read and written
    if (first.kind == Operation::Kind::kSync || length.count() == 0) {
      first.modelled.device_done = true;  // the model's write cache is persistent
      return 1;
    }
    const std::uint64_t begin = position(first);
    std::size_t count = 1;
    for (; !copy && first.batch && count < operations.size(); ++count) {
      Operation& next = *operations[count];
      if (next.batch != first.batch || next.kind != first.kind || next.length() == 0) break;
      if (position(next) != begin + length.count()) break;
      take(next);
      operations[count - 1]->modelled.next = &next;
      length += Bytes(next.length());
    }
    device_.add({.position = begin,
                 .length = length,
                 .direction = first.kind == Operation::Kind::kRead ? Direction::kRead : Direction::kWrite,
                 .tag = reinterpret_cast<std::uint64_t>(&first)},
                now);
    return count;
  }

  void take(Operation& operation) {
    operation.modelled = {.sink = operation.sink};
    operation.sink = this;
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
      Operation* next = nullptr;  // a part that is released may be gone
      for (Operation* part = reinterpret_cast<Operation*>(*tag); part; part = next) {
        next = part->modelled.next;
        part->modelled.device_done = true;
        if (part->modelled.data_done) release(*part, done);
      }
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

// SPDX-License-Identifier: Apache-2.0
#include "lab/burst.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace tutti::lab {
namespace {

// Keeps `depth` operations under way until all are done or one has failed.
class Runner {
 public:
  Runner(File& file, const Burst& burst)
      : file_(file),
        burst_(burst),
        count_((burst.total.count() + burst.operation.count() - 1) / burst.operation.count()),
        memory_(std::max<std::size_t>(1, burst.depth) * burst.operation.count(), std::byte{'x'}) {
    for (std::size_t slot = 0; slot < std::max<std::size_t>(1, burst.depth); ++slot) idle_.push_back(slot);
  }

  Result<void> run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return (!idle_.empty() && next_ < count_ && !error_) || under_way_ == 0; });
      if (error_ || next_ == count_) break;
      issue(lock);
    }
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (error_) return Failure(*error_);
    return {};
  }

 private:
  void issue(std::unique_lock<std::mutex>& lock) {
    const std::size_t slot = idle_.back();
    idle_.pop_back();
    const std::uint64_t size = burst_.operation.count();
    const std::uint64_t done_so_far = next_++ * size;
    ++under_way_;
    lock.unlock();
    const std::span part(memory_.data() + slot * size, std::min(size, burst_.total.count() - done_so_far));
    const std::uint64_t offset = burst_.offset + done_so_far;
    const auto done = [this, slot, wanted = part.size()](const Result<std::size_t>& result) {
      std::lock_guard guard(mutex_);
      if (!result && !error_) error_ = result.error();
      if (result && *result != wanted && !error_) error_ = Error{ErrorCode::kIo, "short transfer"};
      --under_way_;
      idle_.push_back(slot);
      changed_.notify_all();
    };
    if (burst_.direction == Direction::kRead)
      file_.read_async({{offset, part}}, done);
    else
      file_.write_async({{offset, part}}, done);
    lock.lock();
  }

  File& file_;
  const Burst burst_;
  const std::uint64_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;
  std::size_t under_way_ = 0;
  std::vector<std::size_t> idle_;  // parts of the memory
  std::optional<Error> error_;
  std::vector<std::byte> memory_;
};

}  // namespace

Result<void> run_burst(File& file, const Burst& burst) {
  if (burst.operation.count() == 0 || burst.total.count() == 0)
    return fail(ErrorCode::kInvalid, "a burst needs at least one byte per operation and in total");
  return Runner(file, burst).run();
}

}  // namespace tutti::lab

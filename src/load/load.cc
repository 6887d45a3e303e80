// SPDX-License-Identifier: Apache-2.0
#include "load/load.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace tutti {
namespace {

using Steady = std::chrono::steady_clock;

// Keeps `depth` operations under way until all are done or one has failed.
class Burst {
 public:
  Burst(File& file, const LoadOptions& options)
      : file_(file),
        options_(options),
        count_((options.total.count() + options.request.count() - 1) / options.request.count()),
        latencies_(count_),
        memory_(std::max<std::size_t>(1, options.depth) * options.request.count(), std::byte{'x'}) {}

  Result<void> run() {
    std::unique_lock lock(mutex_);
    for (std::size_t slot = 0; slot < std::max<std::size_t>(1, options_.depth); ++slot) idle_.push_back(slot);
    while (true) {
      changed_.wait(lock, [this] { return (!idle_.empty() && next_ < count_ && !error_) || under_way_ == 0; });
      if (error_ || next_ == count_) break;
      issue(lock);
    }
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (error_) return Failure(*error_);
    return {};
  }

  Bytes moved() const { return Bytes(moved_); }
  std::vector<Duration> take_latencies() { return std::move(latencies_); }

 private:
  void issue(std::unique_lock<std::mutex>& lock) {
    const std::size_t slot = idle_.back();
    idle_.pop_back();
    const std::size_t number = next_++;
    ++under_way_;
    lock.unlock();
    const std::uint64_t size = options_.request.count();
    const std::uint64_t offset = number * size;
    const std::span part(memory_.data() + slot * size, std::min(size, options_.total.count() - offset));
    const auto begin = Steady::now();
    const auto done = [this, slot, number, begin](const Result<std::size_t>& result) {
      std::lock_guard guard(mutex_);
      latencies_[number] = Steady::now() - begin;
      if (result)
        moved_ += *result;
      else if (!error_)
        error_ = result.error();
      --under_way_;
      idle_.push_back(slot);
      changed_.notify_all();
    };
    if (options_.direction == Direction::kRead)
      file_.read_async({{offset, part}}, done);
    else
      file_.write_async({{offset, part}}, done);
    lock.lock();
  }

  File& file_;
  const LoadOptions& options_;
  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, under_way_ = 0;
  std::uint64_t moved_ = 0;
  std::vector<std::size_t> idle_;  // parts of the memory
  std::vector<Duration> latencies_;
  std::optional<Error> error_;
  std::vector<std::byte> memory_;
};

}  // namespace

double LoadResult::bytes_per_second() const {
  const double seconds = std::chrono::duration<double>(end - begin).count();
  return seconds > 0 ? static_cast<double>(moved.count()) / seconds : 0;
}

Result<LoadResult> run_load(const LoadOptions& options) {
  if (options.request.count() == 0 || options.total.count() == 0)
    return fail(ErrorCode::kInvalid, "a load needs at least one byte per request and in total");
  auto client = Client::connect({.cluster = options.cluster, .application = options.application, .job = options.job});
  if (!client) return Failure(client.error());
  const bool write = options.direction == Direction::kWrite;
  auto file = (*client)->open(options.path, {.read = !write, .write = write, .create = write});
  if (!file) return Failure(file.error());
  Burst burst(**file, options);
  LoadResult result;
  result.begin = std::chrono::system_clock::now();
  (*client)->begin_phase({.total = options.announce ? options.total : Bytes()});
  if (auto done = burst.run(); !done) return Failure(done.error());
  if (options.fsync)
    if (auto synced = (*file)->fsync(); !synced) return Failure(synced.error());
  (*client)->end_phase();
  result.end = std::chrono::system_clock::now();
  result.moved = burst.moved();
  result.latencies = burst.take_latencies();
  result.spent = (*file)->time_spent();
  return result;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "node/workers.h"

namespace tutti::node {

Workers::Workers(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::post(const std::shared_ptr<Strand>& strand, Task task) {
  {
    std::lock_guard lock(mutex_);
    strand->tasks_.push_back(std::move(task));
    if (strand->scheduled_) return;
    strand->scheduled_ = true;
    ready_.push_back(strand);
  }
  changed_.notify_one();
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    if (ready_.empty()) return;
    const std::shared_ptr<Strand> strand = std::move(ready_.front());
    ready_.pop_front();
    {
      const Task task = std::move(strand->tasks_.front());
      strand->tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
    strand->scheduled_ = !strand->tasks_.empty();
    if (strand->scheduled_) ready_.push_back(strand);
  }
}

}  // namespace tutti::node

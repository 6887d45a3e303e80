// SPDX-License-Identifier: Apache-2.0
// Threads for calls that block. Tasks of one strand run one after another, in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::node {

// Thread-safe. Destruction finishes what was posted.
class Workers {
 public:
  using Task = std::function<void()>;

  class Strand {
    friend class Workers;
    std::deque<Task> tasks_;
    bool scheduled_ = false;
  };

  explicit Workers(std::size_t threads);
  ~Workers();

  void post(const std::shared_ptr<Strand>& strand, Task task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Strand>> ready_;  // strands with tasks, none of them running
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the C API: requests, owning handles, a server that records its callbacks.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti::testing {

using Ids = std::vector<std::uint64_t>;

inline tutti_request request(std::uint64_t id, std::uint64_t offset = 0, std::uint64_t length = 4096) {
  tutti_request result{};
  result.id = id;
  result.file = id;
  result.offset = offset;
  result.length = length;
  return result;
}

struct Destroy {
  void operator()(tutti_scheduler* scheduler) const { EXPECT_EQ(tutti_destroy(scheduler), TUTTI_OK); }
};
using Handle = std::unique_ptr<tutti_scheduler, Destroy>;

inline Handle make(tutti_config config = {}) {
  tutti_scheduler* scheduler = nullptr;
  EXPECT_EQ(tutti_create(&config, &scheduler), TUTTI_OK) << tutti_last_error();
  return Handle(scheduler);
}

inline tutti_config fifo() {
  tutti_config config{};
  config.policy = "fifo";
  return config;
}

// Callbacks that record their requests and then call the test's function `then`.
class Server {
 public:
  explicit Server(bool explicit_completion = false) : explicit_(explicit_completion) {}

  Handle start(tutti_config config = fifo()) {
    tutti_callbacks callbacks{};
    callbacks.process = [](const tutti_request* requests, size_t count, void* arg) {
      static_cast<Server*>(arg)->take(requests, count, &Server::processed_);
    };
    callbacks.dropped = [](const tutti_request* requests, size_t count, void* arg) {
      static_cast<Server*>(arg)->take(requests, count, &Server::dropped_);
    };
    callbacks.arg = this;
    callbacks.explicit_completion = explicit_;
    tutti_scheduler* scheduler = nullptr;
    EXPECT_EQ(tutti_create_with_callbacks(&config, &callbacks, &scheduler), TUTTI_OK) << tutti_last_error();
    return Handle(scheduler);
  }

  void wait_for(std::size_t processed) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return processed_.size() >= processed; });
  }
  Ids processed() {
    std::lock_guard guard(mutex_);
    return processed_;
  }
  Ids dropped() {
    std::lock_guard guard(mutex_);
    return dropped_;
  }

  std::function<void(const tutti_request*, size_t)> then = [](auto*, auto) {};

 private:
  void take(const tutti_request* requests, size_t count, Ids Server::*where) {
    {
      std::lock_guard guard(mutex_);
      for (size_t i = 0; i < count; ++i) (this->*where).push_back(requests[i].id);
      changed_.notify_all();
    }
    if (where == &Server::processed_) then(requests, count);
  }

  bool explicit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Ids processed_, dropped_;
};

// Blocks callbacks until the test calls open().
class Barrier {
 public:
  void open() {
    std::lock_guard guard(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

inline tutti_statistics statistics(const Handle& scheduler) {
  tutti_statistics result{};
  EXPECT_EQ(tutti_get_statistics(scheduler.get(), &result), TUTTI_OK);
  return result;
}

}  // namespace tutti::testing

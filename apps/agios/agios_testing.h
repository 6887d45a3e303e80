// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the AGIOS interface: configuration files, and a server with its callbacks.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "agios.h"
#include "base/temporary_directory.h"

namespace tutti::agios {

// A file that is removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) { std::ofstream(path_) << text; }
  char* path() { return path_.data(); }

 private:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "agios.conf";
};

inline std::string options(const std::string& lines) {
  return "library_options:\n{\n" + lines + "\n};\n";
}

inline std::string algorithm(const std::string& name) {
  return options("default_algorithm = \"" + name + "\" ;");
}

// A server written for AGIOS. Its callbacks record their arguments. AGIOS passes no pointer to callbacks, so only one
// server can exist at a time.
class AgiosServer {
 public:
  AgiosServer() { current_ = this; }
  ~AgiosServer() {
    open();
    agios_exit();
    current_ = nullptr;
  }

  bool start(const std::string& configuration, std::int32_t queues = 0, bool lists = true) {
    TemporaryFile file(configuration);
    return agios_init(&AgiosServer::process, lists ? &AgiosServer::process_list : nullptr, file.path(), queues);
  }

  // Blocks the next callback, so that added requests stay queued.
  void plug() {
    shut_ = true;
    EXPECT_TRUE(agios_add_request(const_cast<char*>("plug"), RT_READ, 0, 1, -1, 0));
    wait_for(1);
    std::lock_guard guard(mutex_);
    calls_.clear();
  }
  void open() {
    std::lock_guard guard(mutex_);
    shut_ = false;
    changed_.notify_all();
  }

  // Waits until this many requests were passed to callbacks.
  void wait_for(std::size_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count() >= requests; });
  }
  // The ids of each callback.
  std::vector<std::vector<std::int64_t>> calls() {
    std::lock_guard guard(mutex_);
    return calls_;
  }
  std::vector<std::int64_t> ids() {
    std::vector<std::int64_t> all;
    for (const auto& call : calls()) all.insert(all.end(), call.begin(), call.end());
    return all;
  }

  std::function<void(std::int64_t)> then = [](std::int64_t) {};  // called by process after it has recorded the id

 private:
  static void* process(std::int64_t id) {
    current_->note({id});
    current_->then(id);
    return nullptr;
  }
  static void* process_list(std::int64_t* ids, std::int32_t n) {
    current_->note({ids, ids + n});
    return nullptr;
  }
  void note(std::vector<std::int64_t> ids) {
    std::unique_lock lock(mutex_);
    calls_.push_back(std::move(ids));
    changed_.notify_all();
    changed_.wait(lock, [&] { return !shut_; });
  }
  std::size_t count() const {
    std::size_t sum = 0;
    for (const auto& call : calls_) sum += call.size();
    return sum;
  }

  static inline AgiosServer* current_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::int64_t>> calls_;
  bool shut_ = false;
};

// AGIOS takes char* even for constant strings.
struct Piece {
  std::string file = "file";
  std::int32_t type = RT_WRITE;
  std::int64_t offset = 0;
  std::int64_t length = 4096;

  bool add(std::int64_t id, std::int32_t queue = 0) {
    return agios_add_request(file.data(), type, offset, length, id, queue);
  }
  bool release() { return agios_release_request(file.data(), type, length, offset); }
  bool cancel() { return agios_cancel_request(file.data(), type, length, offset); }
};

}  // namespace tutti::agios

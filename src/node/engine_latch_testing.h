// SPDX-License-Identifier: Apache-2.0
// For tests: an engine that holds operations until the test releases them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace tutti::node {

class EngineLatch {
 public:
  std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)> wrapper() {
    return [this](std::unique_ptr<Engine> inner) -> std::unique_ptr<Engine> {
      return std::make_unique<Held>(std::move(inner), *this);
    };
  }
  void open() { release(true); }
  void release_writes() { release(false); }
  void wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return held_.size() >= count; }));
  }
  std::size_t held() {
    std::lock_guard lock(mutex_);
    return held_.size();
  }

 private:
  void release(bool all) {
    std::vector<Operation*> released;
    Engine* inner = nullptr;
    {
      std::lock_guard lock(mutex_);
      open_ = all;
      for (Operation* operation : held_)
        if (all || operation->kind == Operation::Kind::kWrite) released.push_back(operation);
      std::erase_if(held_, [&](Operation* operation) { return std::ranges::count(released, operation) > 0; });
      inner = inner_;
    }
    if (!released.empty()) inner->submit(released);
  }

  class Held : public Engine {
   public:
    Held(std::unique_ptr<Engine> inner, EngineLatch& latch) : inner_(std::move(inner)), gate_(latch) {}
    std::string name() const override { return "held"; }
    bool takes_pages() const override { return inner_->takes_pages(); }
    void submit(std::span<Operation* const> operations) override {
      {
        std::lock_guard lock(gate_.mutex_);
        gate_.inner_ = inner_.get();
        if (!gate_.open_) {
          gate_.held_.insert(gate_.held_.end(), operations.begin(), operations.end());
          gate_.changed_.notify_all();
          return;
        }
      }
      inner_->submit(operations);
    }

   private:
    std::unique_ptr<Engine> inner_;
    EngineLatch& gate_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  Engine* inner_ = nullptr;
  std::vector<Operation*> held_;
};

}  // namespace tutti::node

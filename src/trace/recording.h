// SPDX-License-Identifier: Apache-2.0
// A trace with what is known about its origin.
#pragma once

#include <string>
#include <vector>

#include "sched/prediction/trace.h"
#include "trace/format.h"

namespace tutti::trace {

// What was wrong with an input, as texts for people: "FILE: byte N: what" or "FILE: line N: what". Texts beyond a limit
// are counted only.
class Problems {
 public:
  static constexpr std::size_t kMost = 20;

  void add(std::string text) {
    ++count_;
    if (texts_.size() < kMost) texts_.push_back(std::move(text));
  }
  void add(const Problems& others) {
    for (const std::string& text : others.texts_) add(text);
    count_ += others.count_ - others.texts_.size();
  }
  const std::vector<std::string>& texts() const { return texts_; }
  std::size_t count() const { return count_; }

 private:
  std::vector<std::string> texts_;
  std::size_t count_ = 0;
};

struct Recording {
  TimePoint start{};  // of the first request, on the wall clock
  Facts facts{};
  Trace trace{};
  Problems problems{};
  std::uint64_t missing = 0;  // requests that arrived and are not in the trace
};

}  // namespace tutti::trace

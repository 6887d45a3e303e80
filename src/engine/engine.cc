// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <numeric>

#include "base/clock.h"

namespace tutti {

std::uint64_t Operation::length() const {
  if (kind == Kind::kCopy) return copy_length;
  return std::accumulate(memory.begin(), memory.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const iovec& piece) { return sum + piece.iov_len; });
}

bool Operation::in_time() {
  const bool changes = kind == Kind::kWrite || kind == Kind::kCopy;
  if (!changes || deadline == TimePoint::max() || real_clock().steady() <= deadline) return true;
  expired = true;
  error = ETIMEDOUT;
  return false;
}

// Part of the operation may be done already: memory[0] then starts at the first byte that is not transferred.
void Operation::copy_pages_to_memory() {
  if (kind != Kind::kWrite || pages == nullptr) return;
  assert(memory.size() == 1);
  const std::uint64_t ahead = pages_at > transferred ? pages_at - transferred : 0;
  const bool complete = pages->read({static_cast<std::byte*>(memory[0].iov_base) + ahead, pages->left()});
  assert(complete);
  (void)complete;
  pages = nullptr;
}

void deliver(std::span<Operation* const> operations) {
  while (!operations.empty()) {
    CompletionSink* sink = operations.front()->sink;
    const auto end = std::find_if(operations.begin(), operations.end(),
                                  [sink](const Operation* operation) { return operation->sink != sink; });
    const auto count = static_cast<std::size_t>(end - operations.begin());
    sink->completed(operations.first(count));
    operations = operations.subspan(count);
  }
}

namespace {

class NullEngine final : public Engine {
 public:
  std::string name() const override { return "null"; }

  void submit(std::span<Operation* const> operations) override {
    for (Operation* operation : operations) {
      operation->error = 0;
      operation->transferred = operation->length();
    }
    deliver(operations);
  }
};

class FaultyEngine final : public Engine {
 public:
  FaultyEngine(std::unique_ptr<Engine> inner, std::function<std::optional<Fault>(const Operation&)> rule)
      : inner_(std::move(inner)), rule_(std::move(rule)) {}

  std::string name() const override { return "faulty " + inner_->name(); }
  bool takes_pages() const override { return inner_->takes_pages(); }

  void submit(std::span<Operation* const> operations) override {
    std::vector<Operation*> failed, rest;
    for (Operation* operation : operations) (apply(*operation) ? failed : rest).push_back(operation);
    if (!rest.empty()) inner_->submit(rest);
    deliver(failed);
  }

 private:
  // True: the operation is complete.
  bool apply(Operation& operation) {
    const auto fault = rule_(operation);
    if (!fault) return false;
    operation.transferred = 0;
    operation.error = fault->error;
    if (fault->error != 0) return true;
    if (operation.kind == Operation::Kind::kCopy) {
      operation.copy_length = std::min(operation.copy_length, fault->at_most);
      return operation.copy_length == 0;
    }
    operation.copy_pages_to_memory();
    cut(operation.memory, fault->at_most);
    return operation.memory.empty();
  }

  static void cut(auto& memory, std::uint64_t length) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i].iov_len = std::min<std::uint64_t>(memory[i].iov_len, length);
      length -= memory[i].iov_len;
      if (length == 0) memory.resize(memory[i].iov_len == 0 ? i : i + 1);
    }
  }

  std::unique_ptr<Engine> inner_;
  std::function<std::optional<Fault>(const Operation&)> rule_;
};

}  // namespace

std::unique_ptr<Engine> make_null_engine() {
  return std::make_unique<NullEngine>();
}

std::unique_ptr<Engine> make_faulty_engine(std::unique_ptr<Engine> inner,
                                           std::function<std::optional<Fault>(const Operation&)> rule) {
  return std::make_unique<FaultyEngine>(std::move(inner), std::move(rule));
}

}  // namespace tutti

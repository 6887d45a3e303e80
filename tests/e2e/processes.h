// SPDX-License-Identifier: Apache-2.0
// Starts processes and waits for them with a time limit. For end-to-end tests.
#pragma once

#include <tutti/base.h>

#include <functional>
#include <string>
#include <vector>

namespace tutti::e2e {

// A time limit for this build: longer with sanitizers (the factor is in cmake/Module.cmake).
constexpr Duration patient(Duration usual) {
  return usual * TUTTI_PATIENCE;
}

// Polls until the condition is true. False: it was not within patient(`usual`).
bool wait_until(Duration usual, const std::function<bool()>& condition);

struct Outcome {
  int status = -1;     // 128 and the signal's number if one ended it
  std::string output;  // both streams
};

// Runs a program to its end.
Outcome run(std::vector<std::string> words);

// All of a file.
std::string content(const std::string& path);

// A process that the destructor kills.
class Child {
 public:
  Child() = default;
  explicit Child(std::vector<std::string> words);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  int id() const { return id_; }
  // Waits for its end: its exit status, or 128 and the signal's number. -1: not within patient(`usual`).
  int wait(Duration usual);

 private:
  int id_ = -1;
};

}  // namespace tutti::e2e

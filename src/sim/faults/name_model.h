// SPDX-License-Identifier: Apache-2.0
// What names may refer to, according to the operations of a run.
//
// Each name is changed by one thread only, its owner; every thread may look it up. After an operation with an unknown
// outcome, the owner does not change the name until the operation can no longer take effect, and then looks it up. That
// holds for every operation: a create of a name that exists can take effect late, after a rename of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/faults/block_history.h"

namespace tutti::sim {

// Not thread-safe.
class NameModel {
 public:
  static constexpr std::uint64_t kAbsent = 0;               // content of a name: no file
  static constexpr std::uint64_t kNew = ~std::uint64_t{0};  // a new file whose inode number is not known

  // Adds a name without a file and returns its number.
  std::size_t add(std::string path);
  const std::string& path(std::size_t name) const { return names_[name].path; }

  // The inode number or kAbsent. Nothing: it is not known, and the owner must call found() first.
  std::optional<std::uint64_t> content(std::size_t name) const;
  // After an unknown outcome: found() may be called from this time on.
  Nanoseconds settles_at(std::size_t name) const { return names_[name].settles_at; }

  struct When {
    Nanoseconds begin = 0, end = 0;
  };
  // An operation of the owner has changed the content.
  void changed(std::size_t name, std::uint64_t content, When when);
  // An operation of the owner may have changed it, or may change it until `when.end`.
  void may_have_changed(std::size_t name, std::uint64_t content, When when);
  // The owner has looked the name up. Returns what is wrong.
  std::optional<std::string> found(std::size_t name, std::uint64_t content, When when);
  // Any thread has looked the name up.
  void observed(std::size_t name, std::uint64_t content, When when) {
    names_[name].observations.push_back({content, when});
  }

  // What is wrong with the observations. Call it when no operation is in progress.
  std::vector<std::string> check() const;

 private:
  struct Observation {
    std::uint64_t content = kAbsent;
    When when;
  };
  struct Content {
    std::uint64_t value = kAbsent;
    Nanoseconds from = 0;
    Nanoseconds to = kNever;
  };
  struct Name {
    std::string path;
    std::vector<Content> contents;  // those with to == kNever are possible now
    std::vector<Observation> observations{};
    Nanoseconds settles_at = 0;
    bool known = true;
  };

  std::vector<Name> names_;
};

}  // namespace tutti::sim

// SPDX-License-Identifier: Apache-2.0
// The two archives that fields.h runs over a message: one writes its fields, one reads and checks them. Internal.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "wire/codec.h"

namespace tutti::wire {

// Writes fields one after another. Keeps what a decoder would refuse from being sent: asserted.
class Writer {
 public:
  static constexpr bool kReads = false;

  template <typename Integer>
  void integer(const Integer& value, const char*) {
    const auto at = out_.size();
    out_.resize(at + sizeof(Integer));
    std::memcpy(out_.data() + at, &value, sizeof(Integer));
  }
  void text(const std::string& value, const char* field, std::size_t most) {
    assert(value.size() <= most);
    integer(static_cast<std::uint32_t>(value.size()), field);
    raw(value.data(), value.size());
  }
  void raw(const void* data, std::size_t size, const char* = nullptr) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }
  std::size_t count(std::size_t actual, const char* field, std::size_t most, std::size_t) {
    assert(actual <= most);
    integer(static_cast<std::uint32_t>(actual), field);
    return actual;
  }
  void require(bool, const char*, const char*) {}
  bool good() const { return true; }

  std::vector<std::byte> out_;
};

// Reads fields one after another and remembers the first mistake; after one, everything reads as zero.
class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Integer>
  void integer(Integer& value, const char* field) {
    raw(&value, sizeof(Integer), field);
  }
  void text(std::string& value, const char* field, std::size_t most) {
    std::uint32_t size = 0;
    integer(size, field);
    require(size <= most, field, "is too long");
    if (size > rest_.size()) mistake(field, "is cut off");
    if (!good()) return;
    value.assign(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
  }
  void raw(void* data, std::size_t size, const char* field) {
    if (size > rest_.size()) mistake(field, "is cut off");
    if (!good()) {
      std::memset(data, 0, size);
      return;
    }
    std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  // How many elements follow, each at least `smallest` bytes: never more than the bytes that are left can hold.
  std::size_t count(std::size_t, const char* field, std::size_t most, std::size_t smallest) {
    std::uint32_t actual = 0;
    integer(actual, field);
    require(actual <= most, field, "has too many elements");
    if (actual * smallest > rest_.size()) mistake(field, "is cut off");
    return good() ? actual : 0;
  }
  void require(bool holds, const char* field, const char* problem) {
    if (!holds) mistake(field, problem);
  }
  void mistake(const char* field, std::string_view problem) {
    if (error_.empty()) error_ = fmt::format("{} {}", field, problem);
  }
  bool good() const { return error_.empty(); }
  bool finished() const { return rest_.empty(); }
  const std::string& error() const { return error_; }

 private:
  std::span<const std::byte> rest_;
  std::string error_;
};

}  // namespace tutti::wire

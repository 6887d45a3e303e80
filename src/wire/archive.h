// SPDX-License-Identifier: Apache-2.0
// Archives: each message passes its fields to an archive, which writes them (Writer) or reads and checks them (Reader).
// Internal to the codec.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "wire/codec.h"

namespace tutti::wire {

// The encoding of each kind of field, built on the operations for integers, texts, raw bytes and counts of the archive
// Self. An archive with kReads changes the message; other archives must not.
template <typename Self>
class Archive {
 public:
  // An integer, an enumeration, a boolean, a time or a size.
  template <typename Value>
  void operator()(Value& value, const char* field) {
    if constexpr (std::is_same_v<Value, bool>) {
      convert(value, value ? std::uint8_t{1} : std::uint8_t{0}, field, [&](std::uint8_t byte) {
        self().require(byte <= 1, field, "is neither true nor false");
        return byte == 1;
      });
    } else if constexpr (std::is_same_v<Value, TimePoint>) {
      convert(value, value.time_since_epoch().count(), field, [](auto count) { return TimePoint(Duration(count)); });
    } else if constexpr (std::is_same_v<Value, Duration>) {
      convert(value, value.count(), field, [](auto count) { return Duration(count); });
    } else if constexpr (std::is_same_v<Value, Bytes>) {
      convert(value, value.count(), field, [](auto count) { return Bytes(count); });
    } else {
      self().integer(value, field);
    }
  }

  void path(std::string& value, const char* field) {
    self().text(value, field, kMaxPath);
    well_formed(value, field, check_path);
  }
  // One component of a path.
  void entry_name(std::string& value, const char* field) {
    self().text(value, field, kMaxName);
    well_formed(value, field, check_name);
  }
  // Text that the node passes to the kernel as a C string.
  void c_text(std::string& value, const char* field, std::size_t most) {
    self().text(value, field, most);
    self().require(value.find('\0') == std::string::npos, field, "contains a NUL byte");
    self().require(!value.empty(), field, "is empty");
  }
  // An enumeration whose values are 0 to `last`.
  template <typename Enum>
  void choice(Enum& value, const char* field, Enum last) {
    self().integer(value, field);
    self().require(value <= last, field, "is unknown");
  }
  // Elements of at least `smallest` bytes each.
  template <typename List, typename Each>
  void list(List& elements, const char* field, std::size_t most, std::size_t smallest, Each each) {
    const auto count = self().count(elements.size(), field, most, smallest);
    if constexpr (Self::kReads) elements.resize(count);
    for (auto& element : elements) {
      each(element);
      if (!self().good()) return;
    }
  }
  template <typename List>
  void integers(List& values, const char* field, std::size_t most) {
    list(values, field, most, sizeof values[0], [&](auto& value) { self().integer(value, field); });
  }
  // Access rights as in access(2).
  void access(std::uint8_t& value) {
    self().integer(value, "access");
    self().require(value <= 7, "access", "has unknown bits");
  }
  void extents(Extents& values) {
    std::uint64_t sum = 0;
    list(values, "extents", kMaxExtents, 16, [&](Extent& extent) {
      self().integer(extent.offset, "offset");
      self().integer(extent.length, "length");
      self().require(extent.length >= 1 && extent.length <= kMaxPayload, "length", "is zero or over the limit");
      self().require(extent.offset <= kMaxOffset - extent.length, "offset", "plus the length is past 2^63");
      sum += extent.length;
    });
    self().require(!values.empty(), "extents", "are missing");
    self().require(sum <= kMaxPayload, "extents", "are together over the limit of one message");
  }
  void stamp(Stamp& stamp) {
    auto& a = *this;
    a(stamp.application, "application");
    a(stamp.phase, "phase");
    a(stamp.order, "order");
    a(stamp.issued, "issued");
    a(stamp.phase_start, "phase start");
    a(stamp.attained, "attained");
    a(stamp.phase_total, "phase total");
    a(stamp.operation, "operation");
    a(stamp.bottleneck, "bottleneck");
  }
  // Ascending by name.
  void options(PolicyOptions& options) {
    const auto option = [&](std::string& name, std::string& value) {
      self().text(name, "option", kMaxName);
      self().text(value, "option value", kMaxOption);
    };
    const auto count = self().count(options.size(), "options", 64, 8);
    if constexpr (Self::kReads) {
      std::string previous, name, value;
      for (std::size_t i = 0; i < count && self().good(); ++i) {
        option(name, value);
        self().require(i == 0 || previous < name, "options", "are out of order");
        options[name] = value;
        previous = name;
      }
    } else {
      for (auto& [name, value] : options) option(const_cast<std::string&>(name), value);
    }
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  template <typename Value, typename Sent, typename Restore>
  void convert(Value& value, Sent sent, const char* field, Restore restore) {
    self().integer(sent, field);
    if constexpr (Self::kReads) value = restore(sent);
  }
  void well_formed(std::string_view value, const char* field, Result<void> (*check)(std::string_view)) {
    if constexpr (Self::kReads) {
      if (!self().good()) return;
      if (auto fine = check(value); !fine) self().mistake(field, fine.error().message);
    }
  }
};

// Writes fields one after another. If a field is over its limit, good() is false and the written bytes must not be
// used.
class Writer : public Archive<Writer> {
 public:
  static constexpr bool kReads = false;

  // Leaves `offset` bytes free before the first field.
  explicit Writer(std::size_t offset) : out_(offset + kUsualSize), end_(offset) {}

  template <typename Integer>
  void integer(const Integer& value, const char*) {
    raw(&value, sizeof(Integer));
  }
  void text(const std::string& value, const char* field, std::size_t most) {
    limit(value.size() <= most, field, "is too long");
    integer(static_cast<std::uint32_t>(value.size()), field);
    raw(value.data(), value.size());
  }
  void raw(const void* data, std::size_t size, const char* = nullptr) {
    if (size > out_.size() - end_) out_.resize(2 * (end_ + size));
    if (size > 0) std::memcpy(out_.data() + end_, data, size);
    end_ += size;
  }
  std::size_t count(std::size_t actual, const char* field, std::size_t most, std::size_t) {
    limit(actual <= most, field, "has too many elements");
    integer(static_cast<std::uint32_t>(actual), field);
    return actual;
  }
  void require(bool, const char*, const char*) {}  // only decoders check
  bool good() const { return field_ == nullptr; }
  std::string error() const { return fmt::format("{} {}", field_, problem_); }

  // Reports that the fields together are over the limit of a body.
  void overflow() { limit(false, "body", "is over 256 KiB"); }

  std::size_t size() const { return end_; }
  // The bytes. Call once.
  std::vector<std::byte> take() {
    out_.resize(end_);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kUsualSize = 192;  // of a message

  void limit(bool holds, const char* field, const char* problem) {
    if (holds || !good()) return;
    field_ = field;
    problem_ = problem;
  }
  std::vector<std::byte> out_;
  std::size_t end_;  // of what was written
  const char* field_ = nullptr;
  const char* problem_ = nullptr;
};

// Reads fields one after another and keeps the first mistake. After a mistake all fields read as zero.
class Reader : public Archive<Reader> {
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
    value.assign(size > 0 ? reinterpret_cast<const char*>(rest_.data()) : "", size);
    rest_ = rest_.subspan(size);
  }
  void raw(void* data, std::size_t size, const char* field) {
    if (size > rest_.size()) [[unlikely]]
      mistake(field, "is cut off");
    if (!good()) [[unlikely]] {
      std::memset(data, 0, size);
      return;
    }
    std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  // The number of elements, each of at least `smallest` bytes. A number that the rest of the body cannot hold is a
  // mistake, so the caller may allocate that many.
  std::size_t count(std::size_t, const char* field, std::size_t most, std::size_t smallest) {
    std::uint32_t actual = 0;
    integer(actual, field);
    require(actual <= most, field, "has too many elements");
    if (actual * smallest > rest_.size()) mistake(field, "is cut off");
    return good() ? actual : 0;
  }
  void require(bool holds, const char* field, const char* problem) {
    if (!holds) [[unlikely]]
      mistake(field, problem);
  }
  [[gnu::cold, gnu::noinline]] void mistake(const char* field, std::string_view problem) {
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

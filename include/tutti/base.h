// SPDX-License-Identifier: Apache-2.0
// Types used by all parts of Tutti: time, amounts of data, errors.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tutti {

// Wall-clock time in nanoseconds: stamps made on one machine are compared on others.
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::system_clock, Duration>;

// An amount of data. Positions in a file are plain std::uint64_t offsets.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}

  constexpr std::uint64_t count() const { return count_; }

  constexpr Bytes& operator+=(Bytes other) { return count_ += other.count_, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count_ -= other.count_, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t factor) { return Bytes(a.count_ * factor); }
  friend constexpr Bytes operator/(Bytes a, std::uint64_t divisor) { return Bytes(a.count_ / divisor); }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  std::uint64_t count_ = 0;
};

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes(n);
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(n << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(n << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(n << 30);
}
}  // namespace literals

// The kind of an error. Error::message says what is wrong, where, and what would be right.
enum class ErrorCode {
  kInvalid,      // an argument, option or file is wrong
  kNotFound,     // no such policy, file, application, ...
  kDuplicate,    // an id that is in use
  kFull,         // a bound is reached; try again later
  kStopped,      // the scheduler, client or node is shutting down
  kDenied,       // not allowed for this caller
  kUnreachable,  // a peer does not answer
  kTimeout,      // the operation took longer than allowed
  kProtocol,     // a peer sent something malformed
  kIo,           // the operating system refused; `system` holds errno
};

struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string message;
  int system = 0;  // errno where there is one, else 0
};

// The result of anything that can fail for reasons outside our own code.
template <typename T>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

inline Failure fail(ErrorCode code, std::string message, int system = 0) {
  return Failure(Error{code, std::move(message), system});
}

}  // namespace tutti

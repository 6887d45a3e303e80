// SPDX-License-Identifier: Apache-2.0
// Integers of variable length: 7 bits per byte, least significant first; the last byte is below 128. Signed numbers are
// folded first, so that numbers near zero are short.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tutti::trace {

static_assert(std::endian::native == std::endian::little, "fixed-size integers are written as they lie in memory");

inline std::uint64_t fold(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unfold(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

inline constexpr std::size_t kMostVarint = 10;  // bytes

// Returns the position after the number; there must be room for kMostVarint bytes.
inline std::byte* put_varint(std::byte* out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) *out++ = static_cast<std::byte>(value | 128);
  *out++ = static_cast<std::byte>(value);
  return out;
}

// Reads integers one after another. After the end of the bytes, or after a number that is too long, good() is false and
// all numbers read as zero.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (position_ >= bytes_.size()) return bad();
    return std::to_integer<std::uint8_t>(bytes_[position_++]);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      if (shift == 63 && next > 1) return bad();
      value |= std::uint64_t{next & 127u} << shift;
      if (next < 128) return good_ ? value : 0;
    }
    return bad();
  }
  // Empty if fewer than `size` bytes are left.
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size() - position_) return bad(), std::span<const std::byte>{};
    position_ += size;
    return bytes_.subspan(position_ - size, size);
  }

  bool good() const { return good_; }
  bool finished() const { return position_ == bytes_.size(); }
  std::size_t position() const { return position_; }

 private:
  std::uint8_t bad() {
    good_ = false;
    position_ = bytes_.size();
    return 0;
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  bool good_ = true;
};

template <typename Integer>
Integer load_integer(std::span<const std::byte> bytes, std::size_t offset) {
  Integer value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
template <typename Integer>
void store_integer(std::span<std::byte> bytes, std::size_t offset, Integer value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace tutti::trace

// SPDX-License-Identifier: Apache-2.0
#include "gate/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstring>

namespace tutti::gate {
namespace {

constexpr std::uint8_t kMagic[2] = {'T', 'G'};
constexpr std::uint16_t kAllTargets = 65535;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void time(Duration value) { number(static_cast<std::uint64_t>(value.count())); }
  void raw(std::string_view bytes) {
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    out_.insert(out_.end(), data, data + bytes.size());
  }
  void text(const std::string& text) {
    std::string clean = text.substr(0, kMaxText);
    std::replace_if(clean.begin(), clean.end(), is_control, '?');
    number(static_cast<std::uint8_t>(clean.size()));
    raw(clean);
  }
  void targets(const TargetList& targets) {
    assert(targets.ranges.size() <= kMaxRanges);
    number(targets.all ? kAllTargets : static_cast<std::uint16_t>(targets.ranges.size()));
    if (targets.all) return;
    for (const TargetRange& range : targets.ranges) {
      number(range.first);
      number(range.last);
    }
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads past the end give zeros and make ok() false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  template <std::unsigned_integral T>
  T number() {
    if (!has(sizeof(T))) return 0;
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(in_[i]) << (8 * i)));
    in_ = in_.subspan(sizeof(T));
    return value;
  }
  template <typename Enum>
  Enum choice(Enum last) {
    const auto value = number<std::uint8_t>();
    if (value > static_cast<std::uint8_t>(last)) ok_ = false;
    return ok_ ? static_cast<Enum>(value) : Enum{};
  }
  bool boolean() { return choice(static_cast<std::uint8_t>(1)) != 0; }
  Duration time() {
    const auto count = static_cast<std::int64_t>(number<std::uint64_t>());
    if (count < 0) ok_ = false;
    return Duration(count);
  }
  std::string rest() { return raw(in_.size()); }
  std::string text() {
    std::string text = raw(number<std::uint8_t>());
    if (std::any_of(text.begin(), text.end(), is_control)) ok_ = false;
    return text;
  }
  TargetList targets() {
    const auto count = number<std::uint16_t>();
    if (count == kAllTargets) return TargetList::everything();
    if (count > kMaxRanges || !has(count * 8u)) {
      ok_ = false;
      return {};
    }
    TargetList list;
    list.ranges.reserve(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      const auto first = number<std::uint32_t>();
      const auto last = number<std::uint32_t>();
      list.ranges.push_back({first, last});
    }
    return list;
  }
  bool complete() const { return ok_ && in_.empty(); }

 private:
  bool has(std::size_t bytes) { return ok_ = ok_ && in_.size() >= bytes; }
  std::string raw(std::size_t bytes) {
    if (!has(bytes)) return {};
    std::string text(reinterpret_cast<const char*>(in_.data()), bytes);
    in_ = in_.subspan(bytes);
    return text;
  }

  std::span<const std::byte> in_;
  bool ok_ = true;
};

void write(Writer& to, const Hello& m) {
  to.number(m.session);
  to.number(m.process);
  to.text(m.job);
}
void write(Writer& to, const RequestMessage& m) {
  to.number(m.ticket);
  to.number(m.bytes.count());
  to.targets(m.targets);
}
void write(Writer& to, const ReassertMessage& m) {
  write(to, m.request);
  to.number(static_cast<std::uint8_t>(m.holding));
  to.time(m.arrived.time_since_epoch());
  to.number(m.group);
}
void write(Writer& to, const ReleaseMessage& m) {
  to.number(m.ticket);
}
void write(Writer& to, const RenewMessage& m) {
  to.number(m.ticket);
}
void write(Writer&, const StatusQuery&) {}
void write(Writer& to, const Welcome& m) {
  to.number(m.incarnation);
  to.time(m.lease);
  to.number(m.targets);
}
void write(Writer& to, const AnswerMessage& m) {
  to.number(m.ticket);
  to.number(static_cast<std::uint8_t>(m.kind));
  to.time(m.arrived.time_since_epoch());
  to.number(m.group);
  to.number(static_cast<std::uint8_t>(m.refusal));
  to.text(m.text);
}
void write(Writer& to, const StatusPiece& m) {
  assert(m.text.size() < kMaxPayload);
  to.number(static_cast<std::uint8_t>(m.last));
  to.raw(m.text);
}

void read(Reader& from, Hello& m) {
  m.session = from.number<std::uint64_t>();
  m.process = from.number<std::uint32_t>();
  m.job = from.text();
}
void read(Reader& from, RequestMessage& m) {
  m.ticket = from.number<std::uint64_t>();
  m.bytes = Bytes(from.number<std::uint64_t>());
  m.targets = from.targets();
}
void read(Reader& from, ReassertMessage& m) {
  read(from, m.request);
  m.holding = from.boolean();
  m.arrived = TimePoint(from.time());
  m.group = from.number<std::uint32_t>();
}
void read(Reader& from, ReleaseMessage& m) {
  m.ticket = from.number<std::uint64_t>();
}
void read(Reader& from, RenewMessage& m) {
  m.ticket = from.number<std::uint64_t>();
}
void read(Reader&, StatusQuery&) {}
void read(Reader& from, Welcome& m) {
  m.incarnation = from.number<std::uint64_t>();
  m.lease = from.time();
  m.targets = from.number<std::uint32_t>();
}
void read(Reader& from, AnswerMessage& m) {
  m.ticket = from.number<std::uint64_t>();
  m.kind = from.choice(Answer::Kind::kRefused);
  m.arrived = TimePoint(from.time());
  m.group = from.number<std::uint32_t>();
  m.refusal = from.choice(Refusal::kProtocol);
  m.text = from.text();
}
void read(Reader& from, StatusPiece& m) {
  m.last = from.boolean();
  m.text = from.rest();
}

template <std::size_t I = 0>
std::optional<Message> read_payload(std::size_t index, std::span<const std::byte> payload) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (index != I) return read_payload<I + 1>(index, payload);
    Reader reader(payload);
    std::variant_alternative_t<I, Message> message;
    read(reader, message);
    if (!reader.complete()) return std::nullopt;
    return message;
  } else {
    return std::nullopt;
  }
}

}  // namespace

void encode(const Message& message, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  Writer writer(out);
  writer.number(kMagic[0]);
  writer.number(kMagic[1]);
  writer.number(kProtocolVersion);
  writer.number(static_cast<std::uint8_t>(message.index() + 1));
  writer.number(std::uint32_t{0});
  std::visit([&](const auto& m) { write(writer, m); }, message);
  const auto length = static_cast<std::uint32_t>(out.size() - start - kHeaderSize);
  assert(length <= kMaxPayload);
  for (std::size_t i = 0; i < 4; ++i) out[start + 4 + i] = static_cast<std::byte>(length >> (8 * i));
}

Result<std::optional<Decoded>> decode(std::span<const std::byte> bytes) {
  // What is there of the header is judged at once: a peer that speaks something else is not waited for.
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  for (std::size_t i = 0; i < 2 && i < bytes.size(); ++i)
    if (byte(i) != kMagic[i]) return fail(ErrorCode::kProtocol, "not a message of the gate protocol");
  if (bytes.size() > 2 && byte(2) != kProtocolVersion)
    return fail(ErrorCode::kProtocol,
                fmt::format("protocol version {}; this side speaks version {}", byte(2), kProtocolVersion));
  if (bytes.size() > 3 && (byte(3) == 0 || byte(3) > std::variant_size_v<Message>))
    return fail(ErrorCode::kProtocol, fmt::format("unknown message type {}", byte(3)));
  if (bytes.size() < kHeaderSize) return std::nullopt;
  const std::uint32_t length = Reader(bytes.subspan(4, 4)).number<std::uint32_t>();
  if (length > kMaxPayload)
    return fail(ErrorCode::kProtocol, fmt::format("payload of {} bytes; at most {} are allowed", length, kMaxPayload));
  if (bytes.size() < kHeaderSize + length) return std::nullopt;
  auto message = read_payload(byte(3) - 1u, bytes.subspan(kHeaderSize, length));
  if (!message) return fail(ErrorCode::kProtocol, fmt::format("malformed payload in a message of type {}", byte(3)));
  return Decoded{std::move(*message), kHeaderSize + length};
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "net/admission.h"

#include <algorithm>

namespace tutti::net {
namespace {

constexpr std::int64_t kRequestOverhead = 1024;  // estimated memory per request of one extent, in bytes
constexpr std::int64_t kUsualBody = 256;         // of such a request
// Memory of each further extent in data path and scheduler, relative to its size in the message.
constexpr std::int64_t kExtentFactor = 16;

// Largest body of the reply, in bytes, for types whose replies can be much larger than the request.
std::int64_t reply_body(wire::Type type) {
  switch (type) {
    case wire::Type::kReadDirectory:
    case wire::Type::kListXattr:
    case wire::Type::kPolicyShow:
    case wire::Type::kStatistics:
      return wire::kMaxBody;
    case wire::Type::kGetXattr:
      return wire::kMaxXattr;
    default:
      return 0;
  }
}

// The first entry with a tag of at least `tag`. Near the end, for clients whose tags ascend.
template <typename List>
auto find(List& list, std::uint64_t tag) {
  return std::ranges::lower_bound(list, tag, {}, [](const auto& entry) { return entry.first; });
}

}  // namespace

Charge charge_of(const wire::Header& header, std::span<const std::byte> body) {
  const std::int64_t length = header.body_length;
  const bool list = header.type == wire::Type::kRead || header.type == wire::Type::kWrite;
  const std::int64_t extents = list ? std::max<std::int64_t>(length - kUsualBody, 0) * kExtentFactor : 0;
  return {.bytes = header.payload_length + wire::reply_payload(header, body).count(),
          .memory = kRequestOverhead + length + extents + reply_body(header.type),
          .credit = WriteMemory::credit_for(header.payload_length)};
}

Admission::Verdict Admission::check(const wire::Limits& limits, std::uint64_t tag, const Charge& charge) const {
  if (const auto found = find(open_, tag); found != open_.end() && found->first == tag) return Verdict::kRepeated;
  if (credit_ + charge.credit > most_credit_) return Verdict::kOver;
  const InFlight all{open_.size() + unsent_, bytes_};
  return all.fits(limits, charge.bytes) ? Verdict::kFits : Verdict::kOver;
}

void Admission::add(std::uint64_t tag, const Charge& charge) {
  open_.emplace(find(open_, tag), tag, charge);
  bytes_ += charge.bytes;
  credit_ += charge.credit;
}

std::optional<Charge> Admission::answered(std::uint64_t tag) {
  const auto found = find(open_, tag);
  if (found == open_.end() || found->first != tag) return std::nullopt;
  const Charge charge = found->second;
  open_.erase(found);
  ++unsent_;
  credit_ -= charge.credit;
  return charge;
}

}  // namespace tutti::net

// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/plan_execution.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "base/live_world.h"

namespace tutti::mpi {
namespace {

using collective::Exchange;
using collective::Extent;
using collective::IoRequest;
using collective::PackedMemory;
using collective::PlanKind;

constexpr int kDataTag = 1, kStartTag = 2;
// In front of the data of a read: the end of the file, as the sender found it.
constexpr std::uint64_t kEndBytes = sizeof(std::uint64_t);
// Requests of a rank's own bytes go through a buffer of this size if its memory is not contiguous.
constexpr std::uint64_t kOwnBuffer = std::uint64_t{4} << 20;

// Between calls a file keeps up to this many times its setting `buffer` of each kind of memory.
constexpr std::uint64_t kMostKept = 2;

template <typename Item>
std::span<const Item> in_round(const std::vector<Item>& items, std::uint32_t round) {
  const auto [first, last] = std::equal_range(items.begin(), items.end(), Item{.round = round},
                                              [](const Item& a, const Item& b) { return a.round < b.round; });
  return {first, last};
}

// Adds the time of its scope to a counter of nanoseconds, and to `also`.
class Timed {
 public:
  explicit Timed(std::uint64_t& counter, std::int64_t* also = nullptr)
      : counter_(counter), also_(also), start_(now()) {}
  ~Timed() {
    const auto time = (now() - start_).count();
    add(counter_, static_cast<std::uint64_t>(time));
    if (also_) *also_ += time;
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  static TimePoint now() { return live_world().clock().steady(); }
  std::uint64_t& counter_;
  std::int64_t* const also_;
  TimePoint start_;
};

}  // namespace

PlanExecution::PlanExecution(OpenFile& file, const collective::RankPlan& plan, const collective::AccessList& mine,
                             const Memory& memory, Direction direction, CallMemory& memory_for_call, const Stamp* stamp)
    : file_(file),
      plan_(plan),
      mine_(mine),
      memory_(memory),
      direction_(direction),
      memory_for_call_(memory_for_call),
      stamp_(stamp) {}

bool PlanExecution::exchanges() const {
  return plan_.kind == PlanKind::kResonant || plan_.kind == PlanKind::kTwoPhase;
}

PlanExecution::Round PlanExecution::round_of(std::uint32_t number) const {
  return {in_round(plan_.requests, number), in_round(plan_.direct, number), in_round(plan_.sends, number),
          in_round(plan_.receives, number)};
}

std::uint64_t PlanExecution::size_of(const Exchange& exchange) const {
  std::uint64_t size = 0;
  for (const Extent& extent : plan_.of(exchange.extents)) size += extent.length;
  return size;
}

bool PlanExecution::to_itself(const Exchange& exchange) const {
  return exchange.peer == static_cast<collective::Rank>(file_.rank);
}

// Memory for the messages of a round. If many ranks read the same bytes, an agent sends them to each: what it sends
// shares the size of one buffer (outgoing()).
std::uint64_t PlanExecution::message_bytes(const Round& round) const {
  std::uint64_t received = 0, sent = 0, largest = 0;
  for (const Exchange& exchange : round.receives) received += size_of(exchange) + kEndBytes;
  for (const Exchange& exchange : round.sends) {
    if (to_itself(exchange)) continue;
    largest = std::max(largest, size_of(exchange) + kEndBytes);
    sent += size_of(exchange) + kEndBytes;
  }
  if (direction_ == Direction::kRead) sent = std::min(sent, std::max(largest, file_.settings.plan.buffer.count()));
  return received + sent;
}

std::int64_t PlanExecution::prepare() try {
  std::uint64_t largest_buffer = 0;
  for (std::uint32_t number = 0; exchanges() && number < plan_.rounds; ++number) {
    const Round round = round_of(number);
    std::uint64_t size = 0;
    for (const IoRequest& request : round.requests)
      for (const Extent& extent : plan_.of(request.extents)) size += extent.length;
    largest_buffer = std::max(largest_buffer, size);
    messages_size_ = std::max(messages_size_, message_bytes(round));
  }
  const bool own = !exchanges() || plan_.read_form == collective::ReadForm::kDirect;
  if (own && !memory_.contiguous()) largest_buffer = std::max(largest_buffer, kOwnBuffer);
  buffer_ = memory_for_call_.buffer.get(largest_buffer);
  messages_ = memory_for_call_.messages.get(messages_size_);
  if (plan_.requests.empty() && plan_.direct.empty()) return kFine;
  if (const auto opened = file_.data->open(); !opened) {
    Process::current().say_once(opened.error().message + "; collective calls are left to the MPI library");
    return kFallBack;
  }
  return kFine;
} catch (const std::exception&) {  // no memory, or no thread for the connection to the nodes
  Process::current().say_once("not enough memory for a call; it is left to the MPI library");
  return kFallBack;
}

Agreement PlanExecution::run() {
  const TimePoint start = live_world().clock().steady();
  if (exchanges()) {
    if (const std::int64_t ready = agree(file_, prepare()); ready != kFine) return {.code = ready};
    for (std::uint32_t number = 0; number < plan_.rounds; ++number)
      direction_ == Direction::kWrite ? write_round(round_of(number)) : read_round(round_of(number));
  } else {
    own_requests();
  }
  result_.all = (live_world().clock().steady() - start).count();
  memory_for_call_.keep_at_most(kMostKept * file_.settings.plan.buffer.count());
  return agree(file_, result_);
}

Agreement PlanExecution::run_alone() {
  own_requests();
  return result_;
}

void PlanExecution::wait_to_start() {
  next_started_ = false;
  if (plan_.start_rule.after)
    PMPI_Recv(nullptr, 0, MPI_BYTE, static_cast<int>(*plan_.start_rule.after), kStartTag, file_.comm,
              MPI_STATUS_IGNORE);
}

void PlanExecution::let_next_start() {
  if (std::exchange(next_started_, true)) return;
  if (plan_.start_rule.next)
    PMPI_Send(nullptr, 0, MPI_BYTE, static_cast<int>(*plan_.start_rule.next), kStartTag, file_.comm);
}

void PlanExecution::own_requests() {
  result_.code = prepare();
  for (std::uint32_t number = 0; number < plan_.rounds; ++number) {
    wait_to_start();
    if (result_.code == kFine)  // else there is no buffer
      for (const IoRequest& request : round_of(number).requests) move_own(plan_.of(request.extents));
    let_next_start();
  }
}

void PlanExecution::do_io(std::span<const FilePart> parts) try {
  if (result_.code != kFine) return;
  const Timed timed(file_.counters.io, &result_.io);
  Issue issue{.stamp = stamp_, .delay = plan_.start_rule.delay};
  if (plan_.nonblocking && plan_.start_rule.next && !next_started_) issue.issued = [this] { let_next_start(); };
  std::optional<Error> error;
  if (direction_ == Direction::kWrite) {
    if (const auto done = file_.data->write(parts, issue); !done) error = done.error();
  } else {
    const auto done = file_.data->read(parts, issue);
    if (!done)
      error = done.error();
    else if (*done < static_cast<std::uint64_t>(INT64_MAX))
      result_.value = std::min(result_.value, static_cast<std::int64_t>(*done));
  }
  if (!error) return;
  Process::current().say_once(error->message);
  result_.code = error_class_of(*error);
} catch (const std::exception&) {  // this rank continues, because others wait for it
  result_.code = MPI_ERR_NO_MEM;
}

// Between the file and the rank's memory.
void PlanExecution::move_own(std::span<const Extent> extents) {
  parts_.clear();
  for (const Extent& extent : extents) mine_.find(extent, parts_);
  if (!memory_.contiguous()) return move_own_through(parts_);
  file_parts_.clear();
  for (const Part& part : parts_)
    file_parts_.push_back({part.offset, memory_.contiguous() + part.position, part.length});
  do_io(file_parts_);
}

// The same through the buffer.
void PlanExecution::move_own_through(std::span<const Part> parts) {
  std::vector<Part> chunk;
  std::uint64_t filled = 0;
  const auto flush = [&] {
    if (direction_ == Direction::kWrite) do_io(file_parts_);
    if (direction_ == Direction::kRead) {
      do_io(file_parts_);
      for (std::size_t i = 0; result_.code == kFine && i < chunk.size(); ++i) {
        const auto end = static_cast<std::uint64_t>(result_.value);
        if (chunk[i].offset >= end) continue;
        memory_.scatter(chunk[i].position, {file_parts_[i].memory, std::min(chunk[i].length, end - chunk[i].offset)});
      }
    }
    chunk.clear();
    file_parts_.clear();
    filled = 0;
  };
  file_parts_.clear();
  for (Part part : parts) {
    while (part.length > 0) {
      const std::uint64_t length = std::min(part.length, kOwnBuffer - filled);
      std::byte* const at = buffer_ + filled;
      if (direction_ == Direction::kWrite) memory_.gather(part.position, {at, length});
      chunk.push_back({part.offset, part.position, length});
      file_parts_.push_back({part.offset, at, length});
      filled += length;
      part = {part.offset + length, part.position + length, part.length - length};
      if (filled == kOwnBuffer) flush();
    }
  }
  flush();
}

PackedMemory PlanExecution::buffer_of(Requests requests) const {
  std::vector<Extent> extents;
  for (const IoRequest& request : requests)
    for (const Extent& extent : plan_.of(request.extents)) extents.push_back(extent);
  return PackedMemory(collective::compress(extents));
}

// Between the file and the buffer of the round. System calls are made in the order of the requests. Through nodes, one
// request per target is under way at a time: several at one target would mix there, but targets work side by side.
void PlanExecution::move_all(Requests requests, const PackedMemory& buffer) {
  std::map<TargetId, std::size_t> step_of;  // of the next request of a target
  std::vector<std::vector<const IoRequest*>> steps;
  for (const IoRequest& request : requests) {
    std::size_t step = steps.size();
    if (file_.carried && request.target) step = step_of[*request.target]++;
    if (step >= steps.size()) steps.resize(step + 1);
    steps[step].push_back(&request);
  }
  for (const auto& step : steps) {
    parts_.clear();
    for (const IoRequest* request : step)
      for (const Extent& extent : plan_.of(request->extents)) buffer.find(extent, parts_);
    file_parts_.clear();
    for (const Part& part : parts_) file_parts_.push_back({part.offset, buffer_ + part.position, part.length});
    do_io(file_parts_);
  }
}

void PlanExecution::gather_own(const Exchange& exchange, std::byte* into) {
  parts_.clear();
  for (const Extent& extent : plan_.of(exchange.extents)) mine_.find(extent, parts_);
  for (const Part& part : parts_) {
    memory_.gather(part.position, {into, part.length});
    into += part.length;
  }
}

// Bytes from `end` of the file on are not changed.
void PlanExecution::scatter_own(const Exchange& exchange, const std::byte* from, std::uint64_t end) {
  for (const Extent& extent : plan_.of(exchange.extents)) {
    parts_.clear();
    mine_.find(extent, parts_);
    for (const Part& part : parts_) {
      if (part.offset >= end) continue;
      memory_.scatter(part.position, {from + (part.offset - extent.offset), std::min(part.length, end - part.offset)});
    }
    from += extent.length;
  }
}

// Assigns memory to what is received in a round and posts the receives. `header`: bytes in front of the data.
void PlanExecution::post(const Round& round, std::uint64_t header) {
  received_.clear();
  std::byte* at = messages_;
  for (const Exchange& exchange : round.receives) {
    const std::uint64_t size = size_of(exchange) + header;
    received_.push_back(at);
    if (!to_itself(exchange)) receive(exchange.peer, {at, size});
    at += size;
  }
  outgoing_ = next_outgoing_ = at;
}

// Memory for a message that is sent. That to the rank itself is where it is received. If there is no memory left, all
// messages before it must have arrived; they do, because all ranks post the receives of a round before they wait.
std::byte* PlanExecution::outgoing(const Round& round, const Exchange& exchange, std::uint64_t size) {
  if (to_itself(exchange)) {
    const auto own = std::find_if(round.receives.begin(), round.receives.end(),
                                  [this](const Exchange& received) { return to_itself(received); });
    assert(own != round.receives.end());
    return received_[static_cast<std::size_t>(own - round.receives.begin())];
  }
  const std::byte* const end = messages_ + messages_size_;
  if (size > static_cast<std::uint64_t>(end - next_outgoing_)) {
    finish(sending_);
    next_outgoing_ = outgoing_;
  }
  assert(size <= static_cast<std::uint64_t>(end - next_outgoing_));
  return std::exchange(next_outgoing_, next_outgoing_ + size);
}

// MPI counts the bytes of a message with an int. Larger ones are divided; MPI keeps their order.
std::size_t PlanExecution::piece_of(std::span<const std::byte> message) const {
  return std::min<std::size_t>(message.size(), file_.settings.plan.buffer.count());
}

void PlanExecution::receive(collective::Rank peer, std::span<std::byte> message) {
  while (!message.empty()) {
    const std::size_t piece = piece_of(message);
    receiving_.push_back(MPI_REQUEST_NULL);
    check(PMPI_Irecv(message.data(), static_cast<int>(piece), MPI_BYTE, static_cast<int>(peer), kDataTag, file_.comm,
                     &receiving_.back()));
    message = message.subspan(piece);
  }
}

void PlanExecution::send(const Exchange& exchange, std::span<const std::byte> message) {
  if (to_itself(exchange)) return;
  while (!message.empty()) {
    const std::size_t piece = piece_of(message);
    sending_.push_back(MPI_REQUEST_NULL);
    check(PMPI_Isend(message.data(), static_cast<int>(piece), MPI_BYTE, static_cast<int>(exchange.peer), kDataTag,
                     file_.comm, &sending_.back()));
    message = message.subspan(piece);
  }
}

void PlanExecution::finish(std::vector<MPI_Request>& messages) {
  if (!messages.empty()) check(PMPI_Waitall(static_cast<int>(messages.size()), messages.data(), MPI_STATUSES_IGNORE));
  messages.clear();
}

// The result of a call that sends or receives data. If one fails, so does the collective call.
void PlanExecution::check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, text, &length);
  Process::current().say_once(std::string("a message of a collective call failed: ") + text);
  if (result_.code == kFine) result_.code = MPI_ERR_IO;
}

void PlanExecution::write_round(const Round& round) {
  const PackedMemory buffer = buffer_of(round.requests);
  {
    const Timed timed(file_.counters.exchange);
    post(round, 0);
    for (const Exchange& exchange : round.sends) {
      const std::uint64_t size = size_of(exchange);
      std::byte* const message = outgoing(round, exchange, size);
      gather_own(exchange, message);
      send(exchange, {message, size});
    }
    finish(receiving_);
    finish(sending_);
    for (std::size_t i = 0; i < round.receives.size(); ++i) {
      const std::byte* from = received_[i];
      for (const Extent& extent : plan_.of(round.receives[i].extents)) {
        parts_.clear();
        buffer.find(extent, parts_);
        for (const Part& part : parts_)
          std::memcpy(buffer_ + part.position, from + (part.offset - extent.offset), part.length);
        from += extent.length;
      }
    }
  }
  wait_to_start();
  move_all(round.requests, buffer);
  let_next_start();
}

void PlanExecution::read_round(const Round& round) {
  if (plan_.read_form == collective::ReadForm::kDirect) return read_directly(round);
  const PackedMemory buffer = buffer_of(round.requests);
  post(round, kEndBytes);
  wait_to_start();
  move_all(round.requests, buffer);
  let_next_start();
  const Timed timed(file_.counters.exchange);
  const auto end = static_cast<std::uint64_t>(result_.value);
  for (const Exchange& exchange : round.sends) {
    const std::uint64_t size = size_of(exchange) + kEndBytes;
    std::byte* const message = outgoing(round, exchange, size);
    std::memcpy(message, &end, kEndBytes);
    std::byte* into = message + kEndBytes;
    parts_.clear();
    for (const Extent& extent : plan_.of(exchange.extents)) buffer.find(extent, parts_);
    for (const Part& part : parts_) {
      std::memcpy(into, buffer_ + part.position, part.length);
      into += part.length;
    }
    send(exchange, {message, size});
  }
  finish(receiving_);
  finish(sending_);
  for (std::size_t i = 0; i < round.receives.size(); ++i) {
    std::uint64_t sender_end = 0;
    std::memcpy(&sender_end, received_[i], kEndBytes);
    scatter_own(round.receives[i], received_[i] + kEndBytes, sender_end);
  }
}

// Agents make the servers read; then every rank reads its own bytes from their caches.
void PlanExecution::read_directly(const Round& round) {
  wait_to_start();
  for (const IoRequest& request : round.requests) file_.data->prefetch(plan_.of(request.extents));
  let_next_start();
  {
    const Timed timed(file_.counters.exchange);
    PMPI_Barrier(file_.comm);
  }
  for (const Exchange& exchange : round.receives) move_own(plan_.of(exchange.extents));
  for (const IoRequest& request : round.direct) move_own(plan_.of(request.extents));
}

}  // namespace tutti::mpi

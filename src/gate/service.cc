// SPDX-License-Identifier: Apache-2.0
#include "gate/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/mutex.h"
#include "base/table.h"
#include "gate/status.h"

namespace tutti::gate {
namespace {

constexpr std::uint32_t kMaxBody = 36 << 10;  // an ask with kMaxTargetRanges ranges
constexpr std::size_t kMaxJobName = 200;
constexpr std::uint64_t kUnproven = UINT64_MAX;                  // no job has this number
constexpr Duration kStatusFor = std::chrono::milliseconds(100);  // a status document is reused for this long

// For logs and terminals.
std::string printable_name(std::string name) {
  name.resize(std::min(name.size(), kMaxJobName));
  return printable(std::move(name));
}

ErrorCode code_of(Refusal refusal) {
  constexpr ErrorCode kCodes[] = {ErrorCode::kInvalid, ErrorCode::kDuplicate, ErrorCode::kNotFound,
                                  ErrorCode::kTimeout, ErrorCode::kDuplicate, ErrorCode::kFull};
  return kCodes[static_cast<std::size_t>(refusal)];
}

wire::GateState state_of(AnswerKind kind) {
  if (kind == AnswerKind::kQueued) return wire::GateState::kQueued;
  return kind == AnswerKind::kLost ? wire::GateState::kLost : wire::GateState::kHolding;
}

// The number under which a session counts. Numbers that are stated, but not proven (net::JobCheck), are one job of
// their user: processes of a job must not wait for each other.
std::uint64_t counted_number(const net::Peer& peer, std::uint64_t stated) {
  if (!peer.application) return stated;
  if (*peer.application != 0) return std::uint64_t{*peer.application} + 1;
  return stated == 0 ? 0 : kUnproven;
}

}  // namespace

Result<std::unique_ptr<GateService>> GateService::create(World& world, Options options) {
  const TimePoint started = world.clock().now();
  if (options.recover_for > Duration::zero()) options.table.recover_until = started + options.recover_for;
  auto table = LockTable::create(options.table);
  if (!table) return Failure(table.error());
  return std::unique_ptr<GateService>(new GateService(world, std::move(options), std::move(*table), started));
}

GateService::GateService(World& world, Options options, LockTable table, TimePoint started)
    : world_(world),
      options_(std::move(options)),
      started_(started),
      started_steady_(world.clock().steady()),
      table_(std::move(table)) {
  timer_ = world.make_timer([this] { tick(); });
  Lock lock(mutex_);
  set_timer();
}

GateService::~GateService() {
  {
    Lock lock(mutex_);
    stopping_ = true;  // its task may be running and must not set it again
  }
  timer_.reset();
}

net::ListenOptions GateService::listen_options() {
  net::ListenOptions options;
  options.node = "gate";
  options.limits = {.requests = 8, .bytes = 1};
  options.max_body = kMaxBody;
  options.max_payload = 0;
  options.pool = net::BufferPool::create(Bytes(1 << 16));
  return options;
}

bool GateService::recovering() const {
  Lock lock(mutex_);
  return table_.recovering();
}

bool GateService::stop() {
  Lock lock(mutex_);
  stopping_ = true;
  return !table_.recovering() && table_.holding() == 0 && table_.waiting() == 0;
}

void GateService::log(const ConnectedSession& session, std::string_view what) const {
  if (options_.log)
    options_.log(
        fmt::format("job '{}' of user {} (process {}): {}", session.name, session.job.user, session.process, what));
}

void GateService::connected(const net::ConnectionPointer&) {
  Lock lock(mutex_);
  ++connections_;
}

void GateService::received(const net::ConnectionPointer& from, net::Incoming message) {
  std::vector<net::ConnectionPointer> close;
  {
    Lock lock(mutex_);
    if (stopping_) return;
    time_ = now();
    HandledRequest request{.from = from, .message = message};
    handle(request);
    deliver(&request);
    close.swap(to_close_);
  }
  for (const auto& connection : close)
    connection->close({ErrorCode::kProtocol, "the session was taken over, or too many requests were refused"});
}

void GateService::closed(const net::ConnectionPointer& connection, const Error& why) {
  Lock lock(mutex_);
  --connections_;
  ConnectedSession* const session = session_of(*connection);
  if (!session) return;
  time_ = now();
  const bool closed_by_peer = why.code == ErrorCode::kUnreachable && why.system == 0;
  session->ask_unanswered = false;
  if (!closed_by_peer && !stopping_ && table_.holds(session->id)) {
    log(*session, "the connection was lost; the turn stays until its lease ends");
    session->connection = nullptr;
    return;
  }
  forget(*session);
  deliver(nullptr);
}

void GateService::forget(const ConnectedSession& session) {
  const SessionId id = session.id;
  by_client_.erase({session.job.user, session.number});
  sessions_[id].reset();
  unused_.push_back(id);
  if (!stopping_) table_.disconnect(id, time_);
}

void GateService::handle(HandledRequest& request) {
  const auto type = request.message.header.type;
  if (type == wire::Type::kGateStatus) return status(request);
  if (type == wire::Type::kGateOpen) return open(request);
  request.session = session_of(*request.from);
  if (!request.session) return fail_request(request, {ErrorCode::kProtocol, "open a session first"});
  if (type == wire::Type::kGateAsk) return ask(request);
  if (type == wire::Type::kGateRenew) return renew(request);
  if (type == wire::Type::kGateRelease) return release(request);
  fail_request(request, {ErrorCode::kProtocol, fmt::format("a gate does not serve {} messages", wire::name(type))});
}

template <typename Message>
std::optional<Message> GateService::decode(HandledRequest& request) {
  auto message = wire::decode<Message>(request.message.header, request.message.body);
  if (message) return std::move(*message);
  fail_request(request, message.error());
  return std::nullopt;
}

void GateService::open(HandledRequest& request) {
  const auto message = decode<wire::GateOpenRequest>(request);
  if (!message) return;
  if (session_of(*request.from))
    return fail_request(request, {ErrorCode::kDuplicate, "this connection already has a session"});
  const std::uint32_t user = request.from->peer().identity.uid;
  auto [it, fresh] = by_client_.try_emplace({user, message->session}, nullptr);
  if (fresh) {
    if (unused_.empty()) {
      unused_.push_back(sessions_.size());
      sessions_.emplace_back();
    }
    const SessionId id = unused_.back();
    unused_.pop_back();
    sessions_[id] = std::make_unique<ConnectedSession>();
    it->second = sessions_[id].get();
    *it->second = {.id = id,
                   .number = message->session,
                   .job = {.user = user, .number = counted_number(request.from->peer(), message->number)},
                   .name = printable_name(request.from->peer().job),
                   .process = message->process};
  } else {  // the client reconnected before its old connection was closed
    if (it->second->connection) {
      it->second->connection->context = nullptr;
      to_close_.push_back(it->second->connection);
    }
    if (it->second->ask_ticket != message->ticket) table_.disconnect(it->second->id, time_);
  }
  it->second->connection = request.from;
  it->second->ask_unanswered = false;                             // it was asked on the old connection
  request.from->context = {std::shared_ptr<void>(), it->second};  // sessions_ owns it
  const wire::GateOpenReply reply{.lease = options_.table.lease, .targets = options_.table.targets};
  request.from->send({.frame = wire::encode(reply, {.tag = request.message.header.tag})});
}

void GateService::ask(HandledRequest& request) {
  auto message = decode<wire::GateAskRequest>(request);
  if (!message) return;
  using Claim = wire::GateAskRequest::Claim;
  const TargetList list{.all = message->all, .ranges = std::move(message->targets)};
  auto targets = list.resolve(options_.table.targets);
  if (!targets) return fail_request(request, targets.error());
  request.ticket = message->ticket;
  const ConnectedSession& session = *request.session;
  Ask ask{.ticket = message->ticket,
          .id = session.job,
          .job = session.name,
          .targets = std::move(*targets),
          .bytes = Bytes(message->bytes)};
  const LockTable::EarlierAnswer earlier{.arrived = message->arrived == TimePoint{} ? time_ : message->arrived,
                                         .group = message->group};
  if (message->claim == Claim::kNew) return table_.request(session.id, std::move(ask), time_);
  if (message->claim == Claim::kHeld) return table_.reassert_holding(session.id, std::move(ask), earlier, time_);
  table_.reassert_waiting(session.id, std::move(ask), earlier, time_);
}

void GateService::renew(HandledRequest& request) {
  const auto message = decode<wire::GateRenewRequest>(request);
  if (!message) return;
  request.ticket = message->ticket;
  table_.renew(request.session->id, message->ticket, time_);
}

void GateService::release(HandledRequest& request) {
  const auto message = decode<wire::GateRelease>(request);
  if (!message) return;
  request.ticket = message->ticket;
  if (request.session->ask_unanswered) answer_queued(*request.session);
  table_.release(request.session->id, message->ticket, time_);
}

void GateService::status(HandledRequest& request) {
  const auto message = decode<wire::GateStatusRequest>(request);
  if (!message) return;
  const TimePoint begun = world_.clock().steady();
  std::uint64_t offset = message->offset;
  if (message->document != document_.number || document_.number == 0) {
    offset = 0;
    if (begun >= document_.fresh_until) {
      const ServiceFacts facts{
          .connections = connections_,
          .uptime = time_ - started_,
          .refused = refused_,
          .authentication = options_.authentication,
          .process = [this](SessionId id) TUTTI_REQUIRES(mutex_) { return sessions_[id]->process; }};
      document_.text = status_document(table_, facts, time_);
      ++document_.number;
      // Use at most a tenth of the gate's time for status documents, however often they are requested.
      const TimePoint made = world_.clock().steady();
      document_.fresh_until = made + std::max(kStatusFor, 10 * (made - begun));
    }
  }
  if (offset > document_.text.size())
    return fail_request(request, {ErrorCode::kInvalid, "the offset is past the end of the status"});
  const std::string_view rest = std::string_view(document_.text).substr(offset);
  const wire::GateStatusReply reply{.document = document_.number,
                                    .offset = offset,
                                    .last = rest.size() <= wire::kMaxStatusPiece,
                                    .text = std::string(rest.substr(0, wire::kMaxStatusPiece))};
  request.from->send({.frame = wire::encode(reply, {.tag = request.message.header.tag})});
}

void GateService::fail_request(HandledRequest& request, const Error& error) {
  request.answered = true;
  ++refused_;
  const wire::Header& header = request.message.header;
  if (!wire::is_one_way(header.type))
    request.from->send({.frame = wire::encode_failure(header.type, header.tag, wire::to_head(error))});
  ConnectedSession* const session = request.session;
  if (!session) return;
  if (session->refusals < kMaxRefusals) log(*session, "refused: " + error.message);
  if (++session->refusals == kMaxRefusals) to_close_.push_back(request.from);
}

void GateService::deliver(HandledRequest* request) {
  for (const Answer& answer : table_.answers()) post(answer, request);
  table_.clear_answers();
  set_timer();
}

void GateService::post(const Answer& answer, HandledRequest* request) {
  const bool reply = request && request->session && !request->answered && request->session->id == answer.session &&
                     request->ticket == answer.ticket;
  if (answer.kind == AnswerKind::kRefused) {
    if (reply) fail_request(*request, {code_of(answer.refusal), explain(answer.refusal)});
    return;
  }
  if (!sessions_[answer.session]) return;
  ConnectedSession& session = *sessions_[answer.session];
  if (answer.kind == AnswerKind::kLost) log(session, "the lease expired");
  if (!session.connection) return answer.kind == AnswerKind::kLost ? forget(session) : void();
  if (reply) request->answered = true;
  if (reply && request->message.header.type == wire::Type::kGateRenew) {
    const wire::GateRenewRequest::Reply renewed{
        .state = state_of(answer.kind), .arrived = answer.arrived, .group = answer.group};
    return session.connection->send({.frame = wire::encode(renewed, {.tag = request->message.header.tag})});
  }
  if (reply) {
    session.ask_tag = request->message.header.tag;
    session.ask_ticket = answer.ticket;
  } else if (session.ask_ticket != answer.ticket) {
    return;
  }
  if (answer.kind == AnswerKind::kGranted) last_wait_ = time_ - answer.arrived;
  session.ask_unanswered = reply && answer.kind == AnswerKind::kQueued && last_wait_ < kQueuedAfter;
  if (session.ask_unanswered) {
    session.ask_arrived = answer.arrived;
    unanswered_.push_back({session.id, answer.ticket, time_ + kQueuedAfter});
    return;
  }
  const wire::GateAskRequest::Reply asked{
      .state = state_of(answer.kind), .arrived = answer.arrived, .group = answer.group};
  session.connection->send({.frame = wire::encode(asked, {.tag = session.ask_tag})});
}

void GateService::answer_queued(ConnectedSession& session) {
  session.ask_unanswered = false;
  const wire::GateAskRequest::Reply asked{.state = wire::GateState::kQueued, .arrived = session.ask_arrived};
  session.connection->send({.frame = wire::encode(asked, {.tag = session.ask_tag})});
}

// The session that waits for this answer; nullptr: it has been answered, or the session has ended.
GateService::ConnectedSession* GateService::waits_for(const UnansweredAsk& ask) {
  ConnectedSession* const session = sessions_[ask.session].get();
  return session && session->ask_unanswered && session->ask_ticket == ask.ticket ? session : nullptr;
}

// A timer that fires too early only costs one call of tick().
void GateService::set_timer() {
  while (!unanswered_.empty() && !waits_for(unanswered_.front())) unanswered_.pop_front();
  const auto deadline = table_.next_deadline();
  const TimePoint next =
      std::min(deadline.value_or(TimePoint::max()), unanswered_.empty() ? TimePoint::max() : unanswered_.front().due);
  if (next == TimePoint::max() || stopping_) return;
  const TimePoint when = started_steady_ + (next - started_);
  if (when < timer_at_) timer_->set(timer_at_ = when);
}

void GateService::tick() {
  Lock lock(mutex_);
  timer_at_ = TimePoint::max();
  if (stopping_) return;
  time_ = now();
  table_.advance(time_);
  deliver(nullptr);
  for (; !unanswered_.empty() && unanswered_.front().due <= time_; unanswered_.pop_front())
    if (ConnectedSession* const session = waits_for(unanswered_.front())) answer_queued(*session);
  set_timer();
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "gate/live_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <optional>

#include "base/live_world.h"
#include "base/mutex.h"
#include "base/units.h"
#include "gate/live_address.h"
#include "gate/turns.h"
#include "net/munge.h"

namespace tutti::gate {
namespace {

constexpr Duration kStatusPatience = std::chrono::minutes(1);  // for the whole document

// Leaves `value` as it is if the variable is not set.
Result<void> read_duration(const char* name, Duration& value) {
  const char* text = std::getenv(name);
  if (!text || !*text) return {};
  const auto parsed = parse_duration(text);
  if (!parsed) return fail(ErrorCode::kInvalid, fmt::format("{}: {}", name, parsed.error().message));
  value = *parsed;
  return {};
}

Result<GateClient::Options> core_options(const LiveGateOptions& given) {
  if (given.answer_bound <= Duration::zero())
    return fail(ErrorCode::kInvalid, "the maximum time to wait for an answer of the gate must be more than 0");
  auto endpoint = parse_address(given.address);
  if (!endpoint) return Failure(endpoint.error());
  GateClient::Options options{.endpoint = std::move(*endpoint),
                              .number = given.number,
                              .process = static_cast<std::uint32_t>(::getpid()),
                              .answer_bound = given.answer_bound,
                              .max_wait = given.max_wait,
                              .say = given.say};
  options.connect.job = given.job;
  options.connect.claimed_job = given.claimed_job;
  options.connect.munge = net::munge_available();
  if (options.endpoint.kind == net::Endpoint::Kind::kUnix)
    options.connect.node_user = trusted_owner(options.endpoint.name);
  if (!given.key_file.empty()) {
    auto key = net::load_key(given.key_file);
    if (!key) return Failure(key.error());
    options.connect.key = std::move(*key);
  }
  return options;
}

// Waits for one reply at a time.
class StatusReader final : public net::Handler {
 public:
  Result<wire::GateStatusReply> ask(net::Connection& connection, const wire::GateStatusRequest& request,
                                    Duration timeout) {
    Lock lock(mutex_);
    reply_.reset();
    connection.send({.frame = wire::encode(request, {.tag = ++tag_})});
    if (!changed_.wait_for(lock, timeout, [&]() TUTTI_REQUIRES(mutex_) { return reply_.has_value(); }))
      return fail(ErrorCode::kTimeout, "the gate does not answer");
    return *reply_;
  }
  void received(const net::ConnectionPointer&, net::Incoming message) override {
    auto reply = wire::decode<wire::GateStatusReply>(message.header, message.body);
    if (reply && reply->head.status != wire::kOk) reply = Failure(wire::to_error(reply->head));
    set(std::move(reply), message.header.tag);
  }
  void closed(const net::ConnectionPointer&, const Error& why) override { set(Failure(why), tag_); }

 private:
  void set(Result<wire::GateStatusReply> reply, std::uint64_t tag) {
    Lock lock(mutex_);
    if (tag == tag_) reply_ = std::move(reply);
    changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<wire::GateStatusReply>> reply_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> tag_{0};
};

}  // namespace

void LiveGateOptions::set_job(const job::Identity& identity) {
  job = identity.name;
  number = identity.numbered ? identity.number + 1 : 0;
  claimed_job = {identity.application, identity.numbered};
}

Result<void> LiveGateOptions::read_environment() {
  if (const char* key = std::getenv("TUTTI_GATE_KEY")) key_file = key;
  if (auto read = read_duration("TUTTI_GATE_ANSWER", answer_bound); !read) return read;
  return read_duration("TUTTI_GATE_MAX_WAIT", max_wait);
}

Result<std::unique_ptr<LiveGateClient>> LiveGateClient::create(LiveGateOptions given) {
  auto options = core_options(given);
  if (!options) return Failure(options.error());
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  return std::unique_ptr<LiveGateClient>(
      new LiveGateClient(std::make_unique<GateClient>(live_world(), std::move(*transport), std::move(*options))));
}

GateOutcome LiveGateClient::begin(const TargetList& targets, Bytes bytes) {
  struct {
    Mutex mutex;
    std::condition_variable decided;
    std::optional<GateOutcome> outcome;
  } wait;
  core_->begin(targets, bytes, [&wait](GateOutcome result) {
    Lock lock(wait.mutex);
    wait.outcome = result;
    wait.decided.notify_one();  // with the mutex held: `wait` may be destroyed afterwards
  });
  core_->attend();
  Lock lock(wait.mutex);
  wait.decided.wait(lock, [&] { return wait.outcome.has_value(); });
  return *wait.outcome;
}

Result<std::unique_ptr<job::Turns>> make_live_turns(const LiveGateOptions& given) {
  auto options = core_options(given);
  if (!options) return Failure(options.error());
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  return std::make_unique<GateTurns>(live_world(), std::move(*transport), std::move(*options));
}

Result<std::string> query_status(const LiveGateOptions& given, Duration timeout) {
  auto options = core_options(given);
  if (!options) return Failure(options.error());
  options->connect.timeout = timeout;
  StatusReader reader;
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  const auto connection = net::connect_and_wait(**transport, options->endpoint, options->connect, reader);
  if (!connection) return Failure(connection.error());
  wire::GateStatusRequest request;
  std::string document;
  for (const TimePoint until = net::steady_now() + kStatusPatience; net::steady_now() < until;) {
    auto part = reader.ask(**connection, request, timeout);
    if (!part) return Failure(part.error());
    if (part->document != request.document) document.clear();  // the gate made a new document
    if (part->offset != document.size()) return fail(ErrorCode::kProtocol, "the gate sent a wrong part of its status");
    document += part->text;
    if (part->last) return document;
    request = {.document = part->document, .offset = document.size()};
  }
  return fail(ErrorCode::kTimeout, "the gate's status changes faster than it can be read");
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
#include "gate/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "gate/channel.h"

namespace tutti::gate {

const char* explain(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGranted:
      return "granted";
    case Outcome::kUnreachable:
      return "the gate cannot be reached";
    case Outcome::kSilent:
      return "the gate does not answer";
    case Outcome::kTooLong:
      return "the turn did not come within the longest wait";
    case Outcome::kRefused:
      return "the gate refused the request";
  }
  return "unknown outcome";
}

namespace {

using Steady = std::chrono::steady_clock;
using Time = Steady::time_point;

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

// One phase of the process, from the first begin() to the last end().
struct Phase {
  RequestMessage request;
  std::optional<TimePoint> arrived;  // the gate's stamp, once it has queued us
  std::uint32_t group = 0;
  bool holding = false;
  bool lost = false;  // was holding
  Outcome outcome = Outcome::kUnreachable;
  Time sent{};            // the last message that wants an answer
  bool awaiting = false;  // that answer
  bool asked = false;     // it was a request or a re-assertion, not a renewal
  Time acknowledged{};    // when the last message was sent that has been answered
  Time lease_until{};
};

class SocketClient final : public Client {
 public:
  SocketClient(ClientOptions options, Address address) : options_(std::move(options)), address_(std::move(address)) {}
  ~SocketClient() override;

  Outcome begin(const TargetList& targets, Bytes bytes) override;
  void end() override;
  Duration lease_left() const override;
  void abandon_after_fork() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // With the mutex held, all of them.
  bool covered(const TargetList& targets) const;
  Outcome ask(Time deadline);
  Outcome wait_for_turn(Time deadline);
  std::optional<Outcome> hear(const AnswerMessage& answer);
  std::optional<Outcome> granted();
  bool post(const Message& message);  // one that wants an answer; only one at a time does
  bool ask_again();
  bool reconnect(Time deadline);
  void install(Channel channel);
  ReassertMessage reassertion() const;
  Hello hello() const;
  Outcome give_up(Outcome outcome);
  void say(std::string line) const;
  void say_once(bool& said, std::string line);
  void end_phase();
  void start_keeper();

  // The keeper's thread: renews the lease, finds the gate again.
  void keep();
  Duration tick() const;
  void listen();
  void keep_lease();
  void find_gate(Lock& lock);
  void lose(const std::string& why);

  const ClientOptions options_;
  const Address address_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a phase ended, or the keeper has connected
  std::condition_variable stopped_;  // the keeper sleeps here, so that the end of a phase does not wake it
  SessionId session_ = random_number();
  std::optional<Channel> channel_;
  bool known_ = false;  // the gate has answered before
  Duration lease_ = std::chrono::seconds(10);
  Ticket next_ticket_ = 1;
  Phase phase_;
  std::size_t depth_ = 0;  // begin() without end()
  bool away_ = false;      // the gate: no phase waits for it until the keeper has found it again
  Outcome away_outcome_ = Outcome::kUnreachable;
  bool said_away_ = false, said_long_ = false, said_refused_ = false, said_lost_ = false;
  bool connecting_ = false;  // the keeper, without the mutex
  bool stop_ = false;
  std::thread keeper_;
};

SocketClient::~SocketClient() {
  {
    std::lock_guard guard(mutex_);
    stop_ = true;
    if (depth_ > 0) end_phase();
  }
  stopped_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

Outcome SocketClient::begin(const TargetList& targets, Bytes bytes) {
  Lock lock(mutex_);
  const Time deadline = Steady::now() + options_.max_wait;
  while (depth_ > 0 || connecting_) {  // connecting is bounded
    if (depth_ > 0 && covered(targets)) return ++depth_, phase_.outcome;
    const bool late = changed_.wait_until(lock, deadline) == std::cv_status::timeout;
    if (late && depth_ > 0) return ++depth_, Outcome::kTooLong;
  }
  depth_ = 1;
  phase_ = Phase{};
  phase_.request = {.ticket = next_ticket_++, .bytes = bytes, .targets = targets};
  phase_.outcome = ask(deadline);
  start_keeper();
  return phase_.outcome;
}

bool SocketClient::covered(const TargetList& targets) const {
  const TargetList& open = phase_.request.targets;
  if (open.all || open == targets) return true;
  if (targets.all) return false;
  const auto inner = targets.resolve(kMaxTargets), outer = open.resolve(kMaxTargets);
  return inner && outer && inner->within(*outer);
}

void SocketClient::end() {
  {
    std::lock_guard guard(mutex_);
    if (depth_ == 0 || --depth_ > 0) return;
    end_phase();
  }
  changed_.notify_all();
}

Duration SocketClient::lease_left() const {
  std::lock_guard guard(mutex_);
  if (depth_ == 0 || !phase_.holding || phase_.lost) return Duration::zero();
  return std::max<Duration>(phase_.lease_until - Steady::now(), Duration::zero());
}

void SocketClient::abandon_after_fork() {
  // Only this thread lives in the child; the mutex was taken by nobody, or by one who is not here.
  if (channel_) channel_->abandon();
  channel_.reset();
}

Outcome SocketClient::ask(Time deadline) {
  if (away_) return away_outcome_;
  if (!channel_ && !known_) {  // there may never have been a gate: one attempt tells
    auto channel = Channel::open(address_, hello(), options_.answer_bound);
    if (!channel)
      return give_up(channel.error().code == ErrorCode::kTimeout ? Outcome::kSilent : Outcome::kUnreachable);
    install(std::move(*channel));
  }
  if (!(channel_ && post(phase_.request)) && !reconnect(deadline)) return give_up(Outcome::kUnreachable);
  const Outcome outcome = wait_for_turn(deadline);
  if (outcome == Outcome::kGranted) said_lost_ = said_long_ = said_refused_ = said_away_ = false;
  return outcome;
}

Outcome SocketClient::wait_for_turn(Time deadline) {
  // Often enough that most of a lease is left, provably, when the grant comes.
  while (true) {
    const Duration step = std::min(options_.answer_bound / 2, lease_ / 4);
    const Time now = Steady::now();
    const Time heard_by = phase_.awaiting ? phase_.sent + options_.answer_bound : phase_.sent + step;
    const Duration wait = std::min<Duration>({step, deadline - now, heard_by - now});
    auto message = channel_->receive(std::max(wait, Duration(1)));
    if (!message && message.error().code == ErrorCode::kProtocol) return give_up(Outcome::kRefused);
    if (!message && !reconnect(deadline)) return give_up(Outcome::kUnreachable);
    if (message && *message) {
      const auto* answer = std::get_if<AnswerMessage>(&**message);
      if (!answer) return give_up(Outcome::kRefused);
      if (const auto outcome = hear(*answer)) return *outcome;
    }
    const Time after = Steady::now();
    if (after >= deadline) {
      (void)channel_->send(ReleaseMessage{phase_.request.ticket});
      say_once(said_long_,
               fmt::format("no turn within {:.1f} s", std::chrono::duration<double>(options_.max_wait).count()));
      return Outcome::kTooLong;
    }
    if (phase_.awaiting && after >= phase_.sent + options_.answer_bound) return give_up(Outcome::kSilent);
    if (!phase_.awaiting && after >= phase_.sent + step) post(RenewMessage{phase_.request.ticket});
  }
}

// An answer while waiting; an outcome ends the wait.
std::optional<Outcome> SocketClient::hear(const AnswerMessage& answer) {
  if (answer.ticket != phase_.request.ticket && answer.ticket != 0) return std::nullopt;  // of an earlier phase
  // A grant or a loss may cross a renewal on its way to the gate: then it answers nothing, and proves nothing.
  const bool crossing = answer.kind == Answer::Kind::kGranted || answer.kind == Answer::Kind::kLost;
  if (phase_.awaiting && (phase_.asked || !crossing)) {
    phase_.awaiting = false;
    phase_.acknowledged = phase_.sent;
  }
  switch (answer.kind) {
    case Answer::Kind::kQueued:
      phase_.arrived = answer.arrived;
      return std::nullopt;
    case Answer::Kind::kRenewed:
      return std::nullopt;
    case Answer::Kind::kGranted:
      phase_.group = answer.group;
      return granted();
    case Answer::Kind::kLost:
      ask_again();
      return std::nullopt;
    case Answer::Kind::kRefused:
      break;
  }
  say_once(said_refused_, "the gate refused the request: " + answer.text);
  if (answer.ticket == 0) channel_.reset();  // and it has closed the connection
  return Outcome::kRefused;
}

std::optional<Outcome> SocketClient::granted() {
  // The lease began when the gate granted, which was after it read the last message that it has answered.
  phase_.lease_until = phase_.acknowledged + lease_;
  if (Steady::now() >= phase_.lease_until) {  // we slept through it: others may hold the lock by now
    ask_again();
    return std::nullopt;
  }
  phase_.holding = true;
  // Having waited, less than a whole lease may be left as far as we can prove.
  if (phase_.arrived && !phase_.awaiting) post(RenewMessage{phase_.request.ticket});
  return Outcome::kGranted;
}

bool SocketClient::post(const Message& message) {
  phase_.sent = Steady::now();
  phase_.awaiting = true;
  phase_.asked = !std::holds_alternative<RenewMessage>(message);
  return channel_->send(message).has_value();
}

bool SocketClient::ask_again() {
  (void)channel_->send(ReleaseMessage{phase_.request.ticket});
  phase_.request.ticket = next_ticket_++;
  phase_.arrived.reset();
  return post(phase_.request);
}

// The connection is gone: the gate is being restarted, perhaps. Tries for as long as an answer may take.
bool SocketClient::reconnect(Time deadline) {
  channel_.reset();
  const Time until = std::min(Steady::now() + options_.answer_bound, deadline);
  while (true) {
    const Duration left = until - Steady::now();
    if (left <= Duration::zero()) return false;
    auto channel = Channel::open(address_, hello(), left);
    if (channel) {
      install(std::move(*channel));
      if (post(reassertion())) return true;
      channel_.reset();
    }
    std::this_thread::sleep_for(std::min<Duration>(left, std::chrono::milliseconds(20)));
  }
}

void SocketClient::install(Channel channel) {
  lease_ = channel.welcome().lease;
  channel_ = std::move(channel);
  known_ = true;
}

ReassertMessage SocketClient::reassertion() const {
  return {.request = phase_.request,
          .holding = phase_.holding,
          .arrived = phase_.arrived.value_or(TimePoint{}),
          .group = phase_.group};
}

Hello SocketClient::hello() const {
  return {.session = session_, .process = static_cast<std::uint32_t>(getpid()), .job = options_.job};
}

Outcome SocketClient::give_up(Outcome outcome) {
  channel_.reset();
  away_ = true;
  away_outcome_ = outcome;
  say_once(said_away_, fmt::format("{} ({})", explain(outcome), address_.text()));
  return outcome;
}

void SocketClient::say(std::string line) const {
  if (options_.say) options_.say(line);
}

void SocketClient::say_once(bool& said, std::string line) {
  if (!std::exchange(said, true)) say(line + "; going ahead without a turn");
}

void SocketClient::end_phase() {
  depth_ = 0;
  if (channel_ && phase_.holding && !channel_->send(ReleaseMessage{phase_.request.ticket})) channel_.reset();
  phase_ = Phase{};
}

void SocketClient::start_keeper() {
  if (!keeper_.joinable() && !stop_) keeper_ = std::thread([this] { keep(); });
}

void SocketClient::keep() {
  Lock lock(mutex_);
  while (!stop_) {
    stopped_.wait_for(lock, tick());
    if (stop_) return;
    if (channel_) listen();
    if (channel_) keep_lease();
    if (!channel_ && (away_ || (phase_.holding && !phase_.lost))) find_gate(lock);
  }
}

Duration SocketClient::tick() const {
  const Duration often = std::min<Duration>(lease_ / 6, std::chrono::seconds(5));
  if (!away_) return often;
  return std::clamp<Duration>(options_.answer_bound / 2, std::chrono::milliseconds(50), std::chrono::seconds(1));
}

// What the gate has said since.
void SocketClient::listen() {
  while (channel_) {
    const auto message = channel_->receive(Duration::zero());
    if (!message) return channel_.reset();
    if (!*message) return;
    const auto* answer = std::get_if<AnswerMessage>(&**message);
    if (!answer || answer->ticket != phase_.request.ticket || !phase_.holding) continue;
    if (answer->kind == Answer::Kind::kRenewed && phase_.awaiting) {
      phase_.awaiting = false;
      phase_.lease_until = phase_.sent + lease_;
    } else if (answer->kind == Answer::Kind::kLost || answer->kind == Answer::Kind::kRefused) {
      lose(answer->kind == Answer::Kind::kLost ? "the lease ran out" : answer->text);
    }
  }
}

void SocketClient::keep_lease() {
  if (!phase_.holding || phase_.lost) return;
  const Time now = Steady::now();
  if (phase_.awaiting) {
    if (now >= phase_.sent + options_.answer_bound) channel_.reset();  // hangs; look for it anew
  } else if (now >= phase_.lease_until - lease_ * 2 / 3) {
    if (!post(RenewMessage{phase_.request.ticket})) channel_.reset();
  }
}

void SocketClient::find_gate(Lock& lock) {
  connecting_ = true;
  const Hello greeting = hello();
  lock.unlock();
  auto channel = Channel::open(address_, greeting, options_.answer_bound);
  lock.lock();
  connecting_ = false;
  changed_.notify_all();
  const bool held = phase_.holding && !phase_.lost;
  if (held && Steady::now() >= phase_.lease_until) lose("the gate was away for longer than the lease");
  if (!channel || channel_) return;
  away_ = false;
  install(std::move(*channel));
  if (phase_.holding && !phase_.lost && !post(reassertion())) channel_.reset();
}

void SocketClient::lose(const std::string& why) {
  phase_.lost = true;
  if (!std::exchange(said_lost_, true)) say(fmt::format("lost the lock while in a phase: {}; going on", why));
}

}  // namespace

Result<std::unique_ptr<Client>> Client::create(ClientOptions options) {
  auto address = Address::parse(options.address);
  if (!address) return Failure(address.error());
  if (options.answer_bound <= Duration::zero())
    return fail(ErrorCode::kInvalid, "the bound on an answer must not be 0");
  return std::make_unique<SocketClient>(std::move(options), std::move(*address));
}

Result<std::string> query_status(const std::string& address_text, Duration timeout) {
  const auto address = Address::parse(address_text);
  if (!address) return Failure(address.error());
  auto channel = Channel::open(*address, timeout);
  if (!channel) return Failure(channel.error());
  if (auto sent = channel->send(StatusQuery{}); !sent) return Failure(sent.error());
  std::string document;
  while (true) {
    auto message = channel->receive(timeout);
    if (!message) return Failure(message.error());
    if (!*message) return fail(ErrorCode::kTimeout, fmt::format("the gate at {} does not answer", address->text()));
    const auto* piece = std::get_if<StatusPiece>(&**message);
    if (!piece) return fail(ErrorCode::kProtocol, "the gate answered something else than its status");
    document += piece->text;
    if (piece->last) return document;
  }
}

}  // namespace tutti::gate

// SPDX-License-Identifier: Apache-2.0
// Sends messages made from a fuzzer's bytes to a whole node: legal ones, damaged ones and random bytes, over several
// connections one after another. The node must answer every request with a reply that decodes, or close the connection.
// Its queues and buffers must be empty afterwards.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/prng.h"
#include "base/temporary_directory.h"
#include "net/transport.h"
#include "node/node.h"
#include "wire/archive.h"
#include "wire/codec.h"

namespace tutti::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 20s;  // if it takes longer, the node hangs
const std::vector<std::byte> kPayload(1 << 20);

void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "node_fuzz: {}\n", what);
  std::abort();
}

// The fuzzer's bytes. Every second input is followed by random bytes seeded from it, so that short inputs make long
// sequences of messages, too.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes)
      : bytes_(bytes.begin(), bytes.end()),
        random_(std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    if (byte() % 2 == 1)
      for (int i = 0; i < 1500; ++i) bytes_.push_back(static_cast<std::uint8_t>(random_()));
  }
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t byte() { return empty() ? 0 : bytes_[at_++]; }
  std::size_t below(std::size_t limit) { return (byte() | std::size_t{byte()} << 8) % limit; }
  bool chance(int of_256) { return byte() < of_256; }
  std::vector<std::uint8_t> take(std::size_t most) {
    std::vector<std::uint8_t> taken;
    while (taken.size() < most && !empty()) taken.push_back(byte());
    return taken;
  }

 private:
  std::vector<std::uint8_t> bytes_;
  Prng random_;
  std::size_t at_ = 0;
};

// An archive (wire/archive.h) that fills a message: mostly small numbers and existing names, sometimes extreme values.
class Inventor : public wire::Archive<Inventor> {
 public:
  static constexpr bool kReads = true;
  explicit Inventor(Input& input) : input_(input) {}

  template <typename Integer>
  void integer(Integer& value, const char* field) {
    const std::string_view name(field);
    const auto kind = input_.byte();
    if (name == "file key")
      value = static_cast<Integer>(kind % 4);
    else if (name == "length")
      value = static_cast<Integer>(kind < 16 ? kind << 16 : 1 + input_.below(9000));
    else if (kind < 8)
      value = static_cast<Integer>(~std::uint64_t{0} >> kind % 4);
    else if (kind < 24)
      raw(&value, sizeof value, field);
    else if (kind < 160 || name == "deadline" || name == "inode")
      value = Integer{};
    else
      value = static_cast<Integer>(input_.below(4096));
  }
  void text(std::string& value, const char* field, std::size_t most) {
    static constexpr const char* kPaths[] = {"", "a", "b", "d", "d/a", "l", "l/a", "d/d"};
    static constexpr const char* kPolicies[] = {"fifo",  "to",     "sjf",   "hbrr",    "mlf",
                                                "aioli", "window", "twins", "concert", "fair"};
    const std::string_view name(field);
    const auto kind = input_.byte();
    if (kind < 8)
      value.assign(most - kind % 2, 'x');
    else if (kind < 32) {
      const auto bytes = input_.take(std::min<std::size_t>(most, input_.byte()));
      value.assign(bytes.begin(), bytes.end());
    } else if (name == "policy")
      value = kPolicies[kind % std::size(kPolicies)];
    else if (name == "attribute")
      value = kind % 2 ? "user.a" : "user.b";
    else
      value = kPaths[kind % std::size(kPaths)];
  }
  void raw(void* data, std::size_t size, const char*) {
    for (std::size_t i = 0; i < size; ++i) static_cast<std::uint8_t*>(data)[i] = input_.byte();
  }
  std::size_t count(std::size_t, const char* field, std::size_t most, std::size_t) {
    const auto kind = input_.byte();
    if (std::string_view(field) == "options") return kind < 32 ? 1 : 0;
    return std::min<std::size_t>(most, kind < 8 ? kind * 64 : 1 + kind % 3);
  }
  void require(bool, const char*, const char*) {}
  void mistake(const char*, std::string_view) {}
  bool good() const { return true; }

 private:
  Input& input_;
};

template <typename Message>
void check_reply(const net::Incoming& message, bool& known) {
  if constexpr (requires(Message m) { m.head; }) {
    if (message.header.type != Message::kType) return;
    const auto reply = wire::decode<Message>(message.header, message.body);
    if (!reply) fmt::print(stderr, "{}\n", reply.error().message);
    require(reply.has_value(), "a reply does not decode");
    known = true;
  }
}

class Client final : public net::Handler {
 public:
  // `answers_pulls`: sends the payloads that the node asks for.
  Client(net::Transport& transport, const std::string& endpoint, bool answers_pulls) : answers_pulls_(answers_pulls) {
    auto connected = net::connect_and_wait(transport, *net::parse_endpoint(endpoint), {.job = "fuzz"}, *this);
    require(connected.has_value(), "the node accepts no connection");
    connection_ = *connected;
  }
  ~Client() override {
    connection_->close({ErrorCode::kStopped, "done"});
    std::unique_lock lock(mutex_);
    require(changed_.wait_for(lock, kPatience, [&] { return closed_; }), "a connection does not close");
  }

  void send(const std::vector<std::byte>& frame, std::size_t payload) {
    const auto header = wire::decode_header(std::span(frame).first<wire::kHeaderSize>());
    if (header && !wire::is_one_way(header->type)) {
      std::lock_guard lock(mutex_);
      waiting_[header->tag] = header->type;
    }
    net::Outgoing out{.frame = frame};
    if (payload > 0) out.borrowed = {std::span(kPayload).first(payload)};
    connection_->send(std::move(out));
  }
  // A write whose payload, of this size, is sent when the node asks for it.
  void send_on_request(const std::vector<std::byte>& frame, std::uint64_t tag, std::size_t size) {
    {
      std::lock_guard lock(mutex_);
      on_request_[tag] = size;
    }
    send(frame, 0);
  }
  void send_payload(std::uint64_t tag, std::size_t size) {
    const auto payload = std::span(kPayload).first(std::min(size, kPayload.size()));
    send(wire::encode(wire::Payload{}, {.tag = tag, .payload = payload}), payload.size());
  }
  void wait() {
    if (!answers_pulls_) return;  // the node may wait for payloads
    std::unique_lock lock(mutex_);
    const bool done = changed_.wait_for(lock, kPatience, [&] { return closed_ || waiting_.empty(); });
    if (!done) fmt::print(stderr, "no answer to {}\n", wire::name(waiting_.begin()->second));
    require(done, "a request is never answered");
  }
  bool over() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  void received(const net::ConnectionPointer&, net::Incoming message) override {
    bool known = false;
    wire::for_each_message([&]<typename Message>() { check_reply<Message>(message, known); });
    require(known, "a reply of unknown type");
    if (message.header.tag == 0 && message.header.type == wire::Type::kPull) return pulled(message);
    if (message.header.tag == 0 && message.header.type == wire::Type::kCredit) return;
    if (message.header.tag == 0 && message.header.type == wire::Type::kProgress) return;
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(message.header.tag);
    require(found != waiting_.end() && found->second == message.header.type, "a reply without a request");
    waiting_.erase(found);
    changed_.notify_all();
  }
  void pulled(const net::Incoming& message) {
    const auto pull = wire::decode<wire::Pull>(message.header, message.body);
    std::size_t size = 0;
    {
      std::lock_guard lock(mutex_);
      require(waiting_.contains(pull->write), "a pull without a write");
      const auto found = on_request_.find(pull->write);
      size = found == on_request_.end() ? 0 : found->second;
    }
    if (answers_pulls_) send_payload(pull->write, size);
  }
  void closed(const net::ConnectionPointer&, const Error&) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  net::ConnectionPointer connection_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const bool answers_pulls_;
  std::map<std::uint64_t, wire::Type> waiting_;        // by tag
  std::map<std::uint64_t, std::size_t> on_request_{};  // sizes of payloads, by tag
  bool closed_ = false;
};

// Starts a node and sends it what the bytes encode.
class NodeRun {
 public:
  NodeRun(Input input, const std::string& directory) : input_(std::move(input)) {
    std::filesystem::create_directories(directory + "/d");
    std::filesystem::create_directory_symlink("d", directory + "/l");
    for (const std::string file : {"/a", "/d/a"}) std::ofstream(directory + file) << std::string(70000, 'a');
    NodeOptions options;
    options.directory = directory;
    options.listen = {"local:node_fuzz"};
    options.engine = input_.chance(64) ? "posix" : "null";
    auto node = Node::start(options);
    if (!node) fmt::print(stderr, "{}\n", node.error().message);
    require(node.has_value(), "the node does not start");
    node_ = std::move(*node);
  }

  void go() {
    static const auto transport = net::Transport::create({}).value();
    while (!input_.empty()) {
      Client client(*transport, "local:node_fuzz", input_.chance(200));
      while (!input_.empty() && !client.over()) {
        const auto action = input_.byte();
        if (action < 4) break;  // closes the connection with requests in flight
        if (action < 16)
          client.wait();
        else if (action < 24)
          send_noise(client);
        else if (action < 26)  // mostly one that was not asked for
          client.send_payload(tag_ - input_.byte() % 4, input_.below(70000));
        else if (action < 48)
          send_bytes(client);
        else
          send_message(client, action);
      }
      if (input_.chance(192)) client.wait();
    }
    require(settles(), "something is left in the node's queues or buffers");
    require(node_->stop(Scheduler::Stop::kDrain, kPatience), "the node does not stop");
  }

 private:
  // The number of messages that expect a reply.
  static constexpr std::size_t kKinds = [] {
    std::size_t number = 0;
    const auto count = [&]<typename Message>() {
      if constexpr (requires { typename Message::Reply; }) ++number;
    };
    wire::for_each_message(count);
    return number;
  }();

  bool settles() const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const auto statistics = node_->statistics();
      if (statistics.waiting + statistics.in_flight + statistics.buffer_bytes == 0) return true;
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(100us);
    }
  }

  // Random bytes, or the beginning of a frame.
  void send_noise(Client& client) {
    std::vector<std::byte> frame(wire::kHeaderSize);
    const auto bytes = input_.take(200);
    std::ranges::transform(bytes, std::back_inserter(frame), [](auto byte) { return std::byte{byte}; });
    client.send(frame, 0);
  }

  // A frame with correct checksums around random bytes.
  void send_bytes(Client& client) {
    wire::Header header{.type = static_cast<wire::Type>(16 + input_.byte() % 56), .tag = ++tag_};
    const auto body = input_.take(input_.byte());
    header.payload_length = input_.chance(32) ? static_cast<std::uint32_t>(input_.below(70000)) : 0;
    std::vector<std::byte> frame(wire::kHeaderSize);
    std::ranges::transform(body, std::back_inserter(frame), [](auto byte) { return std::byte{byte}; });
    seal(header, frame);
    client.send(frame, header.payload_length);
  }

  void send_message(Client& client, std::uint8_t action) {
    std::size_t number = 0;
    const std::size_t chosen = action % kKinds;
    const auto attempt = [&]<typename Message>() {
      if constexpr (requires { typename Message::Reply; }) {
        if (number++ == chosen) send_one<Message>(client);
      }
    };
    wire::for_each_message(attempt);
  }

  template <typename Message>
  void send_one(Client& client) {
    Message message;
    Inventor inventor(input_);
    message.fields(inventor);
    if (!wire::check_limits(message)) return;
    std::size_t times = 1;
    if constexpr (requires { message.data; }) times = input_.chance(8) ? 600 : 1;
    std::size_t payload = 0;
    if constexpr (std::is_same_v<Message, wire::WriteRequest>)
      payload = std::min<std::size_t>(wire::total(message.extents).count(), kPayload.size());
    for (std::size_t i = 0; i < times; ++i) {
      if constexpr (std::is_same_v<Message, wire::WriteRequest>) {
        if (message.on_request) {
          ++tag_;
          client.send_on_request(wire::encode(message, {.tag = tag_}), tag_, payload);
          continue;
        }
      }
      if constexpr (requires { message.data; }) message.data.stamp.application += static_cast<ApplicationId>(i);
      auto frame = wire::encode(message, {.tag = ++tag_, .payload = std::span(kPayload).first(payload)});
      if (input_.chance(32)) damage(frame);
      client.send(frame, payload);
    }
  }

  // Changes a byte of the body; the checksums are right.
  void damage(std::vector<std::byte>& frame) {
    if (frame.size() == wire::kHeaderSize) return;
    auto header = *wire::decode_header(std::span(frame).first<wire::kHeaderSize>());
    frame[wire::kHeaderSize + input_.below(frame.size() - wire::kHeaderSize)] ^= std::byte{input_.byte()};
    seal(header, frame);
  }

  static void seal(wire::Header& header, std::vector<std::byte>& frame) {
    const auto body = std::span(frame).subspan(wire::kHeaderSize);
    header.body_length = static_cast<std::uint32_t>(body.size());
    header.body_checksum = wire::body_checksum(body);
    std::ranges::copy(wire::encode_header(header), frame.begin());
  }

  Input input_;
  std::unique_ptr<Node> node_;
  std::uint64_t tag_ = 0;
};

}  // namespace
}  // namespace tutti::node

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);
  static const tutti::TemporaryDirectory base;
  {
    tutti::node::NodeRun run(tutti::node::Input({data, size}), base / "files");
    run.go();
  }
  std::error_code ignored;
  std::filesystem::remove_all(base / "files", ignored);
  return 0;
}

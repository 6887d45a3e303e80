// SPDX-License-Identifier: Apache-2.0
// For tests: nodes that keep files in memory, and can stall, forget files and stop.
#pragma once

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "net/transport.h"
#include "wire/codec.h"

namespace tutti {

// The file system that all nodes of a test share.
struct FakeDisk {
  std::mutex mutex;
  std::map<std::string, std::vector<std::byte>> files;
  std::map<std::string, std::uint64_t> inodes;
  std::map<std::string, std::uint32_t> modes;
};

class FakeNode final : public net::Handler {
 public:
  struct Seen {
    wire::Type type{};
    std::string path;  // as sent; empty: the request had only the key
    TargetId target = 0;
    Stamp stamp{};
    TimePoint at{};  // net::steady_now()
  };

  // `socket`: of the node, for clients in other processes; empty: only clients of this process reach it.
  FakeNode(FakeDisk& disk, std::string name, wire::Limits limits = {}, std::string socket = {})
      : disk_(disk),
        name_(std::move(name)),
        socket_(std::move(socket)),
        limits_(limits),
        transport_(net::Transport::create({}).value()) {
    start();
  }

  // `boot`: of its machine; nothing: the boot of this machine.
  void start(std::optional<std::uint8_t> boot = {}, Duration fence_time = {}) {
    net::ListenOptions options{.node = name_, .limits = limits_};
    options.fence_time = fence_time;
    if (boot) options.instance = {.boot = {std::byte{*boot}}, .process = 1};
    const bool local = socket_.empty();
    listener_ =
        transport_
            ->listen({local ? net::Endpoint::Kind::kLocal : net::Endpoint::Kind::kUnix, local ? name_ : socket_, 0},
                     options, *this)
            .value();
  }
  void die() { listener_.reset(); }

  // While stalled, requests are received but not carried out, as by a stopped process.
  void stall() {
    std::lock_guard lock(mutex_);
    stalled_ = true;
  }
  void go_on() {
    std::vector<Held> held;
    {
      std::lock_guard lock(mutex_);
      stalled_ = false;
      held.swap(held_);
    }
    for (auto& one : held) handle(one.from, one.message);
  }
  void report(const wire::Progress& progress) {
    std::lock_guard lock(mutex_);
    for (const auto& one : held_) reply(one.from, 0, progress);
  }
  TimePoint renewed() const { return renewed_; }  // by the last wire::Renew
  void forget_files() {
    std::lock_guard lock(mutex_);
    keys_.clear();
  }
  std::vector<Seen> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  std::size_t creates() {
    std::lock_guard lock(mutex_);
    return creates_;
  }
  std::size_t held() {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  std::size_t held(wire::Type type) {
    std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(held_, [&](const Held& one) { return one.message.header.type == type; }));
  }
  std::size_t most_held() {
    std::lock_guard lock(mutex_);
    return most_held_;
  }
  void ignore_deadlines() { mind_deadlines_ = false; }

  void received(const net::ConnectionPointer& from, net::Incoming message) override {
    if (message.header.type == wire::Type::kRenew) {
      renewed_ = wire::decode<wire::Renew>(message.header, message.body).value().deadline;
      return;
    }
    {
      std::lock_guard lock(mutex_);
      if (stalled_) {
        held_.push_back({from, std::move(message)});
        most_held_ = std::max(most_held_, held_.size());
        return;
      }
    }
    handle(from, message);
  }
  void closed(const net::ConnectionPointer&, const Error&) override {}

 private:
  struct Held {
    net::ConnectionPointer from;
    net::Incoming message;
  };

  void handle(const net::ConnectionPointer& from, const net::Incoming& message) {
    const auto tag = message.header.tag;
    switch (message.header.type) {
      case wire::Type::kRead:
        return read(from, message);
      case wire::Type::kWrite:
        return write(from, message);
      case wire::Type::kFsync: {
        const auto request = wire::decode<wire::FsyncRequest>(message.header, message.body).value();
        note(message.header.type, request.data);
        return reply(from, tag, wire::FsyncRequest::Reply{});
      }
      case wire::Type::kTruncate: {
        const auto request = wire::decode<wire::TruncateRequest>(message.header, message.body).value();
        std::string path;
        if (auto head = find(request.data, path); head.status != 0) return refuse(from, message, head);
        std::lock_guard lock(disk_.mutex);
        disk_.files[path].resize(request.size);
        return reply(from, tag, wire::TruncateRequest::Reply{});
      }
      case wire::Type::kCreate:
        return create(from, message);
      case wire::Type::kLookup: {
        const auto request = wire::decode<wire::LookupRequest>(message.header, message.body).value();
        return attributes<wire::LookupRequest>(from, message, request.path);
      }
      case wire::Type::kStat: {
        const auto request = wire::decode<wire::StatRequest>(message.header, message.body).value();
        std::string path;
        if (auto head = find({.file = request.file}, path); head.status != 0) return refuse(from, message, head);
        return attributes<wire::StatRequest>(from, message, path);
      }
      case wire::Type::kUnlink: {
        const auto request = wire::decode<wire::UnlinkRequest>(message.header, message.body).value();
        std::lock_guard lock(disk_.mutex);
        disk_.files.erase(request.path);
        return reply(from, tag, wire::UnlinkRequest::Reply{});
      }
      case wire::Type::kClose:
        return reply(from, tag, wire::CloseRequest::Reply{});
      default:
        return refuse(from, message, {.status = ENOTSUP, .message = "not implemented by the fake node"});
    }
  }

  void create(const net::ConnectionPointer& from, const net::Incoming& message) {
    const auto request = wire::decode<wire::CreateRequest>(message.header, message.body).value();
    {
      std::lock_guard lock(mutex_);
      ++creates_;
    }
    {
      std::lock_guard lock(disk_.mutex);
      const auto [file, fresh] = disk_.files.try_emplace(request.path);
      if (fresh) {
        disk_.inodes[request.path] = disk_.inodes.size() + 1;
        disk_.modes[request.path] = request.mode;
      }
      if (!fresh && request.exclusive) return refuse(from, message, {.status = EEXIST, .message = "the file exists"});
      if (request.truncate) file->second.clear();
    }
    attributes<wire::CreateRequest>(from, message, request.path);
  }

  template <typename Request>
  void attributes(const net::ConnectionPointer& from, const net::Incoming& message, const std::string& path) {
    typename Request::Reply answer;
    {
      std::lock_guard lock(disk_.mutex);
      const auto found = disk_.files.find(path);
      if (found == disk_.files.end()) return refuse(from, message, {.status = ENOENT, .message = "no such file"});
      answer.attributes = {
          .inode = disk_.inodes[path], .mode = 0100000 | disk_.modes[path], .links = 1, .size = found->second.size()};
    }
    reply(from, message.header.tag, answer);
  }

  // Finds the path of a reference, or returns the error.
  wire::ReplyHead find(const wire::DataHead& data, std::string& path) {
    if (mind_deadlines_ && data.deadline != TimePoint{} && net::steady_now() > std::max(data.deadline, renewed_.load()))
      return {.status = wire::kExpired, .message = "late"};
    std::lock_guard lock(mutex_);
    if (!data.file.path.empty()) keys_[data.file.key] = data.file.path;
    const auto found = keys_.find(data.file.key);
    if (found == keys_.end()) return {.status = wire::kUnknownFile, .message = "unknown file"};
    path = found->second;
    return {};
  }

  void note(wire::Type type, const wire::DataHead& data) {
    std::lock_guard lock(mutex_);
    seen_.push_back({type, data.file.path, data.target, data.stamp, net::steady_now()});
  }

  void read(const net::ConnectionPointer& from, const net::Incoming& message) {
    const auto request = wire::decode<wire::ReadRequest>(message.header, message.body).value();
    note(message.header.type, request.data);
    std::string path;
    if (auto head = find(request.data, path); head.status != 0) return refuse(from, message, head);
    net::Buffer buffer = pool_->allocate(wire::total(request.extents).count());
    wire::ReadReply answer;
    std::size_t at = 0;
    {
      std::lock_guard lock(disk_.mutex);
      const auto& file = disk_.files[path];
      for (const auto& extent : request.extents) {
        const auto start = std::min<std::uint64_t>(extent.offset, file.size());
        const auto length = std::min<std::uint64_t>(extent.length, file.size() - start);
        std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(start), length, buffer.data() + at);
        at += length;
        answer.lengths.push_back(static_cast<std::uint32_t>(length));
      }
    }
    buffer.resize(at);
    net::Outgoing out{.frame = wire::encode(
                          answer, {.tag = message.header.tag, .payload = buffer.span(), .checksum = request.checksum})};
    out.payload = std::move(buffer);
    from->send(std::move(out));
  }

  void write(const net::ConnectionPointer& from, const net::Incoming& message) {
    const auto request = wire::decode<wire::WriteRequest>(message.header, message.body).value();
    note(message.header.type, request.data);
    std::string path;
    if (auto head = find(request.data, path); head.status != 0) return refuse(from, message, head);
    std::size_t at = 0;
    {
      std::lock_guard lock(disk_.mutex);
      auto& file = disk_.files[path];
      for (const auto& extent : request.extents) {
        if (file.size() < extent.offset + extent.length) file.resize(extent.offset + extent.length);
        std::copy_n(message.payload.data() + at, extent.length,
                    file.begin() + static_cast<std::ptrdiff_t>(extent.offset));
        at += extent.length;
      }
    }
    reply(from, message.header.tag,
          wire::WriteReply{.head = {.timing = {.queued = std::chrono::milliseconds(2)}}, .written = at});
  }

  template <typename Reply>
  void reply(const net::ConnectionPointer& to, std::uint64_t tag, const Reply& answer) {
    to->send({.frame = wire::encode(answer, {.tag = tag})});
  }
  void refuse(const net::ConnectionPointer& to, const net::Incoming& message, const wire::ReplyHead& head) {
    to->send({.frame = wire::encode_failure(message.header.type, message.header.tag, head)});
  }

  FakeDisk& disk_;
  const std::string name_;
  const std::string socket_;
  const wire::Limits limits_;
  std::shared_ptr<net::BufferPool> pool_ = net::BufferPool::create(Bytes(64 << 20));
  std::mutex mutex_;
  bool stalled_ = false;
  std::atomic<bool> mind_deadlines_{true};
  std::atomic<TimePoint> renewed_{};
  std::vector<Held> held_;
  std::size_t most_held_ = 0;
  std::map<std::uint64_t, std::string> keys_;
  std::vector<Seen> seen_;
  std::size_t creates_ = 0;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace tutti

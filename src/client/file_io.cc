// SPDX-License-Identifier: Apache-2.0
#include "client/file_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

#include "base/mutex.h"
#include "client/status.h"

namespace tutti {
namespace {

constexpr std::uint64_t kMessageBytes = 4 << 20;  // larger requests are split: a node can order and overlap the parts
constexpr std::size_t kMessageExtents = 1024;
constexpr std::uint64_t kCopyBytes = wire::kMaxPayload;

}  // namespace

// Counts the messages without a reply; the last reply calls `done`.
struct OpenFile::PendingOperation {
  virtual ~PendingOperation() = default;
  // All messages succeeded.
  virtual void succeeded() {}

  std::shared_ptr<FileState> state;
  Stamp stamp;
  std::vector<TargetMessage> messages;
  bool stamped = true;
  Done<std::size_t> done;

  Mutex mutex;  // guards what follows while several messages are unanswered
  std::size_t left = 0;
  std::optional<Error> error;

  void message_done(const Result<void>& result) {
    {
      Lock lock(mutex);
      if (!result && !error) error = result.error();
      if (--left > 0) return;
    }
    if (stamped) state->core->completed();
    if (error) return done(Failure(*error));
    succeeded();
    done(total());
  }

  // Sum over all parts of the bytes up to the first short read: data after it is past the end of the file.
  std::size_t total() {
    std::vector<MemoryExtent*> extents;
    for (auto& message : messages) {
      for (auto& extent : message.extents) extents.push_back(&extent);
    }
    std::ranges::sort(extents, [](const MemoryExtent* a, const MemoryExtent* b) {
      return std::pair(a->part, a->range.offset) < std::pair(b->part, b->range.offset);
    });
    std::size_t sum = 0;
    std::size_t ended = ~std::size_t{0};  // the part that reached the end of the file
    for (const auto* extent : extents) {
      if (extent->part == ended) continue;
      sum += extent->got;
      if (extent->got < extent->range.length) ended = extent->part;
    }
    return sum;
  }
};

wire::DataHead OpenFile::FileState::head(const Stamp& stamp, TargetId target, const Call::Attempt& attempt) const {
  wire::DataHead head{.file = {.key = key, .path = {}, .inode = opened.inode, .generation = opened.generation},
                      .target = target,
                      .stripe_log2 = striping.log2,
                      .stripe_count = striping.count,
                      .stamp = stamp,
                      .deadline = attempt.deadline};
  if (attempt.with_path) head.file.path = path;
  return head;
}

void OpenFile::FileState::acknowledged(std::size_t node, const wire::Instance::Boot& boot) {
  auto& entry = unsynced.try_emplace(node, Unsynced{boot, 0}).first->second;
  entry.last = ++writes;
}

// Keeps the entries of nodes that acknowledged further writes since `known` was copied.
void OpenFile::FileState::forget_unsynced(const std::map<std::size_t, Unsynced>& known) {
  Lock lock(mutex);
  for (const auto& [node, entry] : known) {
    const auto found = unsynced.find(node);
    if (found != unsynced.end() && found->second.last == entry.last) unsynced.erase(found);
  }
}

bool OpenFile::FileState::lost_with_machine(std::size_t node, const Unsynced& known) const {
  const auto instance = core->router().link(node).instance();
  return instance && instance->boot != known.boot;
}

Error OpenFile::FileState::sync_error(std::size_t node, const Unsynced& known, const Error& why) const {
  if (!lost_with_machine(node, known)) return why;
  return {ErrorCode::kIo,
          fmt::format("{} was lost with its machine after it acknowledged writes, before fsync: write them again",
                      core->options().cluster.nodes[node].name),
          EIO};
}

OpenFile::OpenFile(std::shared_ptr<Core> core, std::string path, const FileStatus& opened, Layout layout)
    : core_(std::move(core)), state_(std::make_shared<FileState>()) {
  state_->core = core_.get();
  state_->path = std::move(path);
  state_->opened = opened;
  state_->checksums = core_->options().checksums;
  state_->layout = std::make_shared<const Layout>(std::move(layout));
  state_->striping = striping_of(*state_->layout);
  state_->key = core_->opened(state_->layout);
}

OpenFile::~OpenFile() {
  core_->closed(state_->key);
  core_->router().forget(state_->key);
}

TimeSpent OpenFile::time_spent() const {
  Lock lock(state_->mutex);
  return state_->spent;
}

Result<std::vector<OpenFile::TargetMessage>> OpenFile::plan(std::span<const MemoryExtent> parts) const {
  std::vector<TargetMessage> messages;
  boost::unordered_flat_map<TargetId, std::size_t> open;  // the last message of each target
  for (const auto& part : parts) {
    const auto& range = part.range;
    if (range.length > wire::kMaxOffset || range.offset > wire::kMaxOffset - range.length) {
      return fail(ErrorCode::kInvalid, fmt::format("offset {} plus {} bytes is past 2^63", range.offset, range.length),
                  EFBIG);
    }
    for (const auto& piece : split(*state_->layout, range.offset, Bytes(range.length))) {
      for (std::uint64_t done = 0; done < piece.length.count();) {
        const auto length = std::min(piece.length.count() - done, kMessageBytes);
        const auto offset = piece.offset + done;
        auto [found, fresh] = open.try_emplace(piece.target, messages.size());
        const auto* message = fresh ? nullptr : &messages[found->second];
        if (message == nullptr || message->bytes + length > kMessageBytes ||
            message->extents.size() >= kMessageExtents) {
          found->second = messages.size();
          messages.push_back({.target = piece.target, .extents = {}});
        }
        auto& into = messages[found->second];
        into.extents.push_back({{offset, length}, part.part, part.memory + (offset - range.offset)});
        into.bytes += length;
        done += length;
      }
    }
  }
  return messages;
}

// The memory of a WritePart is never changed.
template <typename Part>
std::vector<OpenFile::MemoryExtent> OpenFile::extents_of(const std::vector<Part>& parts) {
  std::vector<MemoryExtent> extents;
  for (const auto& [offset, memory] : parts)
    extents.push_back({{offset, memory.size()}, extents.size(), const_cast<std::byte*>(memory.data())});
  return extents;
}

Stamp OpenFile::issue(const std::vector<TargetMessage>& messages) const {
  std::vector<TargetShare> shares;
  for (const auto& message : messages) shares.push_back({message.target, Bytes(message.bytes)});
  return core_->issue(shares);
}

// One message of a read or write. The PendingTransfer owns it.
template <typename Request>
struct OpenFile::TransferCall final : ReplyCall<typename Request::Reply> {
  static constexpr bool kReads = std::is_same_v<Request, wire::ReadRequest>;
  PendingOperation* operation = nullptr;
  TargetMessage* message = nullptr;
  net::Incoming* kept = nullptr;

  net::Outgoing encode(const Call::Attempt& attempt) override {
    net::Outgoing out;
    Request request{.data = operation->state->head(operation->stamp, message->target, attempt)};
    for (const auto& extent : message->extents) request.extents.push_back(extent.range);
    if constexpr (kReads) {
      request.checksum = operation->state->checksums;
      out.frame = wire::encode(request, {.tag = attempt.tag});
    } else {
      request.on_request = attempt.on_request;
      if (!attempt.on_request) lend_memory(out);
      out.frame = wire::encode_scattered(request, attempt.tag, out.borrowed, operation->state->checksums);
    }
    return out;
  }

  net::Outgoing encode_payload(const Call::Attempt& attempt) override {
    net::Outgoing out;
    lend_memory(out);
    out.frame = wire::encode_scattered(wire::Payload{.deadline = attempt.deadline}, attempt.tag, out.borrowed,
                                       operation->state->checksums);
    return out;
  }

  void lend_memory(net::Outgoing& out) const {
    for (const auto& extent : message->extents) out.borrowed.push_back({extent.memory, extent.range.length});
  }

  // Whether a read reply has one length per extent, none longer than the extent.
  bool fits() const {
    const auto within = [](std::uint32_t length, const MemoryExtent& extent) { return length <= extent.range.length; };
    return std::ranges::equal(this->reply->lengths, message->extents, within);
  }

  net::ReplyMemory reply_memory() override {
    net::ReplyMemory into{.memory = {}, .by_reference = kept != nullptr};
    if constexpr (kReads) {
      const std::size_t count = fits() && kept == nullptr ? message->extents.size() : 0;
      for (std::size_t i = 0; i < count; ++i)
        if (const auto length = this->reply->lengths[i]; length > 0)
          into.memory.push_back({message->extents[i].memory, length});
    }
    return into;
  }
  void keep_payload(net::Incoming received) override {
    if (kept != nullptr) *kept = std::move(received);
  }

  void finish() override {
    if (!this->reply) return operation->message_done(Failure(this->reply.error()));
    if constexpr (kReads) {
      if (!fits()) return operation->message_done(fail(ErrorCode::kProtocol, "a read reply with wrong lengths"));
      for (std::size_t i = 0; i < message->extents.size(); ++i) message->extents[i].got = this->reply->lengths[i];
    } else {
      for (auto& extent : message->extents) extent.got = extent.range.length;
    }
    {
      auto& state = *operation->state;
      Lock lock(state.mutex);
      state.spent.queued += this->reply->head.timing.queued;
      state.spent.waiting += this->reply->head.timing.waiting;
      state.spent.engine += this->reply->head.timing.engine;
    }
    operation->message_done({});
  }
};

template <typename Request>
CallPointer OpenFile::transfer(std::span<const MemoryExtent> parts, Done<std::size_t> done, const Stamp* given,
                               net::Incoming* kept) {
  struct PendingTransfer final : PendingOperation {
    std::vector<TransferCall<Request>> calls;

    // Not per message: an fsync that fails meanwhile must not report, and forget, a part of this write.
    void succeeded() override {
      if (TransferCall<Request>::kReads) return;
      Lock lock(this->state->mutex);
      for (const auto& call : calls) this->state->acknowledged(call.node, call.instance.boot);
    }
  };
  auto messages = plan(parts);
  if (!messages) return done(Failure(messages.error())), nullptr;
  if (messages->empty()) return done(std::size_t{0}), nullptr;
  auto operation = std::make_shared<PendingTransfer>();
  operation->state = state_;
  if (given != nullptr) core_->joined();
  operation->stamp = given != nullptr ? *given : issue(*messages);
  const auto count = operation->left = messages->size();
  operation->messages = std::move(*messages);
  operation->done = std::move(done);
  operation->calls = std::vector<TransferCall<Request>>(count);
  CallPointer last;
  for (std::size_t i = 0; i < count; ++i) {
    auto& call = operation->calls[i];
    call.operation = operation.get();
    call.message = &operation->messages[i];
    call.kept = kept;
    call.retry = call.kReads ? Retry::kAnytime : Retry::kAfterFence;
    call.work = Work::kQueued;
    call.preferred = core_->router().owner(call.message->target);
    call.file_key = state_->key;
    call.bytes = call.message->bytes;
    call.payload = call.kReads ? 0 : call.bytes;
    last = CallPointer(operation, &call);
    core_->router().submit(last);
  }
  return count == 1 ? last : nullptr;
}

CallPointer OpenFile::read(const std::vector<ReadPart>& parts, Done<std::size_t> done, const Stamp* given) {
  return transfer<wire::ReadRequest>(extents_of(parts), std::move(done), given);
}

CallPointer OpenFile::write(const std::vector<WritePart>& parts, Done<std::size_t> done, const Stamp* given) {
  return transfer<wire::WriteRequest>(extents_of(parts), std::move(done), given);
}

bool OpenFile::fits_one_pipe(const wire::Extent& range) const {
  if (range.length > PagePipe::kMost || range.offset > wire::kMaxOffset - range.length) return false;
  return split(*state_->layout, range.offset, Bytes(range.length)).size() == 1;
}

CallPointer OpenFile::read_by_reference(const wire::Extent& range, Done<Received> done) {
  auto received = std::make_shared<Received>();
  const MemoryExtent extent{range};
  auto finish = [received, done = std::move(done)](const Result<std::size_t>& got) {
    if (!got) return done(Failure(got.error()));
    received->bytes = *got;
    // An error if the node announces another number of bytes than it sends.
    if (received->message.header.payload_length != *got && *got > 0)
      return done(fail(ErrorCode::kProtocol, "a read reply with wrong lengths"));
    done(std::move(*received));
  };
  return transfer<wire::ReadRequest>({&extent, 1}, std::move(finish), nullptr, &received->message);
}

// One message per piece of a target, because a message copies one range.
std::vector<OpenFile::TargetMessage> OpenFile::plan_copy(const wire::Extent& range) const {
  std::vector<TargetMessage> messages;
  for (const auto& piece : split(*state_->layout, range.offset, Bytes(range.length)))
    for (std::uint64_t done = 0; done < piece.length.count(); done += kCopyBytes) {
      const std::uint64_t length = std::min(piece.length.count() - done, kCopyBytes);
      messages.push_back({.target = piece.target, .extents = {}, .bytes = length});
      messages.back().extents.push_back({{piece.offset + done, length}});
    }
  return messages;
}

CallPointer OpenFile::copy_from(const OpenFile& source, const CopyRange& range, Done<std::size_t> done) {
  // What a sync has to know once all messages have succeeded.
  struct PendingCopy final : PendingOperation {
    std::vector<std::pair<std::size_t, wire::Instance::Boot>> served;

    void succeeded() override {
      Lock lock(this->state->mutex);
      for (const auto& [node, boot] : served) this->state->acknowledged(node, boot);
    }
  };
  if (const std::uint64_t most = wire::kMaxOffset - std::min(range.length, wire::kMaxOffset);
      range.length > wire::kMaxOffset || std::max(range.offset, range.source_offset) > most)
    return done(fail(ErrorCode::kInvalid, fmt::format("a copy of {} bytes ends past 2^63", range.length), EFBIG)),
           nullptr;
  auto operation = std::make_shared<PendingCopy>();
  operation->state = state_;
  operation->messages = plan_copy({range.offset, range.length});
  if (operation->messages.empty()) return done(std::size_t{0}), nullptr;
  operation->stamp = issue(operation->messages);
  const auto count = operation->left = operation->messages.size();
  operation->done = std::move(done);
  operation->served.resize(count);
  CallPointer last;
  for (std::size_t i = 0; i < count; ++i) {
    auto call = file_call<wire::CopyRequest>(Retry::kAfterFence);
    TargetMessage& message = operation->messages[i];
    call->preferred = core_->router().owner(message.target);
    call->source_key = source.state_->key;
    call->make = [operation, &message, range, from = source.state_](const Call::Attempt& attempt) {
      wire::CopyRequest request{.data = operation->state->head(operation->stamp, message.target, attempt)};
      request.source = from->head({}, 0, {.with_path = true}).file;
      request.range = message.extents.front().range;
      request.source_offset = range.source_offset + (request.range.offset - range.offset);
      return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
    };
    call->report = [operation, &message, i, raw = call.get()](const Result<wire::CopyReply>& reply) {
      if (!reply) return operation->message_done(Failure(reply.error()));
      MemoryExtent& extent = message.extents.front();
      if (reply->copied > extent.range.length)
        return operation->message_done(fail(ErrorCode::kProtocol, "a copy of more than was asked for"));
      extent.got = reply->copied;
      operation->served[i] = {raw->node, raw->instance.boot};
      operation->message_done({});
    };
    last = call;
    core_->router().submit(std::move(call));
  }
  return count == 1 ? last : nullptr;
}

// Every node with unsynced writes must sync them. They are in the page cache of its machine: after a loss of the node,
// any process of the same boot can sync them. Another boot means that they are lost, and fsync fails. Writes stay
// unsynced until a sync that began after them has succeeded, so concurrent syncs each wait for all of them.
void OpenFile::fsync(bool data_only, Done<std::size_t> done) {
  std::map<std::size_t, FileState::Unsynced> unsynced;
  {
    Lock lock(state_->mutex);
    unsynced = state_->unsynced;
  }
  auto operation = std::make_shared<PendingOperation>();
  operation->state = state_;
  operation->stamped = false;
  operation->left = std::max<std::size_t>(1, unsynced.size());
  operation->done = [state = state_, unsynced, done = std::move(done)](Result<std::size_t> result) {
    // A loss is reported once; the caller must write again. It is forgotten with the report and not before, else
    // another sync could succeed in between.
    auto settled = unsynced;
    if (!result)
      std::erase_if(settled, [&](const auto& entry) { return !state->lost_with_machine(entry.first, entry.second); });
    state->forget_unsynced(settled);
    done(std::move(result));
  };
  if (unsynced.empty())
    send_fsync(operation, core_->router().owner(state_->layout->targets.front()), data_only, nullptr);
  for (const auto& [node, writes] : unsynced) send_fsync(operation, node, data_only, &writes);
}

template <typename Request>
std::shared_ptr<FunctionCall<typename Request::Reply>> OpenFile::file_call(Retry retry) {
  auto call = std::make_shared<FunctionCall<typename Request::Reply>>();
  call->retry = retry;
  call->work = Request::kType == wire::Type::kFsync ? Work::kSync : Work::kQueued;
  call->preferred = core_->router().owner(state_->layout->targets.front());
  call->file_key = state_->key;
  return call;
}

void OpenFile::send_fsync(const std::shared_ptr<PendingOperation>& operation, std::size_t node, bool data_only,
                          const FileState::Unsynced* writes) {
  auto call = file_call<wire::FsyncRequest>(Retry::kAnytime);
  call->preferred = node;
  if (writes != nullptr) call->only_boot = writes->boot;
  call->make = [state = state_, data_only](const Call::Attempt& attempt) {
    const wire::FsyncRequest request{state->head({}, state->layout->targets.front(), attempt), data_only};
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  const auto known = writes != nullptr ? std::optional(*writes) : std::nullopt;
  call->report = [operation, node, known](const Result<wire::FsyncRequest::Reply>& reply) {
    if (reply) return operation->message_done({});
    operation->message_done(Failure(known ? operation->state->sync_error(node, *known, reply.error()) : reply.error()));
  };
  core_->router().submit(std::move(call));
}

CallPointer OpenFile::truncate(std::uint64_t size, Done<void> done) {
  if (size > wire::kMaxOffset)
    return done(fail(ErrorCode::kInvalid, fmt::format("a size of {} is past 2^63", size), EFBIG)), nullptr;
  auto call = file_call<wire::TruncateRequest>(Retry::kAfterFence);
  call->make = [state = state_, size](const Call::Attempt& attempt) {
    const wire::TruncateRequest request{state->head({}, state->layout->targets.front(), attempt), size};
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->report = [done = std::move(done)](const Result<wire::TruncateRequest::Reply>& reply) {
    done(reply ? Result<void>{} : Failure(reply.error()));
  };
  core_->router().submit(call);
  return call;
}

CallPointer OpenFile::status(Done<FileStatus> done) {
  auto call = file_call<wire::StatRequest>(Retry::kAnytime);
  call->make = [state = state_](const Call::Attempt& attempt) {
    const wire::StatRequest request{state->head({}, 0, attempt).file};
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->report = [done = std::move(done)](const Result<wire::StatRequest::Reply>& reply) {
    done(reply ? Result<FileStatus>(to_status(reply->attributes)) : Failure(reply.error()));
  };
  core_->router().submit(call);
  return call;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "client/file_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "client/status.h"

namespace tutti {
namespace {

constexpr std::uint64_t kMessageBytes = 4 << 20;  // more go in several messages, which a node can order and overlap
constexpr std::size_t kMessageExtents = 1024;

template <typename Start>
Result<std::size_t> wait_for(Start start) {
  std::promise<Result<std::size_t>> promise;
  auto future = promise.get_future();
  start([&promise](Result<std::size_t> result) { promise.set_value(std::move(result)); });
  return future.get();
}

}  // namespace

// Counts down the messages of one operation; the last one calls `done`.
struct OpenFile::Join {
  std::shared_ptr<State> state;
  Stamp stamp;
  std::vector<Group> groups;
  bool stamped = true;
  Done done;

  std::mutex mutex;
  std::size_t left = 0;
  std::optional<Error> error;

  void one_done(const Result<void>& result) {
    {
      std::lock_guard lock(mutex);
      if (!result && !error) error = result.error();
      if (--left > 0) return;
    }
    if (stamped) state->core->completed();
    if (error) return done(Failure(*error));
    done(total());
  }

  // Bytes from the start of each part up to its first gap: what lies behind a short read is past the end of the file.
  std::size_t total() {
    std::vector<Slice*> slices;
    for (auto& group : groups) {
      for (auto& slice : group.slices) slices.push_back(&slice);
    }
    std::ranges::sort(slices, [](const Slice* a, const Slice* b) {
      return std::pair(a->part, a->extent.offset) < std::pair(b->part, b->extent.offset);
    });
    std::size_t sum = 0;
    std::size_t ended = ~std::size_t{0};  // part that has come to the end of the file
    for (const auto* slice : slices) {
      if (slice->part == ended) continue;
      sum += slice->got;
      if (slice->got < slice->extent.length) ended = slice->part;
    }
    return sum;
  }
};

wire::DataHead OpenFile::State::head(const Stamp& stamp, TargetId target, const Call::Attempt& attempt) const {
  wire::DataHead head{
      .file = {.key = key, .path = {}, .inode = inode}, .target = target, .stamp = stamp, .deadline = attempt.deadline};
  if (attempt.with_path) head.file.path = path;
  return head;
}

void OpenFile::State::add(const wire::Timing& timing) {
  std::lock_guard lock(mutex);
  spent.queued += timing.queued;
  spent.waiting += timing.waiting;
  spent.engine += timing.engine;
}

OpenFile::OpenFile(std::shared_ptr<Core> core, std::string path, std::uint64_t inode, Layout layout)
    : core_(std::move(core)), state_(std::make_shared<State>()) {
  state_->core = core_.get();
  state_->path = std::move(path);
  state_->inode = inode;
  state_->key = core_->new_file_key();
  state_->checksums = core_->options().checksums;
  state_->layout = std::move(layout);
}

OpenFile::~OpenFile() {
  core_->router().forget(state_->key);
}

TimeSpent OpenFile::time_spent() const {
  std::lock_guard lock(state_->mutex);
  return state_->spent;
}

Result<std::vector<OpenFile::Group>> OpenFile::plan(std::span<const Range> ranges) const {
  std::vector<Group> groups;
  std::map<TargetId, std::size_t> open;  // the group of a target that still has room
  for (std::size_t part = 0; part < ranges.size(); ++part) {
    const auto& range = ranges[part];
    if (range.size > wire::kMaxOffset || range.offset > wire::kMaxOffset - range.size) {
      return fail(ErrorCode::kInvalid, fmt::format("offset {} plus {} bytes is past 2^63", range.offset, range.size),
                  EFBIG);
    }
    for (const auto& piece : split(state_->layout, range.offset, Bytes(range.size))) {
      for (std::uint64_t done = 0; done < piece.length.count();) {
        const auto length = std::min(piece.length.count() - done, kMessageBytes);
        const auto offset = piece.offset + done;
        auto [found, fresh] = open.try_emplace(piece.target, groups.size());
        const auto* group = fresh ? nullptr : &groups[found->second];
        if (group == nullptr || group->bytes + length > kMessageBytes || group->slices.size() >= kMessageExtents) {
          found->second = groups.size();
          groups.push_back({.target = piece.target, .slices = {}});
        }
        auto& into = groups[found->second];
        into.slices.push_back({{offset, length}, part, range.memory + (offset - range.offset)});
        into.bytes += length;
        done += length;
      }
    }
  }
  return groups;
}

std::vector<OpenFile::Range> OpenFile::ranges_of(const std::vector<ReadPart>& parts) {
  std::vector<Range> ranges;
  for (const auto& part : parts) ranges.push_back({part.offset, part.into.data(), part.into.size()});
  return ranges;
}

// Nobody writes to that memory.
std::vector<OpenFile::Range> OpenFile::ranges_of(const std::vector<WritePart>& parts) {
  std::vector<Range> ranges;
  for (const auto& part : parts)
    ranges.push_back({part.offset, const_cast<std::byte*>(part.from.data()), part.from.size()});
  return ranges;
}

Stamp OpenFile::issue(const std::vector<Group>& groups) const {
  std::vector<TargetShare> shares;
  for (const auto& group : groups) shares.push_back({group.target, Bytes(group.bytes)});
  return core_->issue(std::move(shares));
}

CallPointer OpenFile::transfer(std::span<const Range> ranges, Send send, Done done) {
  auto groups = plan(ranges);
  if (!groups) return done(Failure(groups.error())), nullptr;
  if (groups->empty()) return done(std::size_t{0}), nullptr;
  auto join = std::make_shared<Join>();
  join->state = state_;
  join->stamp = issue(*groups);
  join->left = groups->size();
  join->groups = std::move(*groups);
  join->done = std::move(done);
  const auto count = join->groups.size();
  CallPointer last;
  for (std::size_t i = 0; i < count; ++i) last = (this->*send)(join, i);
  return count == 1 ? last : nullptr;
}

Result<std::size_t> OpenFile::transfer_and_wait(std::span<const Range> ranges, Send send) {
  return wait_for([&](Done done) {
    if (const auto call = transfer(ranges, send, std::move(done))) core_->router().attend(call);
  });
}

void OpenFile::read_async(std::vector<ReadPart> parts, Done done) {
  transfer(ranges_of(parts), &OpenFile::send_read, std::move(done));
}

void OpenFile::write_async(std::vector<WritePart> parts, Done done) {
  transfer(ranges_of(parts), &OpenFile::send_write, std::move(done));
}

CallPointer OpenFile::send_read(const std::shared_ptr<Join>& join, std::size_t index) {
  auto& group = join->groups[index];
  auto call = std::make_shared<Call>();
  call->retry = Retry::kAnytime;
  call->preferred = core_->router().owner(group.target);
  call->file_key = state_->key;
  call->bytes = group.bytes;
  for (const auto& slice : group.slices) call->places.push_back({slice.memory, slice.extent.length});
  call->encode = [join, index](const Call::Attempt& attempt) {
    const auto& from = join->groups[index];
    wire::ReadRequest request{.data = join->state->head(join->stamp, from.target, attempt),
                              .checksum = join->state->checksums};
    for (const auto& slice : from.slices) request.extents.push_back(slice.extent);
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->done = [join, index](const Result<net::Incoming>& message) {
    auto reply = reply_of<wire::ReadReply>(message);
    if (!reply) return join->one_done(Failure(reply.error()));
    auto& slices = join->groups[index].slices;
    const bool misplaced = !message->payload.empty() || reply->lengths.size() != slices.size();
    if (misplaced) return join->one_done(fail(ErrorCode::kProtocol, "a read reply that does not fit its request"));
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].got = reply->lengths[i];
    join->state->add(reply->head.timing);
    join->one_done({});
  };
  core_->router().submit(call);
  return call;
}

CallPointer OpenFile::send_write(const std::shared_ptr<Join>& join, std::size_t index) {
  auto& group = join->groups[index];
  auto call = std::make_shared<Call>();
  call->retry = Retry::kAfterFence;
  call->preferred = core_->router().owner(group.target);
  call->file_key = state_->key;
  call->bytes = group.bytes;
  call->encode = [join, index](const Call::Attempt& attempt) {
    const auto& from = join->groups[index];
    wire::WriteRequest request{.data = join->state->head(join->stamp, from.target, attempt), .extents = {}};
    net::Outgoing out;
    for (const auto& slice : from.slices) {
      request.extents.push_back(slice.extent);
      out.borrowed.push_back({slice.memory, slice.extent.length});
    }
    out.frame = wire::encode_scattered(request, attempt.tag, out.borrowed, join->state->checksums);
    return out;
  };
  call->done = [join, index, raw = call.get()](const Result<net::Incoming>& message) {
    auto reply = reply_of<wire::WriteReply>(message);
    if (!reply) return join->one_done(Failure(reply.error()));
    for (auto& slice : join->groups[index].slices) slice.got = slice.extent.length;
    {
      std::lock_guard lock(join->state->mutex);
      auto& oldest = join->state->unsynced.try_emplace(raw->node, raw->generation).first->second;
      oldest = std::min(oldest, raw->generation);
    }
    join->state->add(reply->head.timing);
    join->one_done({});
  };
  core_->router().submit(call);
  return call;
}

// Every node that took writes brings them to stable storage. A node that was lost since then cannot; on this machine
// the page cache has outlived it and any node will do, elsewhere nobody knows what became of them.
void OpenFile::fsync_async(bool data_only, Done done) {
  std::map<std::size_t, std::uint64_t> unsynced;
  {
    std::lock_guard lock(state_->mutex);
    unsynced.swap(state_->unsynced);
  }
  auto& router = core_->router();
  if (unsynced.empty()) {
    const auto node = router.owner(state_->layout.targets.front());
    unsynced[node] = router.link(node).generation();
  }
  auto join = std::make_shared<Join>();
  join->state = state_;
  join->stamped = false;
  join->left = unsynced.size();
  join->done = [state = state_, unsynced, done = std::move(done)](Result<std::size_t> result) {
    if (!result) {  // still not stable
      std::lock_guard lock(state->mutex);
      for (const auto& [node, generation] : unsynced) {
        auto& oldest = state->unsynced.try_emplace(node, generation).first->second;
        oldest = std::min(oldest, generation);
      }
    }
    done(std::move(result));
  };
  for (const auto& [node, generation] : unsynced) {
    const auto& link = router.link(node);
    if (link.local()) {
      send_fsync(join, node, data_only, Retry::kAnytime);
    } else if (link.generation() == generation) {
      send_fsync(join, node, data_only, Retry::kNever);
    } else {
      join->one_done(fail(ErrorCode::kIo,
                          fmt::format("{} was lost after it took writes and before fsync: write them again",
                                      core_->options().cluster.nodes[node].name),
                          EIO));
    }
  }
}

void OpenFile::send_fsync(const std::shared_ptr<Join>& join, std::size_t node, bool data_only, Retry retry) {
  auto call = std::make_shared<Call>();
  call->retry = retry;
  call->preferred = node;
  call->file_key = state_->key;
  call->encode = [state = state_, data_only](const Call::Attempt& attempt) {
    const wire::FsyncRequest request{state->head({}, state->layout.targets.front(), attempt), data_only};
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->done = [join](const Result<net::Incoming>& message) {
    auto reply = reply_of<wire::FsyncRequest::Reply>(message);
    join->one_done(reply ? Result<void>{} : Result<void>(Failure(reply.error())));
  };
  if (retry == Retry::kNever) return core_->router().submit_to(node, std::move(call));
  core_->router().submit(std::move(call));
}

Result<std::size_t> OpenFile::read(std::uint64_t offset, std::span<std::byte> into) {
  return read_list({{offset, into}});
}

Result<std::size_t> OpenFile::write(std::uint64_t offset, std::span<const std::byte> from) {
  return write_list({{offset, from}});
}

Result<std::size_t> OpenFile::read_list(std::vector<ReadPart> parts) {
  return transfer_and_wait(ranges_of(parts), &OpenFile::send_read);
}

Result<std::size_t> OpenFile::write_list(std::vector<WritePart> parts) {
  return transfer_and_wait(ranges_of(parts), &OpenFile::send_write);
}

Result<void> OpenFile::fsync(bool data_only) {
  auto result = wait_for([&](Done done) { fsync_async(data_only, std::move(done)); });
  if (!result) return Failure(result.error());
  return {};
}

Result<void> OpenFile::truncate(std::uint64_t size) {
  if (size > wire::kMaxOffset) return fail(ErrorCode::kInvalid, fmt::format("a size of {} is past 2^63", size), EFBIG);
  auto result = wait_for([&](Done done) {
    auto call = std::make_shared<Call>();
    call->retry = Retry::kAfterFence;
    call->preferred = core_->router().owner(state_->layout.targets.front());
    call->file_key = state_->key;
    call->encode = [state = state_, size](const Call::Attempt& attempt) {
      const wire::TruncateRequest request{state->head({}, state->layout.targets.front(), attempt), size};
      return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
    };
    call->done = [done = std::move(done)](const Result<net::Incoming>& message) {
      auto reply = reply_of<wire::TruncateRequest::Reply>(message);
      done(reply ? Result<std::size_t>(std::size_t{0}) : Result<std::size_t>(Failure(reply.error())));
    };
    core_->router().submit(call);
    core_->router().attend(call);
  });
  if (!result) return Failure(result.error());
  return {};
}

Result<FileStatus> OpenFile::status() {
  std::promise<Result<FileStatus>> promise;
  auto future = promise.get_future();
  auto call = std::make_shared<Call>();
  call->retry = Retry::kAnytime;
  call->preferred = core_->router().owner(state_->layout.targets.front());
  call->file_key = state_->key;
  call->encode = [state = state_](const Call::Attempt& attempt) {
    const wire::StatRequest request{state->head({}, 0, attempt).file};
    return net::Outgoing{.frame = wire::encode(request, {.tag = attempt.tag})};
  };
  call->done = [&promise](const Result<net::Incoming>& message) {
    auto reply = reply_of<wire::StatRequest::Reply>(message);
    promise.set_value(reply ? Result<FileStatus>(to_status(reply->attributes)) : Failure(reply.error()));
  };
  core_->router().submit(call);
  core_->router().attend(call);
  return future.get();
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include <algorithm>
#include <cerrno>

#include "base/mutex.h"
#include "wire/codec.h"

namespace tutti::node {
namespace {

using Kind = ClientRequest::Kind;

wire::ReplyHead unknown_file() {
  return {wire::kUnknownFile, "this node does not know the file's key; send the path as well", {}};
}

Direction direction_for(const ClientRequest& request) {
  if (request.kind == Kind::kCopy) return request.needs_source() ? Direction::kRead : Direction::kWrite;
  return request.kind == Kind::kWrite || request.kind == Kind::kTruncate ? Direction::kWrite : Direction::kRead;
}

// Any open mode will do.
bool takes_either(const ClientRequest& request) {
  return request.kind == Kind::kSync || request.kind == Kind::kStat;
}

const wire::FileReference& wanted_file(const ClientRequest& request) {
  return request.needs_source() ? request.source_reference : request.reference;
}

}  // namespace

void Session::resolve(RequestPointer request) {
  {
    Lock lock(mutex_);
    const wire::FileReference& reference = wanted_file(*request);
    SessionFilePointer& file = files_[reference.key];
    if (file && !reference.path.empty() && reference.path != file->path) file = nullptr;  // the key was used again
    if (!file && (reference.path.empty() || closed_)) {
      files_.erase(reference.key);
      request->head = unknown_file();
    } else {
      if (!file) {
        make_room(reference.key);
        file = std::make_shared<SessionFile>();
        file->path = reference.path;
      }
      if (file->opening || !pick(*file, *request)) {
        const std::uint64_t key = reference.key;
        file->waiting.push_back(std::move(request));
        if (std::exchange(file->opening, true)) return;
        workers_.post(strand_, [self = shared_from_this(), key, pointer = file] { self->open(key, pointer); });
        return;
      }
      assign_file(*file, *request);
    }
  }
  pass_on(std::move(request));
}

// Forgets one file that is not being opened. Its client then sends the path again.
void Session::make_room(std::uint64_t keep) {
  if (files_.size() <= kMaxKeys) return;
  const auto idle = [&](const auto& item) { return item.first != keep && !item.second->opening; };
  if (auto found = std::ranges::find_if(files_, idle); found != files_.end()) files_.erase(found);
}

const std::shared_ptr<BackingFile>& Session::pick(const SessionFile& file, const ClientRequest& request) {
  if (direction_for(request) == Direction::kWrite) return file.writing;
  if (!takes_either(request)) return file.reading;
  return file.writing ? file.writing : file.reading;
}

void Session::assign_file(const SessionFile& file, ClientRequest& request) {
  const wire::FileReference& wanted = wanted_file(request);
  const bool same = wanted.inode == file.inode && may_be_equal(wanted.generation, file.generation);
  if (wanted.inode != 0 && !same)
    request.head = wire::to_head({ErrorCode::kIo, file.path + ": is another file now", ESTALE});
  else if (request.needs_source())
    request.source = pick(file, request);
  else
    request.file = pick(file, request);
}

void Session::pass_on(RequestPointer request) {
  if (request->head.status == wire::kOk && request->kind == Kind::kCopy && !request->file)
    resolve(std::move(request));  // the file that is written
  else if (request->head.status == wire::kOk)
    sink_.resolved(std::move(request), *this);
  else
    sink_.refused(std::move(request), *this);
}

// Runs on a worker. Handles the waiting requests in order and opens what they need.
void Session::open(std::uint64_t key, const SessionFilePointer& file) {
  Lock lock(mutex_);
  while (!file->waiting.empty()) {
    RequestPointer next = std::move(file->waiting.front());
    file->waiting.erase(file->waiting.begin());
    Result<void> opened;
    if (!pick(*file, *next)) {
      lock.unlock();
      opened = open_for(*file, direction_for(*next));
      if (!opened && takes_either(*next)) opened = open_for(*file, Direction::kWrite);
      lock.lock();
    }
    if (opened)
      assign_file(*file, *next);
    else
      next->head = wire::to_head(opened.error());
    lock.unlock();
    pass_on(std::move(next));
    lock.lock();
  }
  file->opening = false;
  if (file->reading || file->writing) return;
  const auto found = files_.find(key);
  if (found != files_.end() && found->second == file) files_.erase(found);
}

// Only one thread opens a file at a time; other threads do not read its fields while it is being opened.
Result<void> Session::open_for(SessionFile& file, Direction direction) {
  const BackingFile* other = direction == Direction::kRead ? file.writing.get() : file.reading.get();
  auto opened = other ? root_.reopen(*other, direction) : root_.open_file(caller_, file.path, direction);
  if (!opened) return Failure(opened.error());
  sink_.opened((*opened)->id(), file.path);
  Lock lock(mutex_);
  if ((*opened)->readable()) file.reading = *opened;
  if ((*opened)->writable()) file.writing = *opened;
  file.inode = (*opened)->key().inode;
  file.generation = (*opened)->key().generation;
  return {};
}

bool Session::forget(std::uint64_t key) {
  Lock lock(mutex_);
  return files_.erase(key) > 0;
}

void Session::close() {
  Lock lock(mutex_);
  closed_ = true;
  files_.clear();
}

}  // namespace tutti::node

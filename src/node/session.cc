// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include <algorithm>
#include <cerrno>
#include <functional>

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

std::uint64_t hash_of(const std::string& path) {
  return std::hash<std::string>{}(path);
}

// Several keys may have the same file.
void found_unsynced(const std::shared_ptr<BackingFile>& file, OpenFiles::Search& search) {
  const bool helps = !file->changes.in_progress() && !file->poisoned;
  if (helps && search.unsynced.size() < OpenFiles::kSyncs &&
      std::ranges::find(search.unsynced, file) == search.unsynced.end())
    search.unsynced.push_back(file);
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
    if (file && !reference.path.empty() && hash_of(reference.path) != file->path_hash)
      file = nullptr;  // the key was used again
    if (!file && (reference.path.empty() || closed_)) {
      files_.erase(reference.key);
      count();
      request->head = unknown_file();
    } else {
      std::string path;  // of a file that is not known
      if (!file) {
        path = reference.path;
        file = std::make_shared<SessionFile>();
        file->path_hash = hash_of(path);
        count();
      }
      file->used = true;
      if (file->opening || !pick(*file, *request)) {
        const std::uint64_t key = reference.key;
        const bool begins = !file->opening;
        if (begins) file->opening = std::make_unique<SessionFile::Opening>(SessionFile::Opening{std::move(path), {}});
        file->opening->waiting.push_back(std::move(request));
        if (begins)
          workers_.post(strand_, [self = shared_from_this(), key, pointer = file] { self->open(key, pointer); });
        return;
      }
      assign_file(*file, *request);
    }
  }
  pass_on(std::move(request));
}

// Call after a change of files_.
void Session::count() {
  const std::size_t before = std::exchange(counted_, files_.size());
  if (counted_ != before) open_files_.count(caller_->uid, static_cast<std::ptrdiff_t>(counted_ - before));
}

// Changes through a key that no sync covers keep its file open, see open_files.h.
void Session::close_idle(OpenFiles::Search& search) {
  std::vector<SessionFilePointer> closed;  // descriptors are closed without the lock
  Lock lock(mutex_);
  boost::unordered::erase_if(files_, [&](auto& item) {
    SessionFile& file = *item.second;
    if (search.closed == search.most || (std::exchange(file.used, false) && search.unused_only)) return false;
    if (file.opening) return false;
    if (file.changed && !file.writing->changes.all_synced()) {
      found_unsynced(file.writing, search);
      return false;
    }
    ++search.closed;
    closed.push_back(std::move(item.second));
    return true;
  });
  count();
}

const std::shared_ptr<BackingFile>& Session::pick(const SessionFile& file, const ClientRequest& request) {
  if (direction_for(request) == Direction::kWrite) return file.writing;
  if (!takes_either(request)) return file.reading;
  return file.writing ? file.writing : file.reading;
}

void Session::assign_file(SessionFile& file, ClientRequest& request) {
  const wire::FileReference& wanted = wanted_file(request);
  const bool same = wanted.inode == file.inode && may_be_equal(wanted.generation, file.generation);
  if (wanted.inode != 0 && !same) {
    const std::string& name = wanted.path.empty() ? "the file" : wanted.path;
    request.head = wire::to_head({ErrorCode::kIo, name + ": is another file now", ESTALE});
  } else if (request.needs_source()) {
    request.source = pick(file, request);
  } else {
    request.file = pick(file, request);
    if (!request.changes_file()) return;
    file.changed = true;
    request.change.begin(*request.file);
  }
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
  std::vector<RequestPointer>& waiting = file->opening->waiting;
  while (!waiting.empty()) {
    RequestPointer next = std::move(waiting.front());
    waiting.erase(waiting.begin());
    Result<void> opened;
    if (!pick(*file, *next)) {
      lock.unlock();
      opened = open_for(*file, direction_for(*next));
      if (!opened && opened.error().code != ErrorCode::kFull && takes_either(*next))
        opened = open_for(*file, Direction::kWrite);
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
  file->opening.reset();
  if (file->reading || file->writing) return;
  const auto found = files_.find(key);
  if (found != files_.end() && found->second == file) files_.erase(found);
  count();
}

// Only one thread opens a file at a time; other threads do not read its fields while it is being opened.
Result<void> Session::open_for(SessionFile& file, Direction direction) {
  if (auto may = open_files_.limit(caller_->uid); !may) return may;
  const BackingFile* other = direction == Direction::kRead ? file.writing.get() : file.reading.get();
  const auto open = [&] {
    return other ? root_.reopen(*other, direction) : root_.open_file(caller_, file.opening->path, direction);
  };
  auto opened = open();
  if (!opened && opened.error().code == ErrorCode::kFull) {
    if (auto room = open_files_.make_room(caller_->uid); !room) return room;
    opened = open();
  }
  if (!opened && opened.error().code == ErrorCode::kFull) opened.error().system = EAGAIN;  // files are being closed
  if (!opened) return Failure(opened.error());
  if (!other) sink_.opened((*opened)->id(), file.opening->path);
  Lock lock(mutex_);
  if ((*opened)->readable()) file.reading = *opened;
  if ((*opened)->writable()) file.writing = *opened;
  file.inode = (*opened)->key().inode;
  file.generation = (*opened)->key().generation;
  return {};
}

bool Session::forget(std::uint64_t key) {
  SessionFilePointer forgotten;  // closed without the lock
  Lock lock(mutex_);
  const auto found = files_.find(key);
  if (found == files_.end()) return false;
  forgotten = std::move(found->second);
  files_.erase(found);
  count();
  return true;
}

void Session::close() {
  decltype(files_) forgotten;  // closed without the lock
  Lock lock(mutex_);
  closed_ = true;
  forgotten.swap(files_);
  count();
}

}  // namespace tutti::node

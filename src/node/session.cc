// SPDX-License-Identifier: Apache-2.0
#include "node/session.h"

#include <cerrno>

#include "wire/codec.h"

namespace tutti::node {
namespace {

wire::ReplyHead unknown_file() {
  return {wire::kUnknownFile, "this node does not know the file's key (any more); send its path along", {}};
}

Direction direction_for(const Job& job) {
  return job.kind == Job::Kind::kWrite || job.kind == Job::Kind::kTruncate ? Direction::kWrite : Direction::kRead;
}

}  // namespace

void Session::resolve(std::unique_ptr<Job> job, const wire::FileReference& reference) {
  File::Waiting arrived{std::move(job), reference.inode};
  Passage passage;
  {
    std::lock_guard lock(mutex_);
    FilePointer& file = files_[reference.key];
    if (file && !reference.path.empty() && reference.path != file->path) file = nullptr;  // the key was used again
    if (!file && (reference.path.empty() || closed_)) {
      files_.erase(reference.key);
      passage = {std::move(arrived.job), unknown_file()};
    } else {
      if (!file) file = new_file(reference.path);
      if (file->opening || !pick(*file, *arrived.job)) {
        file->waiting.push_back(std::move(arrived));
        if (std::exchange(file->opening, true)) return;
        workers_.post(strand_,
                      [self = shared_from_this(), key = reference.key, pointer = file] { self->open(key, pointer); });
        return;
      }
      passage = pass(*file, std::move(arrived));
    }
  }
  std::vector<Passage> one;
  one.push_back(std::move(passage));
  leave(std::move(one));
}

Session::FilePointer Session::new_file(const std::string& path) {
  auto file = std::make_shared<File>();
  file->path = path;
  return file;
}

const std::shared_ptr<BackingFile>& Session::pick(const File& file, const Job& job) {
  if (direction_for(job) == Direction::kWrite) return file.writing;
  if (job.kind == Job::Kind::kRead) return file.reading;
  return file.writing ? file.writing : file.reading;  // a sync or a stat: either will do
}

Session::Passage Session::pass(const File& file, File::Waiting waiting) {
  if (waiting.inode != 0 && waiting.inode != file.inode)
    return {std::move(waiting.job), wire::to_head({ErrorCode::kIo, file.path + ": is another file now", ESTALE})};
  waiting.job->file = pick(file, *waiting.job);
  return {std::move(waiting.job), {}};
}

void Session::leave(std::vector<Passage> passages) {
  for (Passage& passage : passages) {
    if (passage.refusal.status == wire::kOk)
      exits_.go(std::move(passage.job));
    else
      exits_.refuse(std::move(passage.job), passage.refusal);
  }
}

// On a worker. Serves the waiting jobs in order, opening what they need as it goes.
void Session::open(std::uint64_t key, const FilePointer& file) {
  std::unique_lock lock(mutex_);
  while (!file->waiting.empty()) {
    File::Waiting next = std::move(file->waiting.front());
    file->waiting.erase(file->waiting.begin());
    std::vector<Passage> passages;
    if (!pick(*file, *next.job)) {
      lock.unlock();
      auto opened = open_for(*file, direction_for(*next.job));
      if (!opened && next.job->kind != Job::Kind::kRead) opened = open_for(*file, Direction::kWrite);
      lock.lock();
      if (!opened) passages.push_back({std::move(next.job), wire::to_head(opened.error())});
    }
    if (passages.empty()) passages.push_back(pass(*file, std::move(next)));
    lock.unlock();
    leave(std::move(passages));
    lock.lock();
  }
  file->opening = false;
  if (file->reading || file->writing) return;
  const auto found = files_.find(key);
  if (found != files_.end() && found->second == file) files_.erase(found);
}

// Only one thread is here for a file at a time, and nobody else looks at it while it is opening.
Result<void> Session::open_for(File& file, Direction direction) {
  const BackingFile* other = direction == Direction::kRead ? file.writing.get() : file.reading.get();
  auto opened = other ? root_.reopen(*other, direction) : root_.open_file(caller_, file.path, direction);
  if (!opened) return Failure(opened.error());
  std::lock_guard lock(mutex_);
  if ((*opened)->readable()) file.reading = *opened;
  if ((*opened)->writable()) file.writing = *opened;
  file.inode = (*opened)->key().inode;
  return {};
}

bool Session::forget(std::uint64_t key) {
  std::lock_guard lock(mutex_);
  return files_.erase(key) > 0;
}

void Session::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  files_.clear();
}

}  // namespace tutti::node

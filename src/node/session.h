// SPDX-License-Identifier: Apache-2.0
// What a node knows of one connection: who it is, and which files it has in use.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/root.h"
#include "node/job.h"
#include "node/workers.h"
#include "wire/messages.h"

namespace tutti::node {

// Thread-safe. Jobs that need a file wait here, in order, while it is being opened.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // Where jobs go once their file is known, and those that cannot have one.
  struct Exits {
    std::function<void(std::unique_ptr<Job>)> go;
    std::function<void(std::unique_ptr<Job>, const wire::ReplyHead&)> refuse;
  };

  Session(Root& root, Workers& workers, Root::Caller caller, Exits exits)
      : root_(root), workers_(workers), caller_(std::move(caller)), exits_(std::move(exits)) {}

  const Root::Caller& caller() const { return caller_; }
  // Namespace calls and opens of one connection happen one after another, in order of arrival.
  const std::shared_ptr<Workers::Strand>& strand() const { return strand_; }
  const std::shared_ptr<JobList>& jobs() const { return jobs_; }

  // Gives the job the file it refers to, now or as soon as it is open, and passes it on through one of the exits.
  void resolve(std::unique_ptr<Job> job, const wire::FileReference& reference);

  // The key is free for another file. False: it was not in use.
  bool forget(std::uint64_t key);
  // Forgets all files; nothing is resolved any more.
  void close();

 private:
  // One key. Opened for reading, for writing, or for both at once, as needed and allowed.
  struct File {
    std::string path;
    std::uint64_t inode = 0;  // 0: not known yet
    std::shared_ptr<BackingFile> reading, writing;
    bool opening = false;
    struct Waiting {
      std::unique_ptr<Job> job;
      std::uint64_t inode;
    };
    std::vector<Waiting> waiting;
  };
  using FilePointer = std::shared_ptr<File>;
  struct Passage {
    std::unique_ptr<Job> job;
    wire::ReplyHead refusal;  // kOk: go
  };

  static FilePointer new_file(const std::string& path);
  static const std::shared_ptr<BackingFile>& pick(const File& file, const Job& job);
  Passage pass(const File& file, File::Waiting waiting);
  void leave(std::vector<Passage> passages);
  void open(std::uint64_t key, const FilePointer& file);
  Result<void> open_for(File& file, Direction direction);

  Root& root_;
  Workers& workers_;
  const Root::Caller caller_;
  const Exits exits_;
  const std::shared_ptr<Workers::Strand> strand_ = std::make_shared<Workers::Strand>();
  const std::shared_ptr<JobList> jobs_ = std::make_shared<JobList>();

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, FilePointer> files_;
  bool closed_ = false;
};

}  // namespace tutti::node

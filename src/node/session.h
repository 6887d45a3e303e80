// SPDX-License-Identifier: Apache-2.0
// What a node knows about one connection: the user, and the files that the client refers to by key.
// Files that are idle may be closed (open_files.h). The client then sends the path again.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/world.h"
#include "engine/file_system.h"
#include "node/client_request.h"
#include "node/credits.h"
#include "node/open_files.h"
#include "wire/messages.h"

namespace tutti::node {

// Opens the files of data requests. Requests wait here, in order of arrival, while their file is being opened.
// Thread-safe.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // Receives every request that resolve() took, once. Called without locks.
  class RequestSink {
   public:
    virtual ~RequestSink() = default;
    virtual void resolved(std::unique_ptr<ClientRequest> request, Session& session) = 0;  // request->file is open
    virtual void refused(std::unique_ptr<ClientRequest> request, Session& session) = 0;   // request->head says why
    virtual void opened(FileId, const std::string& /*path*/) {}  // before the first request of a file
  };

  // All of them outlive the session.
  struct Dependencies {
    FileSystem& root;
    Workers& workers;
    OpenFiles& open_files;
  };
  Session(const Dependencies& dependencies, FileSystem::Caller caller, RequestSink& sink)
      : root_(dependencies.root),
        workers_(dependencies.workers),
        open_files_(dependencies.open_files),
        caller_(std::move(caller)),
        sink_(sink) {}

  const FileSystem::Caller& caller() const { return caller_; }
  // Namespace calls and opens of one connection run on this strand: one after another, in order of arrival.
  const std::shared_ptr<Workers::Strand>& strand() const { return strand_; }
  ClientRequestList& requests() { return requests_; }
  PulledPayloads& pulled_payloads() { return pulled_payloads_; }
  // Read memory that the connection holds until its replies are sent. Not by job: a client may state any number of
  // them.
  const std::shared_ptr<net::BufferAccount>& read_account() const { return read_account_; }
  Credits::Holder& credit() { return credit_; }
  // Whether the client can only state its own jobs (Request::job_proven). Set before the first request.
  bool& job_proven() { return job_proven_; }
  // The job of the last request, if it was named (ClusterLimits::name_job). Used only by the connection's handler.
  std::optional<ApplicationId>& named_job() { return named_job_; }
  // The deadline that the client has set for all its requests.
  std::atomic<TimePoint>& renewed() { return renewed_; }

  // Finds or opens the file of request->reference, then passes the request to the sink: in this call, or later from a
  // worker thread if the file must be opened.
  void resolve(std::unique_ptr<ClientRequest> request);

  // The client may use the key for another file. False: the key was not in use.
  bool forget(std::uint64_t key);
  // Closes files that may be closed, and adds what it found to the search.
  void close_idle(OpenFiles::Search& search);
  // Forgets all files. Later requests are refused.
  void close();

 private:
  using RequestPointer = std::unique_ptr<ClientRequest>;

  // The file of one key: opened for reading, for writing or for both, as requests need it.
  struct SessionFile {
    // While it is being opened for the first time, or for another direction.
    struct Opening {
      std::string path;                     // empty: it is open for the other direction
      std::vector<RequestPointer> waiting;  // until it is open
    };
    std::unique_ptr<Opening> opening;
    std::uint64_t path_hash = 0;  // not the path, to save memory
    std::uint64_t inode = 0;      // 0: not known yet
    std::uint64_t generation = 0;
    std::shared_ptr<BackingFile> reading, writing;
    bool used = false;     // since the last search for files to close
    bool changed = false;  // through this key, at any time
  };
  using SessionFilePointer = std::shared_ptr<SessionFile>;

  void count() TUTTI_REQUIRES(mutex_);
  static const std::shared_ptr<BackingFile>& pick(const SessionFile& file, const ClientRequest& request);
  static void assign_file(SessionFile& file, ClientRequest& request);
  void pass_on(RequestPointer request);
  void open(std::uint64_t key, const SessionFilePointer& file);
  Result<void> open_for(SessionFile& file, Direction direction);

  FileSystem& root_;
  Workers& workers_;
  OpenFiles& open_files_;
  const FileSystem::Caller caller_;
  RequestSink& sink_;
  const std::shared_ptr<Workers::Strand> strand_ = workers_.make_strand(caller_->uid);
  ClientRequestList requests_;
  PulledPayloads pulled_payloads_;
  const std::shared_ptr<net::BufferAccount> read_account_ = std::make_shared<net::BufferAccount>();
  Credits::Holder credit_;
  bool job_proven_ = true;
  std::optional<ApplicationId> named_job_;
  std::atomic<TimePoint> renewed_{};

  Mutex mutex_;
  boost::unordered_flat_map<std::uint64_t, SessionFilePointer> files_ TUTTI_GUARDED_BY(mutex_);
  std::size_t counted_ TUTTI_GUARDED_BY(mutex_) = 0;  // of them, in open_files_
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::node

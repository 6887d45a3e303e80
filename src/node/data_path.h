// SPDX-License-Identifier: Apache-2.0
// Passes reads, writes and barriers whose file is open through the scheduler and the engine, and replies to them.
#pragma once

#include <tutti/sched.h>

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/world.h"
#include "engine/engine.h"
#include "engine/file_system.h"
#include "node/client_request.h"
#include "node/usage.h"

namespace tutti::node {

// Has no dispatcher thread: the thread that admits a request or reports a completion also dispatches what the scheduler
// has ready. So a request that arrives at an idle node is served on the thread that received it. Thread-safe.
class DataPath : private CompletionSink {
 public:
  // What happened since the last look.
  struct Progress {
    bool waiting = false;                           // a request waited all the time
    bool moving = false;                            // operations ended, or none was in the engine
    std::vector<net::ConnectionPointer> syncing{};  // whose syncs have run all the time
  };
  // All of them outlive the data path.
  struct Dependencies {
    World* world;
    Scheduler* scheduler;
    Clock* policy_clock;  // of the scheduler
    Engine* engine;
    FileSystem* files;
    Workers* workers;
    std::shared_ptr<net::BufferPool> read_memory;
    Task when_idle{};  // called without locks each time the last reply is sent
    // Called without locks once per `look_interval` while there are requests, and again if it returns true.
    std::function<bool(const Progress&)> progress{};
    Duration look_interval = std::chrono::seconds(1);
    // A dispatched read waits this long for memory, then fails with EAGAIN: the client repeats it.
    Duration memory_patience = std::chrono::seconds(10);
    std::shared_ptr<net::BufferPool> pulled_memory;  // for payloads that are pulled
    // A client that was asked for a payload and has not begun to send it after this time is disconnected.
    Duration receive_timeout = net::ListenOptions{}.receive_timeout;
  };
  // Batches that wait for payloads and do not count towards the depth of the queue, so that the engine does not become
  // idle.
  static constexpr std::size_t kPulledAhead = 2;
  // A payload that does not arrive within this time is late: its batch no longer delays others.
  static constexpr Duration kPullPatience = std::chrono::milliseconds(50);

  // Since the start.
  struct DispatchCounts {
    std::uint64_t batches = 0, batched_requests = 0;
    std::uint64_t refused = 0;  // deadline passed, scheduler stopped or full
  };

  explicit DataPath(const Dependencies& dependencies);
  ~DataPath() override;  // every request must have been answered, unless discard() was called

  // Simulates that the process was killed: drops all requests without a reply. The engine must not report completions
  // afterwards. For simulated nodes.
  void discard();

  // Takes a read, write, copy, sync or truncate whose file is open. It always gets a reply.
  void admit(std::unique_ptr<ClientRequest> request);

  // The transport has received the header of the payload of one of these requests. Returns the memory for it; empty:
  // there is none now. kProtocol: the payload was not asked for, or has another size.
  Result<net::Buffer> payload_memory(ClientRequestList& requests, const wire::Header& header);
  // The payload has arrived, in this memory. kProtocol as above.
  Result<void> payload_arrived(ClientRequestList& requests, net::Incoming message);

  // The connection of these requests is closed: cancels those that wait. Those in the engine finish; their replies are
  // dropped by the connection.
  void abandon(ClientRequestList& requests, PulledPayloads& payloads);

  // Dispatches what the scheduler has ready. Call it after the scheduler was stopped or its policy was switched.
  void pump();
  // Calls Dependencies::progress after a `look_interval`, also without requests.
  void look_soon();
  // Dependencies::progress is not called any more. The destructor does the same; call it before if what it uses is
  // destroyed earlier.
  void stop_timer();
  // True if every admitted request has been answered.
  bool idle() const;

  // As UsageTable::page().
  UsageTable::Page usage(const wire::UsageKey& first) const;
  DispatchCounts counts() const;

 private:
  struct EngineBatch;
  // One read or write of the engine: adjoining extents on one descriptor.
  struct TransferOperation : Operation {
    EngineBatch* engine_batch = nullptr;
    boost::container::small_vector<RequestExtent*, 1> extents{};
  };
  // A batch of the scheduler while it is in the engine, or waits for memory before that.
  struct EngineBatch : boost::intrusive::list_base_hook<> {
    Scheduler::Dispatched batch{};
    std::list<TransferOperation> operations{};                            // the engine has pointers to them
    std::size_t unfinished = 0;                                           // operations
    std::size_t started = 0;                                              // operations that the engine has got
    TimePoint waiting_since{};                                            // for memory; zero: it has not waited
    boost::container::small_vector<RequestExtent*, 1> without_payload{};  // writes that are not planned yet
    bool over_share = false;  // it waits because a job holds its share of the memory
    bool aside = false;       // as in Scheduler::set_aside()
    bool ahead = false;       // set aside while it waited for payloads that are on their way
  };
  struct PullMessage {
    net::ConnectionPointer to;
    std::uint64_t tag = 0;
  };
  // Actions that follow from a change under the lock. carry_out() performs them without the lock.
  struct Effects {
    boost::container::small_vector<std::unique_ptr<ClientRequest>, 2> answers{};
    boost::container::small_vector<ClientRequest*, 2> ready{};
    boost::container::small_vector<Operation*, 4> operations{};
    boost::container::small_vector<std::unique_ptr<EngineBatch>, 2> completed{};
    boost::container::small_vector<PullMessage, 2> pulls{};
  };

  static constexpr const char* kTooLate = "the deadline passed before the request was applied";

  void completed(std::span<Operation* const> operations) override;
  void carry_out(Effects& effects);
  static void copy_joined_pages(std::span<Operation* const> operations);

  void start(ClientRequest& request);
  void start(std::span<ClientRequest* const> requests);
  void schedule(ClientRequest& request);
  void start_barrier(ClientRequest& request);

  RequestExtent& extent_of(const Request& scheduled) TUTTI_REQUIRES(mutex_) { return *extents_[scheduled.id]; }
  void refuse_expired(std::unique_ptr<ClientRequest> arrived, TimePoint now);
  bool put_in_order(ClientRequest& transfer) TUTTI_REQUIRES(mutex_);
  void assign_id(RequestExtent& extent) TUTTI_REQUIRES(mutex_);

  void dispatch();
  void submit(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  bool find_memory(EngineBatch& engine_batch) TUTTI_REQUIRES(mutex_);
  void refuse_without_memory(EngineBatch& engine_batch) TUTTI_REQUIRES(mutex_);
  void set_aside(EngineBatch& engine_batch) TUTTI_REQUIRES(mutex_);
  void plan(EngineBatch& engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  void plan(EngineBatch& engine_batch, RequestExtent& extent, Effects& effects) TUTTI_REQUIRES(mutex_);
  void start_operations(EngineBatch& engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  void begin(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  void complete(std::unique_ptr<EngineBatch> engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  void append(EngineBatch& engine_batch, RequestExtent& extent) TUTTI_REQUIRES(mutex_);
  void complete_transfer(TransferOperation& transfer, TimePoint now, Effects& effects) TUTTI_REQUIRES(mutex_);
  void split(TransferOperation& transfer, std::size_t from, Effects& effects) TUTTI_REQUIRES(mutex_);
  void settle(RequestExtent& extent, Effects& effects) TUTTI_REQUIRES(mutex_);
  void finish(ClientRequest& request, Effects& effects) TUTTI_REQUIRES(mutex_);
  void retry_memory();

  // Payloads (data_path_payloads.cc).
  bool lacks_payload(const EngineBatch& engine_batch) TUTTI_REQUIRES(mutex_);
  void advance_payloads(Effects& effects) TUTTI_REQUIRES(mutex_);
  bool advance_payload_at(std::size_t index, Effects& effects) TUTTI_REQUIRES(mutex_);
  bool advance_payloads(EngineBatch& engine_batch, Effects& effects) TUTTI_REQUIRES(mutex_);
  void park(std::size_t index) TUTTI_REQUIRES(mutex_);
  void left_scheduler(ClientRequest& request) TUTTI_REQUIRES(mutex_);
  void unpark(PulledPayloads& connection) TUTTI_REQUIRES(mutex_);
  bool pull(ClientRequest& request, Effects& effects) TUTTI_REQUIRES(mutex_);
  void check_late(ClientRequest& request, TimePoint now) TUTTI_REQUIRES(mutex_);
  TimePoint payload_by(const ClientRequest& request) const;
  void disconnect_late_peers();
  void payload_ended(ClientRequest& request) TUTTI_REQUIRES(mutex_);
  void payload_lost(ClientRequest& request) TUTTI_REQUIRES(mutex_);
  static ClientRequest* find_pulled(ClientRequestList& requests, std::uint64_t tag);
  void retry_payloads();
  Progress look() TUTTI_REQUIRES(mutex_);
  void cancel_expired(TimePoint now, Effects& effects) TUTTI_REQUIRES(mutex_);
  void cancel(ClientRequest& request, const Error& why, Effects& effects) TUTTI_REQUIRES(mutex_);
  void report_progress();

  void wake_at(TimePoint when);
  void wake();

  const Dependencies dependencies_;
  Clock& clock_;

  mutable Mutex mutex_;  // guards what follows and all requests
  boost::unordered_flat_map<FileId, FileOrder> orders_ TUTTI_GUARDED_BY(mutex_);
  std::size_t unanswered_ TUTTI_GUARDED_BY(mutex_) = 0;
  using AllRequests = boost::intrusive::list<
      ClientRequest,
      boost::intrusive::member_hook<ClientRequest, decltype(ClientRequest::all_hook), &ClientRequest::all_hook>,
      boost::intrusive::constant_time_size<false>>;
  AllRequests requests_ TUTTI_GUARDED_BY(mutex_);  // unanswered; this list owns them
  boost::intrusive::list<EngineBatch, boost::intrusive::constant_time_size<false>> engine_batches_
      TUTTI_GUARDED_BY(mutex_);                                                           // owned, too
  std::deque<std::unique_ptr<EngineBatch>> waiting_for_memory_ TUTTI_GUARDED_BY(mutex_);  // reads, in order of dispatch
  std::size_t in_turn_ TUTTI_GUARDED_BY(mutex_) = 0;  // of those, not over their share: later ones wait behind them
  std::deque<std::unique_ptr<EngineBatch>> waiting_for_payload_
      TUTTI_GUARDED_BY(mutex_);  // writes, in order of dispatch; some may be in the engine in part
  // Batches that lack only payloads of clients that are late, by client; nullptr: of several clients. Nothing looks at
  // them until the payloads of one of their clients have arrived or are lost.
  std::map<PulledPayloads*, std::vector<std::unique_ptr<EngineBatch>>> parked_ TUTTI_GUARDED_BY(mutex_);
  std::size_t parked_count_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::size_t late_payloads_ TUTTI_GUARDED_BY(mutex_) = 0;
  boost::unordered_flat_map<UserId, std::size_t> late_of_user_ TUTTI_GUARDED_BY(mutex_);  // of those; never 0
  std::size_t memory_behind_ TUTTI_GUARDED_BY(mutex_) = 0;    // requests with ClientRequest::memory_behind
  std::size_t headers_waiting_ TUTTI_GUARDED_BY(mutex_) = 0;  // ClientRequest::header_waits: they get memory first
  bool pull_memory_left_ TUTTI_GUARDED_BY(mutex_) = true;     // no batch in waiting_for_payload_ was refused memory
  std::size_t ahead_ TUTTI_GUARDED_BY(mutex_) = 0;            // batches with EngineBatch::ahead
  std::atomic<bool> payloads_missing_{false};                 // waiting_for_payload_ is not empty
  UsageTable usage_ TUTTI_GUARDED_BY(mutex_);
  DispatchCounts counts_ TUTTI_GUARDED_BY(mutex_);
  std::vector<RequestExtent*> extents_
      TUTTI_GUARDED_BY(mutex_);  // by request id; ids of finished extents are used again
  std::vector<RequestId> free_ids_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t looks_ TUTTI_GUARDED_BY(mutex_) = 0;                 // for progress, so far
  TimePoint next_look_ TUTTI_GUARDED_BY(mutex_) = TimePoint::max();  // max(): there are no requests
  bool some_completed_ TUTTI_GUARDED_BY(mutex_) = false;             // since the last look

  Mutex timer_mutex_;  // guards the rest
  TimePoint wake_at_ TUTTI_GUARDED_BY(timer_mutex_) = TimePoint::max();
  bool timer_stopped_ TUTTI_GUARDED_BY(timer_mutex_) = false;
  std::unique_ptr<Timer> timer_;
};

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// A data message of a client (read, write, copy, sync, truncate, stat of an open file), from its arrival to its reply.
#pragma once

#include <tutti/sched.h>

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "net/transport.h"
#include "node/file_order.h"
#include "node/usage.h"
#include "wire/messages.h"

namespace tutti::node {

struct ClientRequest;

// Where the payload of a write is.
enum class PayloadState : std::uint8_t {
  kHere,
  kAbsent,    // at the client, which waits for wire::Pull
  kPulled,    // asked for; ClientRequest::memory is reserved for it, unless it is late
  kArriving,  // its header has arrived; the connection has the memory
};

// What the data path knows about the payloads that a connection was asked for. Guarded by the data path's mutex.
struct PulledPayloads {
  std::size_t late = 0;     // nothing more is asked for until they have arrived
  std::uint64_t bytes = 0;  // that were asked for and have not arrived
  bool lost = false;        // the connection is closed: none will arrive
};

// One extent of a read or write. The scheduler gets one Request for each.
struct RequestExtent {
  ClientRequest* request = nullptr;  // nullptr: finished
  RequestId id = 0;                  // assigned by the data path
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t moved = 0;      // bytes transferred
  std::uint32_t memory_at = 0;  // where its data starts in the request's memory
  bool pulls = false;           // its batch has asked for the request's payload
};

// The unanswered requests of one connection; they are cancelled when it closes. Guarded by the data path's mutex.
using ClientRequestList = boost::intrusive::list<ClientRequest, boost::intrusive::constant_time_size<false>>;

// A request that changes the data of a file, from its admission to its end. The file outlives it.
class Change {
 public:
  Change() = default;
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() { end(); }

  void begin(BackingFile& file) {
    file_ = &file;
    file.changes.begin();
  }
  void end() {
    if (BackingFile* file = std::exchange(file_, nullptr)) file->changes.end();
  }

 private:
  BackingFile* file_ = nullptr;
};

// Owned by the session until its file is open, then by the data path until the reply is sent. Not thread-safe.
struct ClientRequest : Ordered,
                       boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> all_hook{};
  enum class Kind : std::uint8_t { kRead, kWrite, kSync, kTruncate, kStat, kCopy };

  Kind kind = Kind::kRead;
  net::ConnectionPointer connection{};
  std::uint64_t tag = 0;
  bool checksum = false;   // the payload of the reply gets a checksum
  bool job_proven = true;  // as in Request
  TargetId target = 0;
  std::uint8_t stripe_log2 = 0;  // striping of the file, as the client states it; as in Request
  std::uint16_t stripe_count = 0;
  Stamp stamp{};
  TimePoint sent_deadline{};        // of the message, on Clock::steady(); zero: none
  std::uint64_t look = 0;           // number of DataPath's last look for progress before it arrived
  std::uint64_t size = 0;           // kTruncate
  wire::FileReference reference{};  // the file, as the client names it
  std::shared_ptr<BackingFile> file{};
  Change change{};  // of `file`
  // kCopy: the file that is read, which is opened first.
  wire::FileReference source_reference{};
  std::uint64_t source_offset = 0;
  std::shared_ptr<BackingFile> source{};
  // The file to open next is the source.
  bool needs_source() const { return kind == Kind::kCopy && !source; }

  boost::container::small_vector<RequestExtent, 1> extents{};
  std::uint64_t total = 0;   // bytes of all extents
  net::Buffer memory{};      // a write's payload, from its arrival; a read's data, from its first dispatch
  PagePipe pages{};          // data that is not in the memory: of a read, or not yet copied there by copy_pages()
  std::size_t pages_at = 0;  // position of that data in the memory
  PayloadState payload = PayloadState::kHere;
  bool late = false;             // counted in pulled_payloads->late
  std::size_t undispatched = 0;  // extents that wait in the scheduler
  bool memory_behind = false;    // has memory for a pulled payload, and extents that wait in the scheduler
  bool header_waits = false;     // kPulled: its payload has arrived at the socket and waits for memory
  TimePoint pulled_at{};         // on Clock::steady()

  std::size_t left = 0;  // unfinished extents
  wire::ReplyHead head{};
  ClientRequestList* connection_requests = nullptr;                   // owned by the session
  PulledPayloads* pulled_payloads = nullptr;                          // owned by the session
  const std::shared_ptr<net::BufferAccount>* read_account = nullptr;  // owned by the session
  const std::atomic<TimePoint>* renewed = nullptr;  // the connection's deadline (wire::Renew); owned by the session

  struct Sync : Operation {
    ClientRequest* request = nullptr;
    std::uint64_t covered = 0;  // as in BackingFile::Changes::synced()
  };
  std::unique_ptr<Sync> sync{};  // kSync, once it has started

  Direction direction() const { return kind == Kind::kRead ? Direction::kRead : Direction::kWrite; }
  bool changes_file() const { return kind == Kind::kWrite || kind == Kind::kTruncate || kind == Kind::kCopy; }
  bool transfers() const { return kind == Kind::kRead || kind == Kind::kWrite || kind == Kind::kCopy; }
  // It must not be applied later; zero: none.
  TimePoint deadline() const {
    return sent_deadline == TimePoint{} || renewed == nullptr ? sent_deadline
                                                              : std::max(sent_deadline, renewed->load());
  }
  bool expired(TimePoint now) const {
    const TimePoint until = deadline();
    return until != TimePoint{} && now > until;
  }

  UsageTable::Transfer usage() const {
    return {stamp.application, stamp.user, target, direction(), total, stamp.phase_total.count()};
  }
  wire::Type type() const;

  // The client was asked for the payload, which has not arrived. No reply may be sent before it has.
  bool awaits_payload() const { return payload == PayloadState::kPulled || payload == PayloadState::kArriving; }

  // Copies the pages of a write's payload into the memory. Not while an engine uses them.
  void copy_pages();

  // Sets the status of the reply. Only the first failure is kept.
  void fail(std::int32_t status, const std::string& message) {
    if (head.status == wire::kOk) head = {status, message, head.timing, {}};
  }
};

// Sends the reply. The request's memory is moved into it.
void reply(ClientRequest& request);

}  // namespace tutti::node

// SPDX-License-Identifier: Apache-2.0
// One request of a client on its way through the node.
#pragma once

#include <tutti/sched.h>

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "net/transport.h"
#include "node/file_order.h"
#include "node/usage.h"
#include "wire/messages.h"

namespace tutti::node {

struct Job;

// One extent: what the scheduler knows as a request. Its address is the request's id.
struct Piece {
  Job* job = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t moved = 0;
  std::uint32_t at = 0;  // where it lies in the job's memory
};

// The jobs of one connection, so that they can be taken back when it ends. Guarded by the data path.
using JobList = boost::intrusive::list<Job, boost::intrusive::constant_time_size<false>>;

struct Job : Ordered, boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  enum class Kind : std::uint8_t { kRead, kWrite, kSync, kTruncate, kStat };

  Kind kind = Kind::kRead;
  net::ConnectionPointer connection{};
  std::uint64_t tag = 0;
  bool checksum = false;  // of the reply's payload
  TargetId target = 0;
  Stamp stamp{};
  TimePoint deadline{};    // on net::steady_now; zero: none
  std::uint64_t size = 0;  // kTruncate
  std::string path{};      // kStat
  std::shared_ptr<BackingFile> file{};

  std::vector<Piece> pieces{};
  std::uint64_t total = 0;   // bytes of all pieces
  net::Buffer memory{};      // the payload of a write from the start; a read's from its first dispatch on
  PagePipe pages{};          // what was read, if it is not in the memory; what is to be written and not there yet
  std::size_t pages_at = 0;  // where that belongs

  std::size_t left = 0;  // pieces not settled
  wire::ReplyHead head{};
  std::shared_ptr<JobList> siblings{};

  struct Sync : Operation {
    Job* job = nullptr;
  } sync{};

  Direction direction() const { return kind == Kind::kRead ? Direction::kRead : Direction::kWrite; }
  bool transfers() const { return kind == Kind::kRead || kind == Kind::kWrite; }
  bool expired(TimePoint now) const { return deadline != TimePoint{} && now > deadline; }

  UsageTable::Transfer usage() const { return {stamp.application, target, direction(), total}; }
  wire::Type type() const;

  // All of a write's payload is in the memory then. Not while an engine has it.
  void gather();

  // The first failure is the one that is reported.
  void fail(std::int32_t status, const std::string& message) {
    if (head.status == wire::kOk) head = {status, message.substr(0, wire::kMaxMessage), head.timing};
  }
};

// Sends what became of it. The job's memory goes with the reply.
void reply(Job& job);

}  // namespace tutti::node

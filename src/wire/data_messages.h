// SPDX-License-Identifier: Apache-2.0
// Reads, writes and barriers. They carry stamps; the node's policy orders reads and writes.
#pragma once

#include <boost/container/small_vector.hpp>

#include "wire/message.h"

namespace tutti::wire {

// Names an open file on this connection. The first request for a file carries a key chosen by the client and the path;
// later ones carry only the key. A node that does not know the key answers kUnknownFile. If `inode` is not 0 and the
// path now leads to another file (renamed, replaced), the node answers ESTALE.
struct FileReference {
  std::uint64_t key = 0;
  std::string path{};                       // empty: the node knows the key
  std::uint64_t inode = 0, generation = 0;  // as in Attributes

  void fields(auto& a) {
    a(key, "file key");
    a.path(path, "path");
    a(inode, "inode");
    a(generation, "generation");
  }
};

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // at least 1; offset + length at most kMaxOffset
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Most messages have one.
using Extents = boost::container::small_vector<Extent, 1>;
using Lengths = boost::container::small_vector<std::uint32_t, 2>;

// Common fields of all data requests.
struct DataHead {
  FileReference file{};
  TargetId target = 0;
  std::uint8_t stripe_log2 = 0;  // striping of the file, as in Request
  std::uint16_t stripe_count = 0;
  Stamp stamp{};
  TimePoint deadline{};  // on the node's clock (Welcome::now); the node does not apply the request later. Zero: none,
                         // for requests that change nothing

  void fields(auto& a) {
    file.fields(a);
    a(target, "target");
    a(stripe_log2, "stripe size");
    a(stripe_count, "stripe count");
    a.stamp(stamp);
    a(deadline, "deadline");
  }
};

struct ReadReply {
  static constexpr Type kType = Type::kRead;
  ReplyHead head{};
  // Bytes read per extent; fewer than requested only at the end of the file. The payload has them without gaps.
  Lengths lengths{};

  void fields(auto& a) { a.integers(lengths, "lengths", kMaxExtents); }
};

struct ReadRequest {
  static constexpr Type kType = Type::kRead;
  using Reply = ReadReply;
  DataHead data{};
  bool checksum = false;  // asks for a checksum of the reply's payload
  Extents extents{};      // 1 to kMaxExtents; together at most kMaxPayload

  void fields(auto& a) {
    data.fields(a);
    a(checksum, "checksum");
    a.extents(extents);
  }
};

struct WriteReply {
  static constexpr Type kType = Type::kWrite;
  ReplyHead head{};
  std::uint64_t written = 0;  // bytes; always all of them if the status is kOk

  void fields(auto& a) { a(written, "written"); }
};

// The payload has the data of the extents, in their order, without gaps. If the client has no credit for it (Limits),
// the request has no payload; the node sends Pull for it when the policy has dispatched the write, and the client
// answers with Payload.
struct WriteRequest {
  static constexpr Type kType = Type::kWrite;
  using Reply = WriteReply;
  DataHead data{};          // if on_request: the deadline is not used, that of the Payload is
  bool on_request = false;  // the payload is sent in a Payload message
  Extents extents{};

  void fields(auto& a) {
    data.fields(a);
    a(on_request, "on request");
    a.extents(extents);
  }
};

// From a node to its client, as a reply with tag 0: send the payload of a write now. After it the node answers the
// write only when the payload has arrived.
struct Pull {
  static constexpr Type kType = Type::kPull;
  ReplyHead head{};
  std::uint64_t write = 0;  // its tag

  void fields(auto& a) { a(write, "write"); }
};

// The client's answer to Pull, with the tag of the write: the payload has all the data of its extents. Without a
// payload: the client cannot read its memory, and the node answers the write with EFAULT.
struct Payload {
  static constexpr Type kType = Type::kPayload;
  TimePoint deadline{};  // of the write, as in DataHead

  void fields(auto& a) { a(deadline, "deadline"); }
};

struct CopyReply {
  static constexpr Type kType = Type::kCopy;
  ReplyHead head{};
  std::uint64_t copied = 0;  // bytes; fewer than requested only at the end of the source

  void fields(auto& a) { a(copied, "copied"); }
};

// Copies a range of one file to another on the node, without the client. Ordered and counted as a write of the range.
// EINVAL: the ranges are in one file and overlap.
struct CopyRequest {
  static constexpr Type kType = Type::kCopy;
  using Reply = CopyReply;
  DataHead data{};         // of the file that is written
  FileReference source{};  // always with its path
  std::uint64_t source_offset = 0;
  Extent range{};  // in the file that is written; at most kMaxPayload bytes

  void fields(auto& a) {
    data.fields(a);
    source.fields(a);
    a(source_offset, "offset");
    a(range.offset, "offset");
    a(range.length, "length");
    a.require(range.length >= 1 && range.length <= kMaxPayload, "length", "is zero or over the limit");
    a.require(source_offset <= kMaxOffset - range.length && range.offset <= kMaxOffset - range.length, "offset",
              "plus the length is past 2^63");
  }
};

// A barrier: when it is answered, all writes to this file that arrived at this node before it are on stable storage.
struct FsyncRequest {
  static constexpr Type kType = Type::kFsync;
  using Reply = PlainReply<kType>;
  DataHead data{};
  bool data_only = false;

  void fields(auto& a) {
    data.fields(a);
    a(data_only, "data only");
  }
};

// A barrier: waits for earlier reads and writes of this file at this node; later ones wait for it.
struct TruncateRequest {
  static constexpr Type kType = Type::kTruncate;
  using Reply = PlainReply<kType>;
  DataHead data{};
  std::uint64_t size = 0;

  void fields(auto& a) {
    data.fields(a);
    a(size, "size");
    a.require(size <= kMaxOffset, "size", "is past 2^63");
  }
};

// From a node to its client, again and again while requests wait: it is at work on them (docs/design/fencing.md). Sent
// as a reply with tag 0.
struct Progress {
  static constexpr Type kType = Type::kProgress;
  ReplyHead head{};
  bool moving = false;   // the queue moves: all reads, writes and barriers of this connection will be served
  bool syncing = false;  // a sync of this connection is running, of a file or of a directory
  bool naming = false;   // requests for names of this connection wait or run, and get on

  void fields(auto& a) {
    a(moving, "moving");
    a(syncing, "syncing");
    a(naming, "naming");
  }
};

// From a node to its client, as a reply with tag 0: a new value of Limits::credit.
struct Credit {
  static constexpr Type kType = Type::kCredit;
  ReplyHead head{};
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // of this message; ascending

  void fields(auto& a) {
    a(bytes, "bytes");
    a(number, "number");
  }
};

// The client's answer to Credit, once all that it has sent beyond the new credit is answered.
struct CreditAccepted {
  static constexpr Type kType = Type::kCreditAccepted;
  std::uint64_t number = 0;  // of the Credit, the latest that has arrived

  void fields(auto& a) { a(number, "number"); }
};

// The client's answer to Progress: none of its requests on this connection expires before `deadline`, as in DataHead.
struct Renew {
  static constexpr Type kType = Type::kRenew;
  TimePoint deadline{};

  void fields(auto& a) { a(deadline, "deadline"); }
};

}  // namespace tutti::wire

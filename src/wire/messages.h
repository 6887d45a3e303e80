// SPDX-License-Identifier: Apache-2.0
// The inside of every message. A request names its reply type as `Reply`; a reply starts with a ReplyHead, and its
// other fields are only sent when the status is 0.
//
// Paths are relative to the root the node serves, without a leading or trailing '/', without ".", ".." or empty
// components; the root itself is "". Decoders refuse everything else, so a path that arrives is well formed (symbolic
// links may still point outside: the node must resolve beneath its root).
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace tutti::wire {

inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxMessage = 1024;
inline constexpr std::size_t kMaxXattr = 64 << 10;
inline constexpr std::size_t kMaxExtents = 8192;
inline constexpr std::size_t kMaxEntries = 800;  // of a directory, in one reply
inline constexpr std::size_t kMaxUsage = 512;    // rows in one reply

// How a reply says what went wrong: 0, an errno of Linux (ENOENT, ...), or one of these.
enum Status : std::int32_t {
  kOk = 0,
  kUnknownFile = 4096,  // the node does not know this file key (any more): send again with the path
  kExpired = 4097,      // the deadline passed before it was applied; it never will be
  kStopping = 4098,     // the node is shutting down and has not applied it
  kMalformed = 4099,    // the request was understood well enough to be answered, but is wrong
};

// Where the time of a request went, as the node saw it.
struct Timing {
  Duration queued{};   // from arrival until the policy chose it, less `waiting`
  Duration waiting{};  // of that time, how long the policy kept the device idle on purpose
  Duration engine{};   // in the engine
};

struct ReplyHead {
  std::int32_t status = kOk;
  std::string message{};  // for people; says what was wrong. Empty when all went well.
  Timing timing{};
};

// ---- handshake ----

enum class Method : std::uint8_t {
  kPeer = 1,   // Unix socket: the kernel says who the peer is
  kKey = 2,    // HMAC-SHA256 with the cluster's key, both ways
  kMunge = 3,  // a MUNGE credential
};

// Who asks. The node acts with these rights and no others.
struct Identity {
  std::uint32_t uid = 65534;
  std::uint32_t gid = 65534;
  std::vector<std::uint32_t> groups{};
};

using Nonce = std::array<std::byte, 32>;
using Digest = std::array<std::byte, 32>;

struct Hello {
  static constexpr Type kType = Type::kHello;
  std::string software{};    // "tutti 0.1.0"
  std::string job{};         // a name for people: "slurm 4711", "ior"
  std::uint8_t methods = 0;  // bit (1 << Method) for each one the client can do
  Identity claim{};          // believed only from somebody who proves to hold the key
  Nonce nonce{};
};

struct Challenge {
  static constexpr Type kType = Type::kChallenge;
  Method method{};
  Nonce nonce{};
};

struct Proof {
  static constexpr Type kType = Type::kProof;
  Digest digest{};
  std::string credential{};  // MUNGE only
};

// How much a client may have under way on one connection.
struct Limits {
  std::uint32_t requests = 256;
  std::uint64_t bytes = 32 << 20;  // payloads of writes and of expected read replies
};

struct Welcome {
  static constexpr Type kType = Type::kWelcome;
  ReplyHead head{};
  Digest digest{};     // the node's own proof that it holds the key; zeros with kPeer
  std::string node{};  // its name
  TimePoint now{};     // by the clock that deadlines are measured on: the node's own, steady, any origin
  Limits limits{};
  bool lend = false;                // large payloads are best sent by reference
  std::vector<TargetId> targets{};  // that this node owns
};

// ---- data ----

// A file on this connection. The first request for a file brings a key of the client's choice and the path; later ones
// need the key alone. A node that does not know the key answers kUnknownFile. `inode` guards against the path meaning
// another file by now (renamed, replaced): not 0 and different from the file's gets ESTALE.
struct FileReference {
  std::uint64_t key = 0;
  std::string path{};  // empty: the key is known already
  std::uint64_t inode = 0;
};

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // at least 1; offset + length at most kMaxOffset
  friend bool operator==(const Extent&, const Extent&) = default;
};

// What every data request carries.
struct DataHead {
  FileReference file{};
  TargetId target = 0;
  Stamp stamp{};
  TimePoint deadline{};  // by the node's clock (Welcome::now): never applied after it. Zero: no deadline.
};

struct ReadReply {
  static constexpr Type kType = Type::kRead;
  ReplyHead head{};
  // Bytes read per extent, short only at the end of the file; the payload holds them one after another.
  std::vector<std::uint32_t> lengths{};
};

struct ReadRequest {
  static constexpr Type kType = Type::kRead;
  using Reply = ReadReply;
  DataHead data{};
  bool checksum = false;          // the reply's payload should carry a checksum
  std::vector<Extent> extents{};  // 1 to kMaxExtents; together at most kMaxPayload
};

struct WriteReply {
  static constexpr Type kType = Type::kWrite;
  ReplyHead head{};
  std::uint64_t written = 0;  // all of it, or the status says why not
};

// The payload holds the extents' bytes one after another, exactly.
struct WriteRequest {
  static constexpr Type kType = Type::kWrite;
  using Reply = WriteReply;
  DataHead data{};
  std::vector<Extent> extents{};
};

// Replies with nothing to add.
template <Type type>
struct PlainReply {
  static constexpr Type kType = type;
  ReplyHead head{};
};

// A barrier: everything that arrived at this node before it for this file is on stable storage.
struct FsyncRequest {
  static constexpr Type kType = Type::kFsync;
  using Reply = PlainReply<kType>;
  DataHead data{};
  bool data_only = false;
};

// A barrier, too.
struct TruncateRequest {
  static constexpr Type kType = Type::kTruncate;
  using Reply = PlainReply<kType>;
  DataHead data{};
  std::uint64_t size = 0;
};

// ---- namespace ----

struct Attributes {
  std::uint64_t inode = 0;
  std::uint32_t mode = 0;  // type and permissions as in struct stat
  std::uint32_t links = 0;
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // of 512 bytes
  std::uint64_t device = 0;  // st_rdev
  TimePoint accessed{}, modified{}, changed{};
};

template <Type type>
struct AttributesReply {
  static constexpr Type kType = type;
  ReplyHead head{};
  Attributes attributes{};
};

inline constexpr std::uint8_t kMayRead = 4, kMayWrite = 2, kMayExecute = 1;  // as access(2)

// Attributes of what is at `path`; EACCES unless the caller has all rights in `access`.
struct LookupRequest {
  static constexpr Type kType = Type::kLookup;
  using Reply = AttributesReply<kType>;
  std::string path{};
  bool follow = false;  // a symbolic link at the end
  std::uint8_t access = 0;
};

// Attributes of a file in use.
struct StatRequest {
  static constexpr Type kType = Type::kStat;
  using Reply = AttributesReply<kType>;
  FileReference file{};
};

struct CreateRequest {
  static constexpr Type kType = Type::kCreate;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::uint32_t mode = 0644;
  bool exclusive = false;  // EEXIST if there is one
  bool truncate = false;
  std::uint8_t access = kMayWrite;  // as LookupRequest, if the file exists
};

struct MakeDirectoryRequest {
  static constexpr Type kType = Type::kMakeDirectory;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::uint32_t mode = 0755;
};

struct DirectoryEntry {
  std::string name{};  // one component
  std::uint64_t inode = 0;
  std::uint8_t type = 0;   // DT_REG, ...
  std::uint64_t next = 0;  // cursor that continues after this entry
};

struct ReadDirectoryReply {
  static constexpr Type kType = Type::kReadDirectory;
  ReplyHead head{};
  bool end = false;
  std::vector<DirectoryEntry> entries{};  // without "." and ".."
};

struct ReadDirectoryRequest {
  static constexpr Type kType = Type::kReadDirectory;
  using Reply = ReadDirectoryReply;
  std::string path{};
  std::uint64_t cursor = 0;          // 0, or `next` of an entry
  std::uint32_t most = kMaxEntries;  // entries; the node may return fewer before the end, but at least one
};

struct RenameRequest {
  static constexpr Type kType = Type::kRename;
  using Reply = PlainReply<kType>;
  std::string from{}, to{};
  std::uint32_t flags = 0;  // RENAME_NOREPLACE, RENAME_EXCHANGE
};

struct UnlinkRequest {
  static constexpr Type kType = Type::kUnlink;
  using Reply = PlainReply<kType>;
  std::string path{};
};

struct RemoveDirectoryRequest {
  static constexpr Type kType = Type::kRemoveDirectory;
  using Reply = PlainReply<kType>;
  std::string path{};
};

// What `mask` names is set. The size is set by TruncateRequest.
struct SetAttributesRequest {
  static constexpr Type kType = Type::kSetAttributes;
  using Reply = AttributesReply<kType>;
  enum Mask : std::uint8_t { kMode = 1, kOwner = 2, kGroup = 4, kAccessed = 8, kModified = 16 };
  std::string path{};
  bool follow = false;
  std::uint8_t mask = 0;
  std::uint32_t mode = 0, uid = 0, gid = 0;
  TimePoint accessed{}, modified{};
};

struct SymlinkRequest {
  static constexpr Type kType = Type::kSymlink;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::string target{};  // any text without NUL
};

struct ReadLinkReply {
  static constexpr Type kType = Type::kReadLink;
  ReplyHead head{};
  std::string target{};
};

struct ReadLinkRequest {
  static constexpr Type kType = Type::kReadLink;
  using Reply = ReadLinkReply;
  std::string path{};
};

struct LinkRequest {
  static constexpr Type kType = Type::kLink;
  using Reply = AttributesReply<kType>;
  std::string from{}, to{};
};

struct GetXattrReply {
  static constexpr Type kType = Type::kGetXattr;
  ReplyHead head{};
  std::string value{};
};

struct GetXattrRequest {
  static constexpr Type kType = Type::kGetXattr;
  using Reply = GetXattrReply;
  std::string path{};
  std::string attribute{};
};

struct SetXattrRequest {
  static constexpr Type kType = Type::kSetXattr;
  using Reply = PlainReply<kType>;
  std::string path{};
  std::string attribute{};
  std::string value{};
  std::uint32_t flags = 0;  // XATTR_CREATE, XATTR_REPLACE
};

struct ListXattrReply {
  static constexpr Type kType = Type::kListXattr;
  ReplyHead head{};
  std::vector<std::string> attributes{};
};

struct ListXattrRequest {
  static constexpr Type kType = Type::kListXattr;
  using Reply = ListXattrReply;
  std::string path{};
};

struct RemoveXattrRequest {
  static constexpr Type kType = Type::kRemoveXattr;
  using Reply = PlainReply<kType>;
  std::string path{};
  std::string attribute{};
};

struct StatFsReply {
  static constexpr Type kType = Type::kStatFs;
  ReplyHead head{};
  std::uint64_t block_size = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;
};

struct StatFsRequest {
  static constexpr Type kType = Type::kStatFs;
  using Reply = StatFsReply;
};

// The key is free for another file; requests still under way keep the old one open.
struct CloseRequest {
  static constexpr Type kType = Type::kClose;
  using Reply = PlainReply<kType>;
  std::uint64_t key = 0;
};

// ---- control ----

struct PolicyReply {
  static constexpr Type kType = Type::kPolicyShow;
  ReplyHead head{};
  std::string policy{};
  PolicyOptions options{};
};

struct PolicyShowRequest {
  static constexpr Type kType = Type::kPolicyShow;
  using Reply = PolicyReply;
};

struct PolicySetRequest {
  static constexpr Type kType = Type::kPolicySet;
  using Reply = PlainReply<kType>;
  std::string policy{};
  PolicyOptions options{};
};

// One application on one target. Counters since the node started, so that a reader can subtract two answers.
struct Usage {
  ApplicationId application = 0;
  TargetId target = 0;
  std::string job{};  // as its client's Hello said
  std::uint64_t requests = 0, read_bytes = 0, written_bytes = 0;
  std::uint64_t waiting = 0, waiting_bytes = 0;  // right now
  Duration queued{}, engine{};                   // summed over requests
};

struct StatisticsReply {
  static constexpr Type kType = Type::kStatistics;
  ReplyHead head{};
  std::string node{};
  std::string policy{};
  Duration uptime{};
  std::uint64_t connections = 0, waiting = 0, waiting_bytes = 0, in_flight = 0;
  std::uint64_t batches = 0, batched_requests = 0, refused = 0;
  std::uint64_t buffer_bytes = 0;  // of payload buffers in use
  bool more = false;               // ask again with `first` further on
  std::vector<Usage> usage{};      // ordered by application and target, from `first` on, at most kMaxUsage
};

struct StatisticsRequest {
  static constexpr Type kType = Type::kStatistics;
  using Reply = StatisticsReply;
  std::uint32_t first = 0;  // row
};

struct HealthReply {
  static constexpr Type kType = Type::kHealth;
  ReplyHead head{};
  std::string node{}, software{}, engine{}, root{}, policy{};
  bool stopping = false;
  Duration uptime{};
  std::uint32_t process = 0;
  std::vector<TargetId> targets{};
};

struct HealthRequest {
  static constexpr Type kType = Type::kHealth;
  using Reply = HealthReply;
};

// Stop the node: finish what waits, or drop it with kStopping. Only for the node's own user and root.
struct StopRequest {
  static constexpr Type kType = Type::kStop;
  using Reply = PlainReply<kType>;
  bool drain = true;
};

}  // namespace tutti::wire

// SPDX-License-Identifier: Apache-2.0
// Names and attributes: served from the backing file system, in order of arrival.
//
// Requests that change something have a deadline as in DataHead: the node does not apply them later. Zero: none.
#pragma once

#include "wire/data_messages.h"

namespace tutti::wire {

struct Attributes {
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;  // as in FileStat (engine/file_system.h)
  std::uint32_t mode = 0;        // type and permissions as in struct stat
  std::uint32_t links = 0;
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;  // of 512 bytes
  std::uint64_t device = 0;  // st_rdev
  TimePoint accessed{}, modified{}, changed{};

  void fields(auto& a) {
    a(inode, "inode");
    a(generation, "generation");
    a(mode, "mode");
    a(links, "links");
    a(uid, "uid");
    a(gid, "gid");
    a(size, "size");
    a(blocks, "blocks");
    a(device, "device");
    a(accessed, "accessed");
    a(modified, "modified");
    a(changed, "changed");
  }
};

template <Type type>
struct AttributesReply {
  static constexpr Type kType = type;
  ReplyHead head{};
  Attributes attributes{};

  void fields(auto& a) { attributes.fields(a); }
};

inline constexpr std::uint8_t kMayRead = 4, kMayWrite = 2, kMayExecute = 1;  // as access(2)

// Attributes of the file at `path`. EACCES if the user does not have all rights in `access`.
struct LookupRequest {
  static constexpr Type kType = Type::kLookup;
  using Reply = AttributesReply<kType>;
  std::string path{};
  bool follow = false;  // follow a symbolic link in the last component
  std::uint8_t access = 0;

  void fields(auto& a) {
    a.path(path, "path");
    a(follow, "follow");
    a.access(access);
  }
};

// Attributes of an open file.
struct StatRequest {
  static constexpr Type kType = Type::kStat;
  using Reply = AttributesReply<kType>;
  FileReference file{};

  void fields(auto& a) { file.fields(a); }
};

struct CreateRequest {
  static constexpr Type kType = Type::kCreate;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::uint32_t mode = 0644;
  bool exclusive = false;  // EEXIST if the file exists
  bool truncate = false;
  std::uint8_t access = kMayWrite;  // as in LookupRequest, if the file exists
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a(mode, "mode");
    a(exclusive, "exclusive");
    a(truncate, "truncate");
    a.access(access);
    a(deadline, "deadline");
  }
};

struct MakeDirectoryRequest {
  static constexpr Type kType = Type::kMakeDirectory;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::uint32_t mode = 0755;
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a(mode, "mode");
    a(deadline, "deadline");
  }
};

struct DirectoryEntry {
  std::string name{};  // one component
  std::uint64_t inode = 0;
  std::uint8_t type = 0;   // DT_REG, ...
  std::uint64_t next = 0;  // cursor of the following entry
  Attributes attributes{};
};

struct ReadDirectoryReply {
  static constexpr Type kType = Type::kReadDirectory;
  ReplyHead head{};
  bool end = false;
  bool attributes = false;                // the entries have attributes
  std::vector<DirectoryEntry> entries{};  // without "." and ".."

  void fields(auto& a) {
    a(end, "end");
    a(attributes, "attributes");
    a.list(entries, "entries", kMaxEntries, 22, [&](DirectoryEntry& entry) {
      a.entry_name(entry.name, "name");
      a(entry.inode, "inode");
      a(entry.type, "type");
      a(entry.next, "next");
      if (attributes) entry.attributes.fields(a);
    });
  }
};

struct ReadDirectoryRequest {
  static constexpr Type kType = Type::kReadDirectory;
  using Reply = ReadDirectoryReply;
  std::string path{};
  std::uint64_t cursor = 0;          // where to start: 0, or `next` of an entry
  std::uint32_t most = kMaxEntries;  // entries in the reply; the node may send fewer, but at least one before the end
  // Send the attributes of each entry; symbolic links are not followed. Entries whose attributes cannot be read are
  // left out. At most kMaxEntriesWithAttributes.
  bool attributes = false;

  void fields(auto& a) {
    a.path(path, "path");
    a(cursor, "cursor");
    a(most, "most");
    a(attributes, "attributes");
  }
};

struct RenameRequest {
  static constexpr Type kType = Type::kRename;
  using Reply = PlainReply<kType>;
  std::string from{}, to{};
  std::uint32_t flags = 0;  // RENAME_NOREPLACE, RENAME_EXCHANGE
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(from, "from");
    a.path(to, "to");
    a(flags, "flags");
    a(deadline, "deadline");
  }
};

struct UnlinkRequest {
  static constexpr Type kType = Type::kUnlink;
  using Reply = PlainReply<kType>;
  std::string path{};
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a(deadline, "deadline");
  }
};

struct RemoveDirectoryRequest {
  static constexpr Type kType = Type::kRemoveDirectory;
  using Reply = PlainReply<kType>;
  std::string path{};
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a(deadline, "deadline");
  }
};

// Makes the names in the directory durable, as fsync(2) of a directory.
struct SyncDirectoryRequest {
  static constexpr Type kType = Type::kSyncDirectory;
  using Reply = PlainReply<kType>;
  std::string path{};

  void fields(auto& a) { a.path(path, "path"); }
};

// Sets the attributes selected by `mask`. For the size use TruncateRequest.
struct SetAttributesRequest {
  static constexpr Type kType = Type::kSetAttributes;
  using Reply = AttributesReply<kType>;
  enum Mask : std::uint8_t { kMode = 1, kOwner = 2, kGroup = 4, kAccessed = 8, kModified = 16 };
  std::string path{};
  bool follow = false;
  std::uint8_t mask = 0;
  std::uint32_t mode = 0, uid = 0, gid = 0;
  TimePoint accessed{}, modified{};
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a(follow, "follow");
    a(mask, "mask");
    a.require(mask < 32, "mask", "has unknown bits");
    a(mode, "mode");
    a(uid, "uid");
    a(gid, "gid");
    a(accessed, "accessed");
    a(modified, "modified");
    a(deadline, "deadline");
  }
};

struct SymlinkRequest {
  static constexpr Type kType = Type::kSymlink;
  using Reply = AttributesReply<kType>;
  std::string path{};
  std::string target{};  // any text without NUL
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a.c_text(target, "target", kMaxPath);
    a(deadline, "deadline");
  }
};

struct ReadLinkReply {
  static constexpr Type kType = Type::kReadLink;
  ReplyHead head{};
  std::string target{};

  void fields(auto& a) { a.text(target, "target", kMaxPath); }
};

struct ReadLinkRequest {
  static constexpr Type kType = Type::kReadLink;
  using Reply = ReadLinkReply;
  std::string path{};

  void fields(auto& a) { a.path(path, "path"); }
};

struct LinkRequest {
  static constexpr Type kType = Type::kLink;
  using Reply = AttributesReply<kType>;
  std::string from{}, to{};
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(from, "from");
    a.path(to, "to");
    a(deadline, "deadline");
  }
};

struct GetXattrReply {
  static constexpr Type kType = Type::kGetXattr;
  ReplyHead head{};
  std::string value{};

  void fields(auto& a) { a.text(value, "value", kMaxXattr); }
};

struct GetXattrRequest {
  static constexpr Type kType = Type::kGetXattr;
  using Reply = GetXattrReply;
  std::string path{};
  std::string attribute{};

  void fields(auto& a) {
    a.path(path, "path");
    a.c_text(attribute, "attribute", kMaxName);
  }
};

struct SetXattrRequest {
  static constexpr Type kType = Type::kSetXattr;
  using Reply = PlainReply<kType>;
  std::string path{};
  std::string attribute{};
  std::string value{};
  std::uint32_t flags = 0;  // XATTR_CREATE, XATTR_REPLACE
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a.c_text(attribute, "attribute", kMaxName);
    a.text(value, "value", kMaxXattr);
    a(flags, "flags");
    a(deadline, "deadline");
  }
};

struct ListXattrReply {
  static constexpr Type kType = Type::kListXattr;
  ReplyHead head{};
  std::vector<std::string> attributes{};

  void fields(auto& a) {
    a.list(attributes, "attributes", kMaxXattr / 2, 4,
           [&](std::string& name) { a.c_text(name, "attribute", kMaxName); });
  }
};

struct ListXattrRequest {
  static constexpr Type kType = Type::kListXattr;
  using Reply = ListXattrReply;
  std::string path{};

  void fields(auto& a) { a.path(path, "path"); }
};

struct RemoveXattrRequest {
  static constexpr Type kType = Type::kRemoveXattr;
  using Reply = PlainReply<kType>;
  std::string path{};
  std::string attribute{};
  TimePoint deadline{};

  void fields(auto& a) {
    a.path(path, "path");
    a.c_text(attribute, "attribute", kMaxName);
    a(deadline, "deadline");
  }
};

struct StatFsReply {
  static constexpr Type kType = Type::kStatFs;
  ReplyHead head{};
  std::uint64_t block_size = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;

  void fields(auto& a) {
    for (auto* value : {&block_size, &blocks, &free_blocks, &available_blocks, &files, &free_files}) {
      a(*value, "statfs");
    }
  }
};

struct StatFsRequest {
  static constexpr Type kType = Type::kStatFs;
  using Reply = StatFsReply;
  void fields(auto&) {}
};

// Releases the key for another file. Requests in flight keep the old file open until they are done.
struct CloseRequest {
  static constexpr Type kType = Type::kClose;
  using Reply = PlainReply<kType>;
  std::uint64_t key = 0;

  void fields(auto& a) { a(key, "file key"); }
};

}  // namespace tutti::wire

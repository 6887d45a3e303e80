// SPDX-License-Identifier: Apache-2.0
// The fields of every message in order, once for both directions. Internal to the codec.
#pragma once

#include <string>
#include <vector>

#include "wire/archive.h"

namespace tutti::wire {

// The archive reads into, or writes from, a message; writers never change it.
template <typename A>
void boolean(A& a, bool& value, const char* field) {
  std::uint8_t byte = value ? 1 : 0;
  a.integer(byte, field);
  a.require(byte <= 1, field, "is neither true nor false");
  value = byte == 1;
}

template <typename A>
void time(A& a, TimePoint& value, const char* field) {
  std::int64_t nanoseconds = value.time_since_epoch().count();
  a.integer(nanoseconds, field);
  value = TimePoint(Duration(nanoseconds));
}

template <typename A>
void duration(A& a, Duration& value, const char* field) {
  std::int64_t nanoseconds = value.count();
  a.integer(nanoseconds, field);
  value = Duration(nanoseconds);
}

template <typename A>
void bytes(A& a, Bytes& value, const char* field) {
  std::uint64_t count = value.count();
  a.integer(count, field);
  value = Bytes(count);
}

template <typename A>
void path(A& a, std::string& value, const char* field) {
  a.text(value, field, kMaxPath);
  if constexpr (A::kReads) {
    if (!a.good()) return;
    if (auto fine = check_path(value); !fine) a.mistake(field, fine.error().message);
  }
}

template <typename A>
void entry_name(A& a, std::string& value, const char* field) {
  a.text(value, field, kMaxName);
  if constexpr (A::kReads) {
    if (!a.good()) return;
    if (auto fine = check_name(value); !fine) a.mistake(field, fine.error().message);
  }
}

// Text that goes to the kernel as a C string.
template <typename A>
void c_text(A& a, std::string& value, const char* field, std::size_t most) {
  a.text(value, field, most);
  a.require(value.find('\0') == std::string::npos, field, "contains a NUL byte");
  a.require(!value.empty(), field, "is empty");
}

template <typename A, typename Element, typename Each>
void list(A& a, std::vector<Element>& elements, const char* field, std::size_t most, std::size_t smallest, Each each) {
  const auto count = a.count(elements.size(), field, most, smallest);
  if constexpr (A::kReads) elements.resize(count);
  for (auto& element : elements) {
    each(element);
    if (!a.good()) return;
  }
}

template <typename A, typename Integer>
void integers(A& a, std::vector<Integer>& values, const char* field, std::size_t most) {
  list(a, values, field, most, sizeof(Integer), [&](Integer& value) { a.integer(value, field); });
}

template <typename A>
void extents(A& a, std::vector<Extent>& values) {
  std::uint64_t sum = 0;
  list(a, values, "extents", kMaxExtents, 16, [&](Extent& extent) {
    a.integer(extent.offset, "offset");
    a.integer(extent.length, "length");
    a.require(extent.length >= 1 && extent.length <= kMaxPayload, "length", "is zero or over the limit");
    a.require(extent.offset <= kMaxOffset - extent.length, "offset", "plus the length is past 2^63");
    sum += extent.length;
  });
  a.require(!values.empty(), "extents", "are missing");
  a.require(sum <= kMaxPayload, "extents", "are together over the limit of one message");
}

template <typename A>
void fields(A& a, PolicyOptions& options) {
  std::size_t count = a.count(options.size(), "options", 64, 8);
  if constexpr (A::kReads) {
    std::string previous, name, value;
    for (std::size_t i = 0; i < count && a.good(); ++i) {
      a.text(name, "option", kMaxName);
      a.text(value, "option value", kMaxMessage);
      a.require(i == 0 || previous < name, "options", "are out of order");
      options[name] = value;
      previous = name;
    }
  } else {
    for (auto& [name, value] : options) {
      a.text(name, "option", kMaxName);
      a.text(value, "option value", kMaxMessage);
    }
  }
}

template <typename A>
void fields(A& a, ReplyHead& head) {
  a.integer(head.status, "status");
  a.text(head.message, "message", kMaxMessage);
  duration(a, head.timing.queued, "queued");
  duration(a, head.timing.waiting, "waiting");
  duration(a, head.timing.engine, "engine");
}

// ---- handshake ----

template <typename A>
void fields(A& a, Identity& identity) {
  a.integer(identity.uid, "uid");
  a.integer(identity.gid, "gid");
  integers(a, identity.groups, "groups", 1024);
}

template <typename A>
void fields(A& a, Hello& m) {
  a.text(m.software, "software", kMaxName);
  a.text(m.job, "job", kMaxName);
  a.integer(m.methods, "methods");
  fields(a, m.claim);
  a.raw(m.nonce.data(), m.nonce.size(), "nonce");
}

template <typename A>
void fields(A& a, Challenge& m) {
  a.integer(m.method, "method");
  a.require(m.method >= Method::kPeer && m.method <= Method::kMunge, "method", "is unknown");
  a.raw(m.nonce.data(), m.nonce.size(), "nonce");
}

template <typename A>
void fields(A& a, Proof& m) {
  a.raw(m.digest.data(), m.digest.size(), "digest");
  a.text(m.credential, "credential", 16 << 10);
}

template <typename A>
void fields(A& a, Welcome& m) {
  a.raw(m.digest.data(), m.digest.size(), "digest");
  a.text(m.node, "node", kMaxName);
  time(a, m.now, "now");
  a.integer(m.limits.requests, "requests");
  a.integer(m.limits.bytes, "bytes");
  a.require(m.limits.requests > 0 && m.limits.bytes > 0, "limits", "allow nothing at all");
  boolean(a, m.lend, "lend");
  integers(a, m.targets, "targets", 4096);
}

// ---- data ----

template <typename A>
void fields(A& a, FileReference& file) {
  a.integer(file.key, "file key");
  path(a, file.path, "path");
  a.integer(file.inode, "inode");
}

template <typename A>
void fields(A& a, Stamp& stamp) {
  a.integer(stamp.application, "application");
  a.integer(stamp.phase, "phase");
  time(a, stamp.issued, "issued");
  time(a, stamp.phase_start, "phase start");
  bytes(a, stamp.attained, "attained");
  bytes(a, stamp.phase_total, "phase total");
  a.integer(stamp.operation, "operation");
  bytes(a, stamp.bottleneck, "bottleneck");
}

template <typename A>
void fields(A& a, DataHead& data) {
  fields(a, data.file);
  a.integer(data.target, "target");
  fields(a, data.stamp);
  time(a, data.deadline, "deadline");
}

template <typename A>
void fields(A& a, ReadRequest& m) {
  fields(a, m.data);
  boolean(a, m.checksum, "checksum");
  extents(a, m.extents);
}

template <typename A>
void fields(A& a, ReadReply& m) {
  integers(a, m.lengths, "lengths", kMaxExtents);
}

template <typename A>
void fields(A& a, WriteRequest& m) {
  fields(a, m.data);
  extents(a, m.extents);
}

template <typename A>
void fields(A& a, WriteReply& m) {
  a.integer(m.written, "written");
}

template <typename A>
void fields(A& a, FsyncRequest& m) {
  fields(a, m.data);
  boolean(a, m.data_only, "data only");
}

template <typename A>
void fields(A& a, TruncateRequest& m) {
  fields(a, m.data);
  a.integer(m.size, "size");
  a.require(m.size <= kMaxOffset, "size", "is past 2^63");
}

template <typename A, Type type>
void fields(A&, PlainReply<type>&) {}

// ---- namespace ----

template <typename A>
void fields(A& a, Attributes& attributes) {
  a.integer(attributes.inode, "inode");
  a.integer(attributes.mode, "mode");
  a.integer(attributes.links, "links");
  a.integer(attributes.uid, "uid");
  a.integer(attributes.gid, "gid");
  a.integer(attributes.size, "size");
  a.integer(attributes.blocks, "blocks");
  a.integer(attributes.device, "device");
  time(a, attributes.accessed, "accessed");
  time(a, attributes.modified, "modified");
  time(a, attributes.changed, "changed");
}

template <typename A, Type type>
void fields(A& a, AttributesReply<type>& m) {
  fields(a, m.attributes);
}

template <typename A>
void access(A& a, std::uint8_t& value) {
  a.integer(value, "access");
  a.require(value <= 7, "access", "has unknown bits");
}

template <typename A>
void fields(A& a, LookupRequest& m) {
  path(a, m.path, "path");
  boolean(a, m.follow, "follow");
  access(a, m.access);
}

template <typename A>
void fields(A& a, StatRequest& m) {
  fields(a, m.file);
}

template <typename A>
void fields(A& a, CreateRequest& m) {
  path(a, m.path, "path");
  a.integer(m.mode, "mode");
  boolean(a, m.exclusive, "exclusive");
  boolean(a, m.truncate, "truncate");
  access(a, m.access);
}

template <typename A>
void fields(A& a, MakeDirectoryRequest& m) {
  path(a, m.path, "path");
  a.integer(m.mode, "mode");
}

template <typename A>
void fields(A& a, ReadDirectoryRequest& m) {
  path(a, m.path, "path");
  a.integer(m.cursor, "cursor");
  a.integer(m.most, "most");
}

template <typename A>
void fields(A& a, ReadDirectoryReply& m) {
  boolean(a, m.end, "end");
  list(a, m.entries, "entries", kMaxEntries, 22, [&](DirectoryEntry& entry) {
    entry_name(a, entry.name, "name");
    a.integer(entry.inode, "inode");
    a.integer(entry.type, "type");
    a.integer(entry.next, "next");
  });
}

template <typename A>
void fields(A& a, RenameRequest& m) {
  path(a, m.from, "from");
  path(a, m.to, "to");
  a.integer(m.flags, "flags");
}

template <typename A>
void fields(A& a, UnlinkRequest& m) {
  path(a, m.path, "path");
}

template <typename A>
void fields(A& a, RemoveDirectoryRequest& m) {
  path(a, m.path, "path");
}

template <typename A>
void fields(A& a, SetAttributesRequest& m) {
  path(a, m.path, "path");
  boolean(a, m.follow, "follow");
  a.integer(m.mask, "mask");
  a.require(m.mask < 32, "mask", "has unknown bits");
  a.integer(m.mode, "mode");
  a.integer(m.uid, "uid");
  a.integer(m.gid, "gid");
  time(a, m.accessed, "accessed");
  time(a, m.modified, "modified");
}

template <typename A>
void fields(A& a, SymlinkRequest& m) {
  path(a, m.path, "path");
  c_text(a, m.target, "target", kMaxPath);
}

template <typename A>
void fields(A& a, ReadLinkRequest& m) {
  path(a, m.path, "path");
}

template <typename A>
void fields(A& a, ReadLinkReply& m) {
  a.text(m.target, "target", kMaxPath);
}

template <typename A>
void fields(A& a, LinkRequest& m) {
  path(a, m.from, "from");
  path(a, m.to, "to");
}

template <typename A>
void fields(A& a, GetXattrRequest& m) {
  path(a, m.path, "path");
  c_text(a, m.attribute, "attribute", kMaxName);
}

template <typename A>
void fields(A& a, GetXattrReply& m) {
  a.text(m.value, "value", kMaxXattr);
}

template <typename A>
void fields(A& a, SetXattrRequest& m) {
  path(a, m.path, "path");
  c_text(a, m.attribute, "attribute", kMaxName);
  a.text(m.value, "value", kMaxXattr);
  a.integer(m.flags, "flags");
}

template <typename A>
void fields(A& a, ListXattrRequest& m) {
  path(a, m.path, "path");
}

template <typename A>
void fields(A& a, ListXattrReply& m) {
  list(a, m.attributes, "attributes", kMaxXattr / 2, 4,
       [&](std::string& name) { c_text(a, name, "attribute", kMaxName); });
}

template <typename A>
void fields(A& a, RemoveXattrRequest& m) {
  path(a, m.path, "path");
  c_text(a, m.attribute, "attribute", kMaxName);
}

template <typename A>
void fields(A&, StatFsRequest&) {}

template <typename A>
void fields(A& a, StatFsReply& m) {
  for (auto* value : {&m.block_size, &m.blocks, &m.free_blocks, &m.available_blocks, &m.files, &m.free_files}) {
    a.integer(*value, "statfs");
  }
}

template <typename A>
void fields(A& a, CloseRequest& m) {
  a.integer(m.key, "file key");
}

// ---- control ----

template <typename A>
void fields(A&, PolicyShowRequest&) {}

template <typename A>
void fields(A& a, PolicyReply& m) {
  a.text(m.policy, "policy", kMaxName);
  fields(a, m.options);
}

template <typename A>
void fields(A& a, PolicySetRequest& m) {
  a.text(m.policy, "policy", kMaxName);
  fields(a, m.options);
}

template <typename A>
void fields(A& a, StatisticsRequest& m) {
  a.integer(m.first, "first");
}

template <typename A>
void fields(A& a, Usage& usage) {
  a.integer(usage.application, "application");
  a.integer(usage.target, "target");
  a.text(usage.job, "job", kMaxName);
  for (auto* value : {&usage.requests, &usage.read_bytes, &usage.written_bytes, &usage.waiting, &usage.waiting_bytes}) {
    a.integer(*value, "usage");
  }
  duration(a, usage.queued, "queued");
  duration(a, usage.engine, "engine");
}

template <typename A>
void fields(A& a, StatisticsReply& m) {
  a.text(m.node, "node", kMaxName);
  a.text(m.policy, "policy", kMaxName);
  duration(a, m.uptime, "uptime");
  for (auto* value : {&m.connections, &m.waiting, &m.waiting_bytes, &m.in_flight, &m.batches, &m.batched_requests,
                      &m.refused, &m.buffer_bytes}) {
    a.integer(*value, "statistics");
  }
  boolean(a, m.more, "more");
  list(a, m.usage, "usage", kMaxUsage, 68, [&](Usage& usage) { fields(a, usage); });
}

template <typename A>
void fields(A&, HealthRequest&) {}

template <typename A>
void fields(A& a, HealthReply& m) {
  for (auto* value : {&m.node, &m.software, &m.engine, &m.policy}) a.text(*value, "health", kMaxName);
  a.text(m.root, "root", kMaxPath);
  boolean(a, m.stopping, "stopping");
  duration(a, m.uptime, "uptime");
  a.integer(m.process, "process");
  integers(a, m.targets, "targets", 4096);
}

template <typename A>
void fields(A& a, StopRequest& m) {
  boolean(a, m.drain, "drain");
}

}  // namespace tutti::wire

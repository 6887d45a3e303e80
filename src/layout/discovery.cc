// SPDX-License-Identifier: Apache-2.0
#include "layout/discovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>

namespace tutti {
namespace {

constexpr std::uint32_t kLustreV1 = 0x0BD10BD0;
constexpr std::uint32_t kLustreV3 = 0x0BD30BD0;
constexpr std::uint32_t kLustreComposite = 0x0BD60BD0;
constexpr std::size_t kLustreHeader = 32;  // version 3 adds a pool name of 16 bytes
constexpr std::size_t kLustreObject = 24;
constexpr std::uint32_t kMostTargets = 1 << 20;

Failure odd(std::string_view attribute, std::string_view problem) {
  return fail(ErrorCode::kInvalid, fmt::format("{}: {}", attribute, problem));
}

template <typename Integer>
Integer little(std::string_view bytes, std::size_t at) {
  Integer value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// "a=1 b=2" as a map.
std::map<std::string, std::string, std::less<>> words(std::string_view text) {
  std::map<std::string, std::string, std::less<>> result;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    if (const auto equals = word.find('='); equals != word.npos) {
      result.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::optional<std::uint64_t> number(const std::map<std::string, std::string, std::less<>>& from, std::string_view key) {
  const auto found = from.find(key);
  if (found == from.end()) return std::nullopt;
  std::uint64_t value = 0;
  const auto* end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

Result<Layout> checked(Layout layout, std::string_view attribute) {
  if (auto fine = layout.check(); !fine) return odd(attribute, fine.error().message);
  return layout;
}

std::vector<TargetId> all_targets(std::uint32_t count) {
  std::vector<TargetId> targets(std::max(count, 1U));
  for (std::uint32_t i = 0; i < targets.size(); ++i) targets[i] = i;
  return targets;
}

std::optional<std::string> read_attribute(const std::string& path, const std::string& name) {
  std::string value(64 << 10, '\0');
  const auto size = ::getxattr(path.c_str(), name.c_str(), value.data(), value.size());
  if (size < 0) return std::nullopt;
  value.resize(static_cast<std::size_t>(size));
  return value;
}

// BeeGFS has an ioctl of its kernel module instead of an attribute (documented in its client_devel headers).
struct BeegfsStripes {
  unsigned pattern = 0;
  unsigned chunk_size = 0;
  std::uint16_t targets = 0;
};
struct BeegfsTarget {
  std::uint32_t index = 0;
  std::uint32_t target_or_group = 0;
  std::uint32_t primary_target = 0, secondary_target = 0;
  std::uint32_t primary_node = 0, secondary_node = 0;
  char primary_alias[256] = {};
  char secondary_alias[256] = {};
};
constexpr unsigned long kBeegfsGetStripes = _IOR('f', 25, BeegfsStripes);
constexpr unsigned long kBeegfsGetTarget = _IOR('f', 26, BeegfsTarget);

std::optional<Layout> ask_beegfs(int file) {
  BeegfsStripes stripes;
  if (::ioctl(file, kBeegfsGetStripes, &stripes) != 0 || stripes.targets == 0) return std::nullopt;
  Layout layout{.stripe_size = Bytes(stripes.chunk_size),
                .stripe_count = stripes.targets,
                .object_size = {},
                .targets = {},
                .source = "beegfs"};
  for (std::uint32_t i = 0; i < stripes.targets; ++i) {
    BeegfsTarget target{.index = i};
    if (::ioctl(file, kBeegfsGetTarget, &target) != 0) return std::nullopt;
    layout.targets.push_back(target.target_or_group);
  }
  if (!layout.check()) return std::nullopt;
  return layout;
}

}  // namespace

Result<Layout> parse_lustre(std::string_view value) {
  constexpr std::string_view kName = "lustre.lov";
  if (value.size() < 4) return odd(kName, "cut off");
  const auto magic = little<std::uint32_t>(value, 0);
  if (magic == kLustreComposite) {
    return odd(kName,
               "a composite (progressive) layout, which changes along the file; give the stripes by configuration");
  }
  if (magic != kLustreV1 && magic != kLustreV3) return odd(kName, fmt::format("unknown magic {:#x}", magic));
  const auto header = kLustreHeader + (magic == kLustreV3 ? 16 : 0);
  if (value.size() < header) return odd(kName, "cut off");
  if (const auto pattern = little<std::uint32_t>(value, 4); (pattern & 0xff) != 1) {
    return odd(kName, fmt::format("unknown pattern {:#x}; only plain striping is understood", pattern));
  }
  Layout layout{.stripe_size = Bytes(little<std::uint32_t>(value, 24)),
                .stripe_count = little<std::uint16_t>(value, 28),
                .object_size = {},
                .targets = {},
                .source = "lustre"};
  if (value.size() < header + layout.stripe_count * kLustreObject) return odd(kName, "cut off");
  for (std::size_t i = 0; i < layout.stripe_count; ++i) {
    layout.targets.push_back(little<std::uint32_t>(value, header + i * kLustreObject + 20));
  }
  return checked(std::move(layout), kName);
}

std::string make_lustre(const Layout& layout) {
  std::string value(kLustreHeader + layout.stripe_count * kLustreObject, '\0');
  const auto put = [&](std::size_t at, auto number) { std::memcpy(value.data() + at, &number, sizeof number); };
  put(0, std::uint32_t{kLustreV1});
  put(4, std::uint32_t{1});
  put(24, static_cast<std::uint32_t>(layout.stripe_size.count()));
  put(28, static_cast<std::uint16_t>(layout.stripe_count));
  for (std::size_t i = 0; i < layout.stripe_count; ++i)
    put(kLustreHeader + i * kLustreObject + 20, std::uint32_t{layout.targets[i]});
  return value;
}

Result<Layout> parse_ceph(std::string_view value, std::uint32_t cluster_targets) {
  constexpr std::string_view kName = "ceph.file.layout";
  const auto fields = words(value);
  const auto unit = number(fields, "stripe_unit"), count = number(fields, "stripe_count");
  const auto object = number(fields, "object_size");
  if (!unit || !count || !object || *count == 0 || *count > kMostTargets) {
    return odd(kName, fmt::format("cannot understand \"{}\"", value.substr(0, 200)));
  }
  return checked({.stripe_size = Bytes(*unit),
                  .stripe_count = static_cast<std::uint32_t>(*count),
                  .object_size = Bytes(*object),
                  .targets = all_targets(cluster_targets),
                  .source = "cephfs"},
                 kName);
}

Result<Layout> parse_gluster(std::string_view value, std::uint32_t cluster_targets) {
  constexpr std::string_view kName = "trusted.glusterfs.pathinfo";
  constexpr std::string_view kBrick = "<POSIX(";
  const auto start = value.find(kBrick);
  const auto end = value.find(')', start);
  if (start == value.npos || end == value.npos) return odd(kName, "no brick in it");
  const auto host_end = value.find(':', std::min(end + 2, value.size()));
  if (host_end == value.npos) return odd(kName, "a brick without a host");
  // A distributed volume keeps a whole file on one brick. A hash of the brick's name gives the same target in every
  // client.
  const auto brick = value.substr(start + kBrick.size(), host_end - start - kBrick.size());
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : brick) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  const auto target = static_cast<TargetId>(hash % std::max(cluster_targets, 1U));
  return Layout{
      .stripe_size = Bytes(1 << 20), .stripe_count = 1, .object_size = {}, .targets = {target}, .source = "gluster"};
}

const std::vector<std::string>& layout_attributes() {
  static const std::vector<std::string> names{"lustre.lov", "ceph.file.layout", "trusted.glusterfs.pathinfo"};
  return names;
}

Result<std::optional<Layout>> discover(const AttributeReader& attributes, std::uint32_t cluster_targets) {
  Result<Layout> layout;
  if (auto lustre = attributes("lustre.lov")) {
    layout = parse_lustre(*lustre);
  } else if (auto ceph = attributes("ceph.file.layout")) {
    layout = parse_ceph(*ceph, cluster_targets);
  } else if (auto gluster = attributes("trusted.glusterfs.pathinfo")) {
    layout = parse_gluster(*gluster, cluster_targets);
  } else {
    return std::optional<Layout>();
  }
  if (!layout) return Failure(layout.error());
  return std::optional(std::move(*layout));
}

Result<std::optional<Layout>> discover_file(const std::string& path, std::uint32_t cluster_targets) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open {}: {}", path, std::strerror(errno)), errno);
  }
  auto beegfs = ask_beegfs(file);
  ::close(file);
  if (beegfs) return beegfs;
  return discover([&](const std::string& name) { return read_attribute(path, name); }, cluster_targets);
}

}  // namespace tutti

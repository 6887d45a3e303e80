// SPDX-License-Identifier: Apache-2.0
// Asking the file system underneath how it stripes a file: by extended attributes, and by ioctl where there are none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "layout/layout.h"

namespace tutti {

// The value of an extended attribute of the file, or nothing if it has none of that name.
using AttributeReader = std::function<std::optional<std::string>(const std::string& name)>;

// What the file system says about the file, read through `attributes`; nothing if it says nothing (a local directory,
// NFS, ...). kInvalid if it says something that cannot be understood. File systems that do not tell which of
// `cluster_targets` targets holds what (CephFS, Gluster) have their objects spread over all of them.
Result<std::optional<Layout>> discover(const AttributeReader& attributes, std::uint32_t cluster_targets);

// The same for a file on a mount of this machine; asks BeeGFS, too.
Result<std::optional<Layout>> discover_file(const std::string& path, std::uint32_t cluster_targets);

// The formats by themselves, for tests.
// "lustre.lov": struct lov_mds_md version 1 or 3, little-endian. Composite layouts are refused with a message.
Result<Layout> parse_lustre(std::string_view value);
// "ceph.file.layout": "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data"
Result<Layout> parse_ceph(std::string_view value, std::uint32_t cluster_targets);
// "trusted.glusterfs.pathinfo": "(<DISTRIBUTE:vol-dht> <POSIX(/brick):host:/brick/file>)"
Result<Layout> parse_gluster(std::string_view value, std::uint32_t cluster_targets);

}  // namespace tutti

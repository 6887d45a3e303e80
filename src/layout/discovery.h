// SPDX-License-Identifier: Apache-2.0
// Reads the layout of a file from the underlying file system: from extended attributes, or by ioctl on BeeGFS.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"

namespace tutti {

// Returns the value of an extended attribute of the file, or nothing if the file does not have it.
using AttributeReader = std::function<std::optional<std::string>(const std::string& name)>;

// The attributes that discover() reads, in this order.
const std::vector<std::string>& layout_attributes();

// The layout of a file, read through `attributes`. Nothing if the file system has no layout attributes (a local
// directory, NFS, ...). kInvalid if an attribute cannot be parsed. CephFS and Gluster do not say which target holds an
// object; their objects are spread over all `cluster_targets` targets.
Result<std::optional<Layout>> discover(const AttributeReader& attributes, std::uint32_t cluster_targets);

// The same for a file on a mount of this machine. Also supports BeeGFS.
Result<std::optional<Layout>> discover_file(const std::string& path, std::uint32_t cluster_targets);

// The formats, separately for tests.
// "lustre.lov": struct lov_mds_md version 1 or 3, little-endian. Composite layouts are refused with a message.
Result<Layout> parse_lustre(std::string_view value);
std::string make_lustre(const Layout& layout);
// "ceph.file.layout": "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=data"
Result<Layout> parse_ceph(std::string_view value, std::uint32_t cluster_targets);
// "trusted.glusterfs.pathinfo": "(<DISTRIBUTE:vol-dht> <POSIX(/brick):host:/brick/file>)"
Result<Layout> parse_gluster(std::string_view value, std::uint32_t cluster_targets);

}  // namespace tutti

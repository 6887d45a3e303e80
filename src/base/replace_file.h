// SPDX-License-Identifier: Apache-2.0
// Writes a file completely or not at all.
#pragma once

#include <sys/types.h>
#include <tutti/base.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

// Writes to a temporary file beside `path` and renames it, so that a failed write leaves an existing file as it was. A
// symbolic link stays, and the file that it points to is replaced. What exists and is no regular file, such as
// /dev/stdout or a pipe, is written to directly. `mode` is that of a new file, less the umask. kIo: names the path.
Result<void> replace_file(const std::string& path, std::span<const std::byte> bytes, mode_t mode = 0666);
inline Result<void> replace_file(const std::string& path, std::string_view text, mode_t mode = 0666) {
  return replace_file(path, std::as_bytes(std::span(text)), mode);
}

}  // namespace tutti

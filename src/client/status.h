// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/client.h>

#include "wire/messages.h"

namespace tutti {

inline FileStatus to_status(const wire::Attributes& from) {
  return {.inode = from.inode,
          .generation = from.generation,
          .mode = from.mode,
          .links = from.links,
          .uid = from.uid,
          .gid = from.gid,
          .size = from.size,
          .blocks = from.blocks,
          .device = from.device,
          .accessed = from.accessed,
          .modified = from.modified,
          .changed = from.changed};
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace tutti {

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

void reserve_descriptors(std::size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto last = static_cast<int>(std::min<rlim_t>(count, limit.rlim_cur)) - 1;
  const Descriptor any(::open("/", O_PATH | O_CLOEXEC));
  const Descriptor highest(::fcntl(any.get(), F_DUPFD_CLOEXEC, last));
}

}  // namespace tutti

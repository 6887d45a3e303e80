// SPDX-License-Identifier: Apache-2.0
#include "engine/credentials.h"

#include <fmt/core.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace tutti {
namespace {

// The C library's setgroups changes every thread of the process; the system call changes only the caller's.
bool set_thread_groups(const std::vector<gid_t>& groups) {
  return syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

Credentials read_own_credentials() {
  Credentials own{geteuid(), getegid(), {}};
  const int count = getgroups(0, nullptr);
  if (count > 0) {
    own.groups.resize(static_cast<std::size_t>(count));
    own.groups.resize(static_cast<std::size_t>(std::max(0, getgroups(count, own.groups.data()))));
  }
  return own;
}

// Capabilities of the calling thread. Changing the file system user id drops only some of them: the caller could still
// set trusted attributes or file capabilities, so this code drops the rest.
struct Capabilities {
  __user_cap_data_struct words[2]{};

  static Capabilities current() {
    Capabilities capabilities;
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    if (syscall(SYS_capget, &header, capabilities.words) != 0) return {};
    return capabilities;
  }

  bool apply() const {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    return syscall(SYS_capset, &header, words) == 0;
  }

  // Keeps only the two capabilities that are needed to change users again. File systems do not check them.
  Capabilities reduced() const {
    Capabilities less = *this;
    less.words[0].effective &= kIdentity;
    less.words[1].effective = 0;
    return less;
  }

  bool may_change_identity() const { return (words[0].effective & kIdentity) == kIdentity; }

  static constexpr std::uint32_t kIdentity = (1U << CAP_SETUID) | (1U << CAP_SETGID);
};

const Capabilities& own_capabilities() {
  static const Capabilities own = Capabilities::current();
  return own;
}

}  // namespace

const Credentials& own_credentials() {
  static const Credentials own = read_own_credentials();
  return own;
}

Result<void> may_act_for(const Credentials& credentials) {
  if (own_capabilities().may_change_identity() || credentials.uid == own_credentials().uid) return {};
  return fail(ErrorCode::kDenied,
              fmt::format("this node runs as user {} without the right to act for others and serves that user only, "
                          "not user {}",
                          own_credentials().uid, credentials.uid),
              EACCES);
}

ActingAs::ActingAs(const Credentials& credentials) {
  const Credentials& own = own_credentials();
  if (credentials == own) return;
  if (!may_act_for(credentials)) {
    ok_ = false;
    return;
  }
  // Without privileges may_act_for() allows only the process's own user, whose rights it already has.
  if (!own_capabilities().may_change_identity()) return;
  changed_ = true;
  if (!set_thread_groups(credentials.groups)) {
    ok_ = false;
    restore();
    return;
  }
  setfsgid(credentials.gid);
  setfsuid(credentials.uid);
  // Both calls return the previous value and never an error. A call with an invalid id returns the current value.
  ok_ = static_cast<uid_t>(setfsuid(static_cast<uid_t>(-1))) == credentials.uid &&
        static_cast<gid_t>(setfsgid(static_cast<gid_t>(-1))) == credentials.gid;
  if (credentials.uid != 0) ok_ = own_capabilities().reduced().apply() && ok_;
  if (!ok_) restore();
}

ActingAs::~ActingAs() {
  if (changed_) restore();
}

void ActingAs::restore() {
  const Credentials& own = own_credentials();
  setfsuid(own.uid);
  setfsgid(own.gid);
  const bool restored = own_capabilities().apply() && set_thread_groups(own.groups);
  assert(restored);
  static_cast<void>(restored);
  changed_ = false;
}

}  // namespace tutti

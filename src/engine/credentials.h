// SPDX-License-Identifier: Apache-2.0
// On whose behalf something is done, and doing it with exactly that user's rights.
#pragma once

#include <sys/types.h>
#include <tutti/base.h>

#include <compare>
#include <memory>
#include <vector>

namespace tutti {

struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // supplementary

  friend auto operator<=>(const Credentials&, const Credentials&) = default;
};

// Those of this process, read once.
const Credentials& own_credentials();

// kDenied if this process cannot take on the rights of `credentials`: a process without CAP_SETUID and CAP_SETGID
// serves its own user only.
Result<void> may_act_for(const Credentials& credentials);

// The supplementary groups of `uid` as this machine's user database has them, for callers whose kernel is elsewhere.
std::vector<gid_t> groups_of(uid_t uid, gid_t gid);

// While it lives, file system calls of this thread (and of no other) are checked against `credentials`.
// Not to be nested.
class ActingAs {
 public:
  explicit ActingAs(const Credentials& credentials);
  ~ActingAs();
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

  // False: the rights could not be taken on and the caller must not go on.
  bool ok() const { return ok_; }

 private:
  void restore();

  bool changed_ = false;
  bool ok_ = true;
};

}  // namespace tutti

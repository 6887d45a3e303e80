// SPDX-License-Identifier: Apache-2.0
// User credentials, and running file system calls with the rights of that user.
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

// Credentials of this process, read once.
const Credentials& own_credentials();

// kDenied if this process cannot act with the rights of `credentials`. Without CAP_SETUID and CAP_SETGID a process can
// serve only its own user.
Result<void> may_act_for(const Credentials& credentials);

// During its lifetime the kernel checks file system calls of this thread (only) against `credentials`. Must not be
// nested.
class ActingAs {
 public:
  explicit ActingAs(const Credentials& credentials);
  ~ActingAs();
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

  // False: the credentials could not be set. The caller must not make the call.
  bool ok() const { return ok_; }

 private:
  void restore();

  bool changed_ = false;
  bool ok_ = true;
};

}  // namespace tutti

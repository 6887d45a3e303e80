// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <string>

namespace tutti {

// A new directory that only this user can access. The destructor removes it with its content. If the process ends
// without it, also by kill -9, another process removes the directory as soon as the children of this process have
// ended, too.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }  // empty: creation failed, see errno
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int owner_ = getpid();
  int guard_ = -1;  // process
  int pipe_ = -1;   // to it; nothing is written
};

}  // namespace tutti

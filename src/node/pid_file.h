// SPDX-License-Identifier: Apache-2.0
// Allows one process at a time, and finds it.
#pragma once

#include <sys/types.h>
#include <tutti/base.h>

#include <memory>
#include <string>

#include "base/descriptor.h"

namespace tutti {

// A file that names a process, locked (flock) while the process runs. The lock, not the content, tells whether the
// process is alive: a file that a dead process left is not locked.
//
// The content is one line each: process id, boot id, pid namespace, start time (field 22 of /proc/PID/stat). The file
// may be on a file system that several machines or containers share, and the same number is another process there.
class PidFile {
 public:
  // The process that has the lock.
  struct Holder {
    bool held = false;     // by some process, or the file cannot be opened to see that
    pid_t process = -1;    // that process, if it is certain that it runs here
    Descriptor handle;     // a pidfd: it never refers to a later process with the same id
    std::string not_here;  // if held and process is -1: why
  };

  // kDuplicate if another process holds it.
  static Result<std::unique_ptr<PidFile>> take(const std::string& path);
  static Holder holder(const std::string& path);

  ~PidFile();  // removes the file
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  PidFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  const std::string path_;
  const int descriptor_;
};

}  // namespace tutti
